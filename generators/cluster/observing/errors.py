"""Kafka's error codes, and how the watcher treats them."""

from __future__ import annotations

from generators.cluster.observing.answers import NO_ANSWER

NOT_LEADER = (6, 74, 75)
"""NOT_LEADER_OR_FOLLOWER, FENCED_ and UNKNOWN_LEADER_EPOCH: it does not lead in the epoch that was asked for."""
NOT_PERMITTED = (29, 30, 31)
"""TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED."""


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    from kafka.errors import for_code

    if code == NO_ANSWER:
        return "no offset in the answer"
    return str(getattr(for_code(code), "message", "") or f"error {code}")
