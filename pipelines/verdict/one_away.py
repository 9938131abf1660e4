"""Sentence on the partitions of a cluster that are one failure away from a loss or an outage."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.verdict.words import count

NOT_KNOWN = "not known"
WORDS = {"loss": "loss", "under_min_isr": "under min ISR", "offline": "offline (no other replica is assigned)"}
"""The worst first."""


def one_failure_away(partitions: Mapping[str, int]) -> str:
    """`one failure away: 3 partitions from loss, 12 from under min ISR; 4 not known` from counts by risk."""
    found = [(partitions[risk], words) for risk, words in WORDS.items() if partitions.get(risk)]
    said = [f"{number:,} from {words}" for number, words in found[1:]]
    if found:
        said = [f"{count(found[0][0], 'partition')} from {found[0][1]}", *said]
    if not partitions.get(NOT_KNOWN):
        return f"one failure away: {', '.join(said) or 'none from loss, offline or under min ISR'}"
    unknown = count(partitions[NOT_KNOWN], "partition")
    return f"one failure away: {', '.join(said) or 'none of those known'}; {unknown} not known"
