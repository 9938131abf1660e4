"""Which lines that no shape reads may be evidence, and what such a line looks like without its numbers and names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from generators.brokerlogs.harmless import HARMLESS

LONGEST_SHAPE = 160
_EVERY = re.compile("")
_EVIDENCE: dict[str, re.Pattern[str]] = {
    "Partition": _EVERY,
    "state.change.logger": _EVERY,
    "AlterPartitionManager": _EVERY,
    "ReplicationControlManager": _EVERY,
    "ClusterControlManager": _EVERY,
    "ConfigurationControlManager": _EVERY,
    "BrokerHeartbeatManager": _EVERY,
    "QuorumController": re.compile(r"active controller|[Ll]eadership|\b[Ll]eader\b"),
    "ReplicaFetcherThread": re.compile(r"[Tt]runcat|[Hh]igh ?[Ww]atermark"),
    "UnifiedLog": re.compile(r"[Tt]runcat|[Hh]igh ?[Ww]atermark"),
    "BrokerLifecycleManager": re.compile(r"regist|fenc|controlled shutdown|SHUTTING_DOWN"),
}
"""By the class of a logger what its lines of evidence say; those of the last four print much else."""
_BLANKS = (
    (re.compile(r"(?<![\w-])(?=[\w-]*[\d_-])[\w-]{22}(?![\w-])"), "*"),
    (re.compile(r"'[^']*'"), "*"),
    (re.compile(r"(?<![\w./-])/[\w./-]+"), "*"),
    (re.compile(r"[\w.-]*[a-zA-Z_.][\w.]*-\d+\b"), "*"),
    (re.compile(r"\d+"), "#"),
    (re.compile(r"#(?:, ?#)+"), "#"),
)
"""Topic ids, quoted names, paths, partitions, numbers, lists of them."""


def _kind(logger: str) -> str:
    """The key of a logger's class in the tables here."""
    return "AlterPartitionManager" if logger.endswith("AlterPartitionManager") else logger


def may_be_evidence(logger: str, message: str) -> bool:
    """Whether a message that no shape reads may be evidence; `logger` is the class of its logger."""
    kind = _kind(logger)
    if kind not in _EVIDENCE or not _EVIDENCE[kind].search(message):
        return False
    return not HARMLESS[kind].match(message)


def shape_of(message: str, topics: Iterable[str] = ()) -> str:
    """The message with numbers as `#`, and ids, paths, partitions and these topics as `*`."""
    for topic in topics:
        if topic in message:
            message = re.sub(rf"(?<![\w.-]){re.escape(topic)}(?:-\d+)?(?![\w.-])", "*", message)
    for pattern, blank in _BLANKS:
        message = pattern.sub(blank, message)
    return message if len(message) <= LONGEST_SHAPE else message[: LONGEST_SHAPE - 1] + "…"
