"""Whether a lake's verdicts may be relied on: for a load balancer, a probe, a person with curl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pipelines.printable import printable
from pipelines.verdict import ClusterRecord, Limits, State, verdict


@dataclass(frozen=True)
class Health:
    """Whether everything is judged, and a sentence for each cluster: where not, what is wrong with it."""

    healthy: bool
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f"{printable(sentence)}\n" for sentence in self.sentences)


def health(records: Sequence[ClusterRecord], limits: Limits, now: datetime) -> Health:
    """The judgement at the moment `now`: it fails where a cluster is not judged, or a source of it is silent.

    What the verdicts say of the clusters themselves is no part of it: a loss that is reported is reported.
    """
    if not records:
        return Health(False, (f"{State.NOT_JUDGED.value}: the lake holds no events yet",))
    found = [(record, verdict(record, limits, now).judged) for record in records]
    failing = [(r, j) for r, j in found if j.state is State.NOT_JUDGED or j.silent]
    return Health(not failing, tuple(f"{record.cluster}: {judged.text}" for record, judged in failing or found))


def not_readable(why: str) -> Health:
    """The health of a lake whose tables cannot be read."""
    return Health(False, (f"{State.NOT_JUDGED.value}: {why}",))
