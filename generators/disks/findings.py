"""Findings of an audit: what was found, how grave it is, and on which replica."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

SHOWN = 3
"""Places named in one finding."""


class Severity(StrEnum):
    """The gravity of a finding: only `critical` and `unknown` change the exit status."""

    CRITICAL = "critical"
    UNKNOWN = "unknown"
    INFO = "info"


class Finding(NamedTuple):
    """One thing that an audit found on one replica; offsets are half-open."""

    topic: str
    partition: int
    broker_id: int | None
    kind: str
    severity: Severity
    detail: str
    from_offset: int | None = None
    to_offset: int | None = None
    other_broker_id: int | None = None
    topic_id: str | None = None
    directory_id: str | None = None
