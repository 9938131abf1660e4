"""Sentences about a cluster's controllers, from a watcher's rows."""

from __future__ import annotations

from datetime import datetime

from pipelines.replication.metadata.broker_states import has_majority
from pipelines.verdict import words
from schemas.event_types import NO_CONTROLLER, NONE_TO_SPARE, NOT_LOOKED_AT, NOT_REACHED, QUORUM


def is_gone(told: str | None) -> bool:
    """Whether no broker reaches a controller."""
    return (told or "").startswith(NO_CONTROLLER)


def sentence(told: str | None, since: datetime | None) -> str:
    """The sentence about a fault of the controllers, or what is not known of them; empty if there is none.

    It changes only with their state.
    """
    said = (told or "").removeprefix(f"{QUORUM}: ")
    if is_gone(told):
        who = said.partition("by ")[2]
        return (
            f"no controller since {words.clock(since)} (told by {who}): no ISR or leader can change; "
            "metadata is of then"
        )
    if said.endswith(NONE_TO_SPARE):
        count = said.removesuffix(f", {NONE_TO_SPARE}")
        word = NONE_TO_SPARE if has_majority(told) else "no majority"
        return f"the controllers have {word} since {words.clock(since)}: {count}"
    if (told or "").startswith((NOT_LOOKED_AT, NOT_REACHED)):
        return f"{QUORUM} {said}"
    return ""
