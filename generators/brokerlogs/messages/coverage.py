"""Lines that show that a logger prints a kind of evidence, at a level and in a wording that are read (`covers`).

A file's name shows nothing: its logger may be switched off. A kind counts from the first of these lines on; that levels
are changed at a restart, without a line that says so, is not seen.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from pipelines.replication.compiled.types import NEVER
from schemas.coverage import ISR, KINDS, TERMS

_LOG_LAYER = re.compile(
    r"Loading producer state|Completed load|Truncating|Rolled new|Reloading|Producer state recovery|"
    r"Incremented? (?:the )?log start|Deleting|Non-monotonic"
)
_ANYTHING = re.compile("")
_LIVES = dict.fromkeys(
    ("AppInfoParser", "LogManager", "KafkaServer", "BrokerServer", "BrokerLifecycleManager", "BrokerHeartbeatManager",
     "ClusterControlManager", "KafkaController"), ((_ANYTHING, ("brokers",)),)
)  # fmt: skip
_SHOWS: dict[str, tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = {
    "state.change.logger": (
        (
            re.compile(
                r"Transitioning \d+ partition|(?:Leader|Follower) \S+ .*starts at leader epoch|Creating new partition|"
                r"Skipped the become-\w+ state change for \S+ with topic id"
            ),
            (TERMS,),
        ),
        (re.compile(r"Changed partition \S+ (?:state )?from .* LeaderAndIsr\("), ("elections", ISR)),
    ),
    "Partition": (
        (re.compile(r"\S+ starts at [Ll]eader [Ee]poch"), (TERMS,)),
        (re.compile(r"ISR updated|Shrinking ISR|Expanding ISR|Log loaded for|No checkpointed highwatermark"), (ISR,)),
    ),
    "Log": ((_LOG_LAYER, ("truncations", "brokers")),),  # up to 2.7 a fall of a HW prints nothing
    **dict.fromkeys(("UnifiedLog", "MergedLog"), ((_LOG_LAYER, ("truncations", "hw_falls", "brokers")),)),
    "ReplicationControlManager": (
        (re.compile(r"Replayed \w+Record|CreateTopics|Created topic|.*partition change for"),
         ("unclean_elections", "assignments", "topics")),
        (re.compile(r"(?!.*UNCLEAN).*partition change for"), ("elections", ISR)),
    ),
    "ConfigurationControlManager": ((_ANYTHING, ("configs",)),),
    **_LIVES,
}  # fmt: skip
"""By class of the logger: messages, and the kinds of evidence whose lines come from it at no higher a level."""

Shown = dict[str, int]
"""By kind of evidence the time of the first line that shows it."""


def note_shown(shown: Shown, logger: str, message: str, ts: int) -> None:
    """Note the kinds that a message shows to be printed; `logger` is the class of its logger."""
    for pattern, kinds in _SHOWS.get(logger, ()):
        if any(ts < shown.get(kind, NEVER) for kind in kinds) and pattern.match(message):
            for kind in kinds:
                shown[kind] = min(ts, shown.get(kind, NEVER))  # a clock may have been ahead before


def covers(shown: Shown, since: np.ndarray) -> pa.Array:
    """Return a list for each time in `since`: the kinds of evidence shown up to it; `shown` has the same time unit."""
    kinds = sorted(shown, key=lambda kind: (shown[kind], KINDS.index(kind)))
    known = np.searchsorted([shown[kind] for kind in kinds], since, side="right")
    return pa.array([kinds[:n] for n in range(len(kinds) + 1)], pa.list_(pa.string())).take(pa.array(known))
