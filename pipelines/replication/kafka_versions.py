"""The versions of Kafka that introduced each rule of the high watermark, and the rules of a broker's version."""

from __future__ import annotations

import re

KNOWN, STRICT_MIN_ISR, STRICT_ELIGIBILITY, WAITS_FOR_JOINERS, BY_MESSAGES = 1, 2, 4, 8, 16
"""Bits of the rules that a broker follows in a term, named as in Rules; KNOWN: the broker has reported its version."""

MESSAGES = 8
"""replica.lag.max.messages + 1 stands above this many bits, where a broker reports it."""

_SINCE = (((3, 7), STRICT_MIN_ISR), ((3, 5), STRICT_ELIGIBILITY), ((0, 10, 2), WAITS_FOR_JOINERS))
"""KAFKA-15583; KIP-841 and KIP-903; KAFKA-4485."""
_NEWEST = 20
"""A larger major version is not one of Kafka."""


OF_METADATA, OF_SOFTWARE, OF_MESSAGES = range(3)
"""What a broker reports: the rules of its metadata version or of its software, as bits; or replica.lag.max.messages."""


def reported_rules(detail: str | None) -> tuple[int, int] | None:
    """(OF_METADATA, OF_SOFTWARE or OF_MESSAGES; the value) from the detail of a `config` row.

    Reads `kafka=4.1.1` and `metadata=4.1-IV1` as Kafka prints them, `kafka=7.9.2-ccs` as Confluent does, and
    `replica.lag.max.messages=4000` of brokers before 0.9. None for any other detail, and for versions whose rules are
    not known.
    """
    name, _, text = (detail or "").partition("=")
    if name == "replica.lag.max.messages" and text.isdecimal():
        return OF_MESSAGES, int(text)
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if name not in ("kafka", "metadata") or not match:
        return None
    version = _of_confluent(match, text) if re.search(r"-(ccs|ce)\b", text) else _numbers(match)
    if version is None or version[0] > _NEWEST:
        return None
    bits = KNOWN if version >= (0, 9) else KNOWN | BY_MESSAGES
    reported = OF_SOFTWARE if name == "kafka" else OF_METADATA
    return reported, bits | sum(bit for since, bit in _SINCE if version >= since)


def _numbers(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(part or 0) for part in match.groups())


def _of_confluent(match: re.Match[str], text: str) -> tuple[int, ...] | None:
    """The version of Kafka inside Confluent Platform: 8.x has 4.x, 7.x 3.x, 6.x 2.6 and on, 5.x 2.x, 4.x 1.x."""
    major, minor, patch = _numbers(match)
    if major < 4:
        return None
    return {4: (1, minor, patch), 5: (2, minor, patch), 6: (2, minor + 6, patch)}.get(major, (major - 4, minor, patch))
