"""One state of one alert, as `ops/alerts` keeps it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from pipelines.verdict import words
from schemas import alerts

_COMMA = ",\N{NO-BREAK SPACE}"
_MORE = re.compile(r" and [\d,]+ more$")
RECORDING_ENDED = "recording ended"
"""The END of an alert on a state that lasted until its recording ended."""
FORGOTTEN = "forgotten"
"""The END of an alert on a cluster that is no longer in bronze or gold."""
WITHDRAWN = "withdrawn"
"""The END of an alert that is no longer found, because its verdict was revised."""
NOT_KNOWN = "not known since"
"""The words in the summary of an alert that fires, if nothing shows whether it is over."""
LABELLED = 100
"""The most items that labels name; the sentence names fewer, the silver tables have all."""
Size = tuple[int | None, int | None, int]
"""Size of an alert: its partitions or sources, the offsets lost (both None if not told), and the falls."""
END = "end"
"""The label for an end that is no recovery: withdrawn, handled, with its recording, or forgotten."""


OTHERS = "others"
"""The label of an alert that has more behind it than the brokers that it names."""


@dataclass(frozen=True)
class AlertState:
    """One row of `ops/alerts`; (alert_id, first_ts) is one episode, times are aware and in UTC."""

    alert_id: str
    rule: str
    severity: str
    state: str
    subject: str
    first_ts: datetime
    last_ts: datetime
    summary: str
    labels: Mapping[str, str] = field(default_factory=dict)
    written_at: datetime | None = field(default=None, compare=False)

    @property
    def firing(self) -> bool:
        return self.state == "firing"

    @property
    def withdrawn(self) -> bool:
        return self.labels.get(END) == WITHDRAWN

    @property
    def episode(self) -> tuple[str, datetime]:
        return self.alert_id, self.first_ts

    @property
    def size(self) -> Size:
        """The number of partitions or sources it is or was about, of lost offsets, and of falls."""
        count, offsets = self.labels.get("count"), self.labels.get("offsets")
        about = int(count) + int(self.labels.get("over_count", 0)) if count else None
        return about, int(offsets) if offsets else None, int(self.labels.get("falls", about or 0))

    @property
    def names(self) -> set[str]:
        """The partitions, sources or channel that it is or was about, as far as it names them."""
        return {
            one for label in ("partitions", "sources", "over", "channel") for one in _names(self.labels.get(label, ""))
        }

    @property
    def brokers(self) -> set[int]:
        """The brokers because of which it fires, as far as it names them."""
        return set(map(int, _names(self.labels.get("brokers", ""))))

    @property
    def assignment(self) -> set[int]:
        """The brokers that its partitions are assigned to, as far as it names them."""
        return set(map(int, _names(self.labels.get("assigned", ""))))

    @property
    def topics(self) -> set[str]:
        """The topics of its partitions, as far as it names them."""
        return {one for label in ("topic", "topics") for one in _names(self.labels.get(label, ""))}

    @property
    def present(self) -> set[str]:
        """The partitions or sources that it is about now, as far as it names them."""
        return self.names - _names(self.labels.get("over", ""))

    def covers(self, items: Collection[str]) -> bool:
        """Whether its labels name all of these partitions or sources; True if there are more than labels hold."""
        return self.names.issuperset(items) or (self.size[0] or 0) > LABELLED

    def adds_to(self, told: AlertState) -> bool:
        """Whether it is about a partition or source that was not present in `told`, an earlier state of it."""
        whole = all((one.size[0] or 0) <= LABELLED for one in (self, told))
        return whole and not self.present <= told.present

    def exceeds(self, size: Size) -> bool:
        """Whether it is larger than that size."""
        return any(a is not None and b is not None and a > b for a, b in zip(self.size, size, strict=True))

    def says_the_same(self, other: AlertState) -> bool:
        """Whether only `last_ts` differs, or for an ended alert the assignment: neither is news."""
        each = (one if one.firing else replace(one, labels={**one.labels, "assigned": ""}) for one in (self, other))
        mine, theirs = (replace(one, last_ts=one.first_ts, subject="", labels=dict(one.labels)) for one in each)
        return mine == theirs


def _names(label: str) -> set[str]:
    return {one.replace(_COMMA, ", ") for one in _MORE.sub("", label).split(", ") if one}


def listed(names: Sequence[str]) -> str:
    """Names as the text of a label; a comma inside a name, as a path may have, stands before a no-break space there."""
    return words.listed([name.replace(", ", _COMMA) for name in names], LABELLED)


def alert_id(rule: str, cluster: str, cause: str, subject: str) -> str:
    """The same 16 hexadecimal digits for the same alert, in every run and on every machine."""
    return hashlib.sha256("\0".join((rule, cluster, cause, subject)).encode()).hexdigest()[:16]


def to_arrow(states: Sequence[AlertState]) -> pa.Table:
    """Rows in the schema of `ops/alerts`."""
    rows = [{**vars(state), "labels": sorted(state.labels.items())} for state in states]
    return pa.Table.from_pylist(rows, schema=alerts.ARROW)


def from_arrow(rows: pa.Table) -> list[AlertState]:
    """The states that `ops/alerts` holds, in no order."""
    return [from_row(row) for row in rows.select(alerts.ARROW.names).cast(alerts.ARROW).to_pylist()]


def from_row(row: Mapping[str, Any]) -> AlertState:
    """The state that one row of `ops/alerts` holds."""
    return AlertState(**{**row, "labels": dict(row["labels"] or ())})
