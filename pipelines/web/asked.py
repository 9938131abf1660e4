"""The parameters of a request's URL: checked, and put back into the URLs of links."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from pipelines.errors import UsageError
from pipelines.lake.queries import Filter
from pipelines.verdict.since import Since, moment_of, since_of

SINCE = "1d"
PER_PAGE, MOST = 100, 1000
LONGEST = 300
"""Characters of a name or a search."""
_INT32 = 2**31 - 1
_KEPT = ("cluster", "since", "until", "refresh", "limit")


@dataclass(frozen=True)
class Asked:
    """The state of a page, all of it in the URL; what is not named there has these values."""

    cluster: str | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    alert_id: str | None = None
    incident_id: str | None = None
    kind: str | None = None
    since: str = SINCE
    until: str | None = None
    q: str = ""
    page: int = 1
    limit: int = PER_PAGE
    refresh: str = "on"
    timings: dict[str, float] = field(default_factory=dict, compare=False)

    @property
    def wanted(self) -> Filter:
        """The filter of rows, without a period."""
        return Filter(self.cluster, self.topic, self.partition)

    @property
    def period(self) -> Since:
        return since_of(self.since)

    @property
    def until_ts(self) -> datetime | None:
        """The end of the time asked for, None: the present."""
        return None if self.until is None else moment_of("until =", self.until)

    def url(self, path: str, **changes: Any) -> str:
        """The URL of a view that keeps the cluster, the time and whether it refreshes, and has these values beside."""
        return path + replace(Asked(**self.kept()), **changes).query()

    def kept(self, *names: str, **changes: Any) -> dict[str, Any]:
        """Fields that a link or form keeps: the cluster, the time, whether the page refreshes, and these."""
        changed = replace(self, **changes).changed()
        return {name: value for name, value in changed.items() if name in (*_KEPT, *names)}

    def here(self, path: str, **changes: Any) -> str:
        """The same URL with other values."""
        return path + replace(self, **changes).query()

    def query(self) -> str:
        """The part of the URL behind the path."""
        changed = self.changed()
        return f"?{urlencode(changed)}" if changed else ""

    def changed(self) -> dict[str, Any]:
        """Fields that differ from the defaults."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.compare}
        return {name: value for name, value in values.items() if value != getattr(_DEFAULT, name)}


_DEFAULT = Asked()


def asked_of(given: dict[str, str]) -> Asked:
    """The parameters of a URL. Raises UsageError naming the bad value; unknown names are left alone."""
    known = {f.name for f in fields(Asked) if f.compare}
    values: dict[str, Any] = {name: value for name, value in given.items() if name in known and value != ""}
    for name in ("cluster", "topic", "alert_id", "incident_id", "kind", "q", "since", "until"):
        if len(values.get(name, "")) > LONGEST:
            raise UsageError(f"{name} has {len(values[name]):,} characters; at most {LONGEST} are looked for")
    for name, least, most in (
        ("partition", 0, _INT32), ("broker", -1, _INT32), ("page", 1, 1_000_000), ("limit", 1, MOST),
    ):  # fmt: skip
        if name in values:
            values[name] = _number(name, values[name], least, most)
    if values.get("refresh", "on") not in ("on", "off"):
        raise UsageError(f"refresh is {values['refresh']}; say on or off")
    made = Asked(**values)
    _check_since(made)
    return made


def _check_since(made: Asked) -> None:
    """Raise UsageError for what is no time, in the words of a URL."""
    try:
        since_of(made.since)
        _ = made.until_ts
    except UsageError as error:
        raise UsageError(str(error).replace("--since", "since =", 1)) from error


def _number(name: str, text: str, least: int, most: int) -> int:
    try:
        value = int(text) if len(text) < 20 else None
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise UsageError(f"{name} is {text[:40]}; say a number from {least:,} to {most:,}")
    return value
