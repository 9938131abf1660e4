"""Pages from Jinja templates: everything that others chose is escaped, and printed so that it can do nothing."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pipelines.printable import printable

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(package: str) -> Environment:
    """The templates of a package, from its folder `templates`; a name that a template does not get is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"time": time, "ids": ids, "number": number}
    return made


def _shown(value: Any) -> Any:
    """Words lose what could steer a page; marked-up ones are the page's own. Unknown is said, never blank."""
    if value is None:
        return "not known"
    return value if hasattr(value, "__html__") else printable(str(value))


def time(ts: datetime | None) -> str:
    """A time of day with milliseconds and its date, UTC."""
    return "not known" if ts is None else f"{ts:%Y-%m-%d %H:%M:%S}.{ts.microsecond // 1000:03}"


def ids(values: list[int] | None) -> str:
    """`1, 2, 3`, `none`, or `not known`."""
    return "not known" if values is None else ", ".join(map(str, values)) or "none"


def number(value: float | None) -> str:
    """`12,345`, or `not known`."""
    return "not known" if value is None else f"{value:,}"
