"""What is asked of a leader's own rows, by when its term began."""

from types import SimpleNamespace

from pipelines.replication.batch.term_lookup import StateTermLookup
from pipelines.replication.partition.events import TermSummary
from pipelines.replication.rules import Rules
from pipelines.replication.term.layout import LEADING


def rise(begun: int, hole: int | None = None) -> tuple[int, int] | None:
    """The HW after the end of a term that began at 100, of a leader whose rows are of a term that began at `begun`."""
    lanes = {"state": [LEADING], "term_start": [begun]}
    gaps = [] if hole is None else [hole]
    lookup = StateTermLookup(SimpleNamespace(ended_terms={}, lanes=lanes, gaps=lambda *_: gaps), Rules(), {}, None)
    lookup._lanes[3] = 0
    lookup._terms[3, 100, 200] = TermSummary()
    lookup.__dict__["timeline"] = SimpleNamespace(rise=lambda *asked: (300, 600) if asked[-1] > 600 else None)
    term = SimpleNamespace(broker_id=3, start_ts=100, summary=TermSummary(hmax=90), summary_at=200)
    return lookup.rise(term, 1_000)


def test_a_deposed_leader_that_goes_on_reporting_has_committed_more():
    assert rise(begun=100) == (300, 600)


def test_hws_of_a_later_term_of_a_deposed_leader_are_none_of_its_earlier_one():
    """Up to Kafka 2.5 a start tells no HW, so that a leader's rows begin later than its term (seen on 2.5.1)."""
    assert rise(begun=500) is None


def test_nor_are_those_behind_a_hole_which_may_be_of_a_later_term():
    assert [rise(begun=100, hole=ts) for ts in (150, 600, 601)] == [(300, 600), None, (300, 600)]
