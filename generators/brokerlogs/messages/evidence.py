"""Lines that match no pattern and may be evidence, with their shape: the line without its numbers and names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from generators.brokerlogs.messages.harmless import HARMLESS

LONGEST_SHAPE = 160
LONGEST_MESSAGE = 10_000
"""Characters of a message from which its shape is made."""
_ANYTHING = re.compile("")
_EVIDENCE: dict[str, re.Pattern[str]] = {
    "Partition": _ANYTHING,
    "state.change.logger": _ANYTHING,
    "AlterPartitionManager": _ANYTHING,
    "ReplicationControlManager": _ANYTHING,
    "ClusterControlManager": _ANYTHING,
    "ConfigurationControlManager": _ANYTHING,
    "BrokerHeartbeatManager": _ANYTHING,
    "QuorumController": re.compile(r"active controller|[Ll]eadership|\b[Ll]eader\b"),
    "ReplicaFetcherThread": re.compile(r"[Tt]runcat|[Hh]igh ?[Ww]atermark"),
    **dict.fromkeys(("UnifiedLog", "MergedLog", "Log"), re.compile(r"[Tt]runcat|[Hh]igh ?[Ww]atermark")),
    "KafkaController": re.compile(r"ISR for partition|LeaderAndIsr\("),
    "OfflinePartitionLeaderSelector": re.compile("data loss"),
    "BrokerLifecycleManager": re.compile(r"regist|fenc|controlled shutdown|SHUTTING_DOWN"),
}
"""By class of the logger, which of its lines are evidence; the last ones print much else."""
_PLACEHOLDERS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?<![\w-])(?=[\w-]*[\d_-])[\w-]{22}(?![\w-])"), "*"),
    (re.compile(r"'[^']*'"), "*"),
    (re.compile(r"(?<![\w./-])/[\w./-]+"), "*"),
    (re.compile(r"[\w.-]+"), lambda run: _without_partition(run[0])),
    (re.compile(r"\d+"), "#"),
    (re.compile(r"#(?:, ?#)+"), "#"),
)
"""Replaced in this order: topic ids, quoted names, paths, partitions, numbers, lists of numbers."""


def _without_partition(run: str) -> str:
    """`*` for the longest beginning of a run of characters that names a partition, then what follows it.

    Not one regular expression, which would be cubic in the length of a line without blanks.
    """
    parts = run.split("-")
    for k in range(len(parts) - 1, 0, -1):
        number = re.match(r"\d+(?!\w)", parts[k])
        if number and re.search(r"[a-zA-Z_.]", parts[k - 1]):
            return "-".join(["*" + parts[k][number.end() :], *parts[k + 1 :]])
    return run


def _kind(logger: str) -> str:
    """The key of a logger's class in the tables of this module."""
    return "AlterPartitionManager" if logger.endswith("AlterPartitionManager") else logger


def may_be_evidence(logger: str, message: str) -> bool:
    """Whether a message that matches no pattern may be evidence; `logger` is the class of its logger."""
    kind = _kind(logger)
    if kind not in _EVIDENCE or not _EVIDENCE[kind].search(message):
        return False
    return not HARMLESS[kind].match(message)


def shape_of(message: str, topics: Iterable[str] = ()) -> str:
    """The message with numbers as `#`, and ids, paths, partitions and these topics as `*`; `…` at the end where it is
    cut."""
    cut, message = len(message) > LONGEST_MESSAGE, message[:LONGEST_MESSAGE]
    for topic in topics:
        if topic in message:
            message = re.sub(rf"(?<![\w.-]){re.escape(topic)}(?:-\d+)?(?![\w.-])", "*", message)
    for pattern, blank in _PLACEHOLDERS:
        message = pattern.sub(blank, message)
    return message[: LONGEST_SHAPE - 1] + "…" if cut or len(message) > LONGEST_SHAPE else message
