"""What one more failure does to a partition: `one_failure_away` of gold/partition_health."""

import numpy as np
import pytest

from pipelines.replication import Reconstructor, Rules
from pipelines.replication.compiled.types import NULL32
from pipelines.replication.facts.failure_risk import NOT_KNOWN, RISKS, risks
from tests.unit.replication.bronze import Source, controller, table


@pytest.mark.parametrize(
    ("isr", "assigned", "min_isr", "offline", "expected"),
    [
        (3, 3, 1, False, "none"),
        (3, 3, 2, False, "none"),
        (2, 3, 2, False, "under_min_isr"),
        (2, 3, 3, False, "under_min_isr"),
        (2, 3, 1, False, "none"),
        (1, 3, 1, False, "loss"),
        (1, 3, 2, False, "loss"),
        (1, 2, NULL32, False, "loss"),
        (1, 1, 1, False, "offline"),
        (2, 2, 3, False, "under_min_isr"),
        (2, 3, NULL32, False, None),
        (NULL32, 3, 2, False, None),
        (2, NULL32, 2, False, None),
        (1, 3, 1, True, None),
    ],
)
def test_one_failure_away(isr, assigned, min_isr, offline, expected):
    """Of an ISR of one the others are behind; min.insync.replicas counts as at most the assigned replicas."""
    assert risk(isr, assigned, min_isr, offline, True) == expected


def risk(*known):
    (found,) = risks(*(np.array([value]) for value in known))
    return None if found == NOT_KNOWN else RISKS[found]


@pytest.mark.parametrize("min_isr", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("isr", "assigned"), [(isr, assigned) for assigned in (1, 2, 3) for isr in range(1, assigned + 1)]
)
def test_a_failure_does_where_more_may_be_assigned_what_it_does_of_any_number(isr, assigned, min_isr):
    of_any = {risk(isr, replicas, min_isr, False, True) for replicas in range(assigned, 6)}
    expected = of_any.pop() if len(of_any) == 1 else None
    assert risk(isr, assigned, min_isr, False, False) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Source().leader(1, 0, 0, 0, [1, 2], min_isr=2), (2, "under_min_isr")),
        (Source(level=0).leader(1, 0, 0, 0, [1]), (None, "loss")),
        (Source().leader(1, 0, 0, 0, [1, 2, 3], min_isr=2), (2, "none")),
        (controller().election(5, 1, 3, isr=[1, 2], replicas=[1, 2]), (None, None)),
        (controller().election(5, 1, 3, isr=[1], replicas=[1, 2]), (None, "loss")),
        (controller().election(5, -1, 3, isr=[2], replicas=[1, 2]), (None, None)),
        (controller().election(5, 1, 3), (None, None)),
    ],
    ids=["at min ISR", "ISR of one", "spare", "min ISR not known", "ISR of one by the controller", "offline", "unsaid"],
)
def test_health_says_what_is_one_failure_away(source, expected):
    reconstructor = Reconstructor(Rules())
    reconstructor.update(table(source))
    reconstructor.finish()
    (row,) = reconstructor.health().to_pylist()
    assert (row["min_isr"], row["one_failure_away"]) == expected
