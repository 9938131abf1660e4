"""Pages from Jinja templates: everything that others chose is escaped, and printed so that it can do nothing."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipelines.printable import printable

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(package: str) -> Environment:
    """The templates of a package and of charts, from their folders `templates`; a name that one lacks is an error."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("pipelines.charts")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"time": time, "ids": ids, "number": number, "slug": slug, "iso": iso, "quoted": shlex.quote}
    made.filters["clock"] = time
    return made


def _shown(value: Any) -> Any:
    """Words lose what could steer a page; marked-up ones are the page's own. Unknown is said, never blank."""
    if value is None:
        return "not known"
    return value if hasattr(value, "__html__") else printable(str(value))


def time(ts: datetime | None) -> str:
    """A time of day with milliseconds and its date, UTC."""
    return "not known" if ts is None else f"{ts:%Y-%m-%d %H:%M:%S}.{ts.microsecond // 1000:03}"


def iso(ts: datetime) -> str:
    """A moment as links and scripts have it, in UTC."""
    return ts.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ids(values: list[int] | None) -> str:
    """`1, 2, 3`, `none`, or `not known`."""
    return "not known" if values is None else ", ".join(map(str, values)) or "none"


def number(value: float | None) -> str:
    """`12,345`, or `not known`."""
    return "not known" if value is None else f"{value:,}"


def slug(state: str) -> str:
    """A state as a class of CSS: `under-min-isr`."""
    return state.lower().replace(" ", "-").replace("_", "-")
