"""The model's power: with the mend of a rule taken back, a history that was found before is found again.

It cannot play 7 (more than eight terms), 8 (a replica that moves between log directories), 12 (a log start), 18 (the
quorum of the controllers), nor e (what depends on other clusters of a replay). 17 has the mend of 16.

Others are shown by rows alone, in tests/unit/replication/test_rules_losses_told.py:
- 1: a leader of the model reports no HW that the rules do not compute, as both follow Kafka (a replica that the
  controller removed; a chain of reports).
- 5: where a follower's HW tells more than its leader, rows of that are gone, and then the model asks for no more than a
  warning, which an unclean start is anyway (a follower's own HW).
- c: where a row is lost it asks for no warning at all, only for none that is calm (a hole reaches from the row before).
- g: a start that lost something was unclean, or of a log that was: each makes it a warning (a term that a controller
  tells alone).
- Of i that the ISR of the controller counts after a hole: nor is any loss told of a HW that nobody reported (a joiner
  that a hole hides).

Not held: without a controller and without lines of followers, about one history in a thousand has a false critical. The
broker may run under a leader whose log was cut with the power, and its HW of that epoch alone shows it: histories learn
of falls of a follower's HW only, and an event for each rise costs time in every failover. No Kafka logs so: a leader's
line and a follower's come from one logger.
"""

from typing import Any

import pytest

from pipelines.gate import judgement
from pipelines.replication.batch.term_lookup import StateTermLookup
from pipelines.replication.partition import loss, loss_exclusion, stored_high_watermarks, truncations
from pipelines.replication.partition.one_term import BrokerPosition, LeastStart
from pipelines.replication.partition.terms import Terms
from tests.model import stopping
from tests.model.known import KEPT
from tests.model.search import found

LEAST, MARK = Terms.least_start_since, loss._mark_after
LOG_SINCE, CLEAN = loss_exclusion._had_its_log_since, loss_exclusion.count_clean_starts

EFFECT, PRESENT = judgement._effect, stopping.partition


def _since_the_last_known(terms: Terms, term: Any, as_of: int, lookup: Any) -> LeastStart:
    least = LEAST(terms, term, as_of, lookup)
    return least if least.complete else LeastStart(None, None, False)


def _first_start_since(terms: Terms, term: Any, as_of: int, lookup: Any) -> LeastStart:
    upto = terms.terms.index(term)
    took_part = (k for k in range(upto, 0, -1) if terms.took_part(terms.terms[k - 1], term.broker_id, as_of, lookup))
    first = terms.terms[next(took_part, 0)]
    return LeastStart(first.start_offset, first.epoch, LEAST(terms, term, as_of, lookup).complete)


def _own_term_only(truncation: Any, terms: Terms, marks: list[Any]) -> int | None:
    of = [mark.offset for one, mark in zip(terms.terms, marks, strict=True) if one.key == truncation.last_term]
    return of[0] if of else None


def _told_to_its_end(term: Any, mark: Any, start: Any, summary: Any, _: bool, *, doubted: bool = False) -> Any:
    return MARK(term, mark, start, summary, True, doubted=doubted)


def _since_any_start(terms: Any, term: Any, isr: Any) -> int:
    created, terms.created = terms.created, None
    since = LOG_SINCE(terms, term, isr)
    terms.created = created
    return since


def _with_granted(states: Any, grace_us: int) -> int:
    return CLEAN(states, grace_us) or sum(detail == "controlled_shutdown" for _, detail, *_ in states)


def _as_of_the_end(lookup: Any, _: int, until: int, by_leader: int | None) -> int:
    return lookup.min_isr(until, by_leader)


def _has_longer_log(position: BrokerPosition, event: Any) -> bool:
    return position.leo is not None and event.leo is not None and event.leo > position.leo


def _own_starts_alone(terms: Terms, event: Any, *_: Any) -> Any:
    position = terms.positions.get(event.broker_id)
    return position and position.last_term


def _too_few_anyway(facts: Any, stopped: Any) -> Any:
    left = facts.replicas - stopped
    return (judgement.Effect.ANYWAY, "") if len(left) < facts.least_min_isr else EFFECT(facts, stopped)


def _min_isr_of_one(row: Any, down: Any) -> Any:
    return PRESENT(row | {"min_isr": row["min_isr"] or 1}, down)


def _none_behind(row: Any, down: Any) -> Any:
    return PRESENT(row | {"behind": ()}, down)


TAKEN_BACK = [
    ("an unclean start whose winner's past is not known", Terms, "least_start_since", _since_the_last_known),
    ("a cut of what a later leader committed", truncations, "_committed_since", _own_term_only),
    ("a resumption that is the first start told", loss_exclusion, "_may_have_led_before", lambda *_: False),
    ("a leader alone that a follower of level 0 holds back", stored_high_watermarks, "_is_away", lambda *_: True),
    ("HWs that nobody printed where min ISR is not told", loss, "_certain_hw", lambda _, summary: summary.hmax),
    ("a cut of what a leader committed of which nothing is told", truncations, "pairwise", lambda _: ()),
    ("leader epochs that go back, and no controller", Terms, "goes_back", lambda *_: False),
    ("a loss at level 0 where nothing is lost", Terms, "in_another_of_epoch", lambda *_: False),
    (
        "a HW of one of two epochs of which a log cut with the power tells the first",
        stored_high_watermarks,
        "_ran_untold",
        lambda *_: [],
    ),
    ("a follower's HW that rises where its log does not grow", BrokerPosition, "has_grown", _has_longer_log),
    (
        "a min ISR that was larger for a while",
        StateTermLookup,
        "most_min_isr",
        lambda look, _, ts, by: look.min_isr(ts, by),
    ),
    ("a log that ends early is no whole one (b)", loss, "_mark_after", _told_to_its_end),
    ("a first start before the partition was created (13)", loss_exclusion, "_had_its_log_since", _since_any_start),
    ("a clean election whose start is not told (d)", Terms, "is_announced_by", lambda *_: False),
    ("a granted shutdown that was no clean stop (6)", loss_exclusion, "count_clean_starts", _with_granted),
    ("the least of all starts since, and not the first (2)", Terms, "least_start_since", _first_start_since),
    ("lives that nobody told (f)", loss_exclusion, "is_life_told", lambda *_: True),
    ("a former leader's HW of a term in which it fetched (i)", Terms, "last_participated", _own_starts_alone),
    ("a loss of what differs since one inside an epoch (i)", loss_exclusion, "differing_records", lambda *_: None),
    ("a leader that only lagging replicas are left of (14)", judgement, "_effect", _too_few_anyway),
    ("a min ISR that nobody told the gate (15)", stopping, "partition", _min_isr_of_one),
    ("two followers that hang (16)", stopping, "partition", _none_behind),
]


@pytest.mark.parametrize(("name", "place", "rule", "before"), TAKEN_BACK, ids=[row[0] for row in TAKEN_BACK])
def test_with_a_mend_taken_back_the_model_finds_the_history(monkeypatch, name, place, rule, before):
    kept = next(one for one in KEPT if one.name == name)
    monkeypatch.setattr(place, rule, before)
    assert list(found(kept.scope, [kept.numbers], [kept.view])) != []
