"""The removal of a cluster in several steps: by `hwmark forget`, or by `hwmark run --once --rebuild --cluster`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pipelines.errors import UsageError
from pipelines.lake.lake import Lake
from pipelines.lake.records import record

RECORD = "_forget.json"
"""The removal that is under way: there from its first step to its last."""


@dataclass(frozen=True)
class Removal:
    """A cluster to take out, or its rows before a time; `again`: what is made of it, to be made anew from bronze."""

    cluster: str
    before: datetime | None = None
    again: bool = False

    @property
    def words(self) -> str:
        if self.again:
            return f"hwmark run --once --rebuild --cluster {self.cluster}"
        before = "" if self.before is None else f" --before {self.before:%Y-%m-%dT%H:%M:%SZ}"
        return f"hwmark forget --cluster {self.cluster}{before}"


def require_finished(lake: Lake, but: Removal | None = None) -> Removal | None:
    """The removal that is under way, which is `but` that. Raises UsageError where it is another one."""
    begun = record(lake, RECORD, Removal)
    if begun not in (None, but):
        raise UsageError(f"`{begun.words}` was cut off: call that again first")
    return begun
