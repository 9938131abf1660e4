"""The rows for which kernels are loaded before workers are forked reach the kernels."""

from pipelines.replication import Reconstructor
from pipelines.streaming.workers.kernels import _events


def test_no_row_goes_to_quarantine_and_a_term_is_computed():
    reconstructor = Reconstructor()
    facts = reconstructor.update(_events())
    assert len(facts.quarantine) == 0
    assert len(reconstructor.health()) == 1
