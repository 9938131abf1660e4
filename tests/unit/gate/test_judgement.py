"""The rules of the gate on facts made by hand, and what holds for any facts."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.errors import UsageError
from pipelines.gate.facts import Facts, PartitionFacts, Quorum, chosen
from pipelines.gate.judgement import Answer, Effect, effect_on, judge, quorum_without
from pipelines.gate.words import headline
from tests.unit.project.lakes import NOON

ORDERS = PartitionFacts("orders", 0, frozenset({1, 2, 3}), frozenset({1, 2, 3}), leader=1, min_isr=2)


def brokers(*ids):
    return frozenset(ids)


def of(facts, *stopped):
    found = effect_on(facts, brokers(*stopped))
    return found.effect, found.why


def about(*partitions, stopped=(1,), **more):
    return Facts("prod", brokers(*stopped), partitions, None, "gold", **{"controllers_apart": True} | more)


def test_a_partition_with_min_isr_left_and_a_caught_up_leader_to_move_to_keeps_it():
    assert of(ORDERS, 1) == (Effect.KEEPS, "")
    assert judge(about(ORDERS)).answer is Answer.YES


def test_a_partition_that_the_brokers_do_not_host_is_not_looked_at():
    assert effect_on(ORDERS, brokers(4)) is None


def test_an_isr_below_min_isr_then_breaks():
    facts = replace(ORDERS, isr=brokers(1, 2))
    assert of(facts, 1) == (Effect.BREAKS, "under min ISR then")
    assert effect_on(facts, brokers(1)).isr_then == brokers(2)
    assert of(facts, 3) == (Effect.KEEPS, "")
    assert judge(about(facts)).answer is Answer.NO


def test_a_partition_under_min_isr_already_does_not_keep_it():
    assert of(replace(ORDERS, isr=brokers(1)), 3) == (Effect.BREAKS, "under min ISR already")


def test_no_caught_up_replica_left_to_lead_breaks():
    facts = replace(ORDERS, isr=brokers(1), min_isr=1)
    assert of(facts, 1) == (Effect.BREAKS, "no caught-up replica is left to lead")
    assert effect_on(facts, brokers(1)).no_leader


def test_an_eligible_leader_replica_may_lead_but_keeps_no_min_isr():
    facts = replace(ORDERS, isr=brokers(1), min_isr=2, eligible=brokers(2))
    found = effect_on(facts, brokers(1))
    assert (found.effect, found.no_leader) == (Effect.BREAKS, False)


def test_a_replica_in_the_isr_that_is_behind_does_not_count():
    facts = replace(ORDERS, behind=brokers(2))
    assert of(facts, 1) == (Effect.BREAKS, "under min ISR then; broker 2 in the ISR but behind or down")
    assert of(facts, 2) == (Effect.KEEPS, "")


def test_nobody_leading_now_breaks():
    assert of(replace(ORDERS, leader=-1, isr=brokers(1)), 2) == (Effect.BREAKS, "nobody leads it now")


def test_min_isr_is_at_most_the_number_of_replicas():
    """Kafka 3.7: effective min ISR."""
    facts = replace(ORDERS, replicas=brokers(1, 2), isr=brokers(1, 2), min_isr=3)
    assert facts.least_min_isr == 2


@pytest.mark.parametrize(
    ("facts", "stopped", "effect"),
    [
        (replace(ORDERS, replicas=brokers(1, 2), isr=brokers(1)), (1,), Effect.BREAKS),
        (replace(ORDERS, isr=brokers(1), min_isr=3), (1,), Effect.BREAKS),
        (replace(ORDERS, isr=brokers(1, 2), behind=brokers(2)), (1, 3), Effect.BREAKS),
        (replace(ORDERS, replicas=brokers(1, 2), isr=brokers(2), leader=-1), (1,), Effect.BREAKS),
        (replace(ORDERS, replicas=brokers(1, 2), isr=None, leader=None, unknown="silent"), (1,), Effect.NOT_KNOWN),
        (replace(ORDERS, replicas=brokers(1, 2), isr=brokers(1, 2), unsure=brokers(2)), (1,), Effect.NOT_KNOWN),
        (replace(ORDERS, replicas=brokers(1, 2), isr=brokers(1, 2)), (1,), Effect.ANYWAY),
    ],
)
def test_what_would_be_kept_by_waiting_for_others_does_not_stop_anyway(facts, stopped, effect):
    """An unclean election would lose what they lack."""
    assert of(facts, *stopped)[0] is effect
    answer = judge(about(facts, stopped=stopped), accepted=True).answer
    assert (answer is Answer.YES) == (effect is Effect.ANYWAY)


def test_a_quorum_that_was_not_looked_at_is_not_known_unless_the_controllers_are_no_brokers():
    assert judge(about(ORDERS, controllers_apart=False)).answer is Answer.NOT_KNOWN
    assert judge(about(ORDERS, controllers_apart=True)).answer is Answer.YES
    assert judge(about(ORDERS, controllers_apart=False, quorum=Quorum({7: True}))).answer is Answer.YES


def test_too_few_replicas_stop_anyway_and_need_to_be_accepted():
    alone = replace(ORDERS, replicas=brokers(1), isr=brokers(1), min_isr=1)
    assert of(alone, 1) == (Effect.ANYWAY, "0 replicas left of 1")
    pair = replace(ORDERS, replicas=brokers(1, 2), isr=brokers(1, 2))
    assert of(pair, 1) == (Effect.ANYWAY, "1 replica left of 2")
    assert of(ORDERS, 1, 2)[0] is Effect.ANYWAY
    facts = about(alone, ORDERS)
    assert (judge(facts).answer, judge(facts).must_be_accepted) == (Answer.NO, True)
    assert judge(facts, accepted=True).answer is Answer.YES


def test_acceptance_covers_no_partition_that_could_keep_min_isr():
    alone = replace(ORDERS, replicas=brokers(1), isr=brokers(1), min_isr=1)
    assert judge(about(alone, replace(ORDERS, isr=brokers(1, 2))), accepted=True).answer is Answer.NO


@pytest.mark.parametrize(
    ("unknown", "why"),
    [
        ({"isr": None}, "its ISR is not known"),
        ({"leader": None}, "its leader is not known"),
        ({"min_isr": None}, "its min.insync.replicas is not known"),
        ({"unsure": frozenset({2, 3}), "unsure_why": "level 0"}, "level 0"),
        ({"unsure": frozenset({2, 3})}, "whether brokers 2, 3 are caught up"),
        ({"unknown": "its leader is silent"}, "its leader is silent"),
    ],
)
def test_what_is_not_known_is_no_yes(unknown, why):
    facts = replace(ORDERS, **unknown)
    assert of(facts, 1) == (Effect.NOT_KNOWN, why)
    assert judge(about(facts)).answer is Answer.NOT_KNOWN


def test_a_partition_whose_replicas_are_not_known_may_be_hosted():
    found = effect_on(replace(ORDERS, replicas=None, isr=None), brokers(4))
    assert (found.effect, found.why) == (Effect.NOT_KNOWN, "which brokers host it is not known")


def test_a_broker_out_of_an_isr_that_keeps_min_isr_may_stop_though_replicas_are_not_known():
    assert effect_on(replace(ORDERS, replicas=None), brokers(4)) is None


def test_nothing_stops_anyway_where_more_replicas_may_be_assigned_than_are_known():
    """Of an ISR of two, both of which stop, a third may be left, out of sync."""
    facts = replace(ORDERS, replicas=None, isr=brokers(1, 2), min_isr=1)
    assert of(facts, 1, 2)[0] is Effect.BREAKS
    assert of(replace(facts, min_isr=2), 1)[0] is Effect.BREAKS
    assert of(replace(facts, min_isr=3), 4)[0] is Effect.NOT_KNOWN


def test_what_breaks_however_the_unknown_turns_out_breaks():
    facts = replace(ORDERS, isr=brokers(1, 2), unsure=brokers(2))
    assert of(facts, 1)[0] is Effect.BREAKS


def test_one_unsure_replica_too_many_does_no_harm():
    wide = replace(ORDERS, replicas=brokers(1, 2, 3, 4), isr=brokers(1, 2, 3, 4), unsure=brokers(4))
    assert of(wide, 1) == (Effect.KEEPS, "")


def test_a_no_goes_before_what_is_not_known():
    assert judge(about(replace(ORDERS, isr=brokers(1, 2)), replace(ORDERS, isr=None))).answer is Answer.NO


def test_stale_facts_are_not_known_whatever_they_say():
    assert judge(about(replace(ORDERS, isr=brokers(1, 2)), stale="old")).answer is Answer.NOT_KNOWN


def test_a_missing_right_is_not_known():
    assert judge(about(ORDERS, unknown=("the quorum",))).answer is Answer.NOT_KNOWN


VOTERS = {1: True, 2: True, 3: True}


@pytest.mark.parametrize(
    ("voters", "stopped", "answer"),
    [
        (VOTERS, (1,), Answer.YES),
        (VOTERS, (1, 2), Answer.NO),
        (VOTERS, (4, 5), Answer.YES),
        (VOTERS | {3: False}, (1,), Answer.NO),
        (VOTERS | {3: False}, (3,), Answer.YES),
        (VOTERS | {3: None}, (1,), Answer.NOT_KNOWN),
        (VOTERS | {3: None}, (1, 2), Answer.NO),
        ({1: True}, (1,), Answer.NO),
    ],
)
def test_a_majority_of_all_voters_caught_up_must_be_left(voters, stopped, answer):
    assert quorum_without(Quorum(voters), brokers(*stopped)).answer is answer
    assert judge(about(stopped=stopped, quorum=Quorum(voters))).answer is answer


def test_a_rack_is_its_brokers_and_one_without_a_rack_is_a_doubt():
    assert chosen({1: "a", 2: "b", 3: "a"}, (), "a") == (brokers(1, 3), ())
    stopped, doubts = chosen({1: "a", 2: None}, (), "a")
    assert stopped == brokers(1)
    assert "the rack of broker 2 is not known" in doubts[0]


def test_unknown_brokers_and_racks_are_refused_in_one_line():
    with pytest.raises(UsageError, match="there is no broker 7; known: 1, 2"):
        chosen({1: "a", 2: "b"}, (7,), None)
    with pytest.raises(UsageError, match="there is no rack eu-1; did you mean eu-1a"):
        chosen({1: "eu-1a"}, (), "eu-1")
    with pytest.raises(UsageError, match="of broker 1 no rack is known"):
        chosen({1: None}, (), "a")


unhurried = settings(deadline=None, suppress_health_check=list(HealthCheck))
"""Other tests may take the machine meanwhile."""
IDS = st.frozensets(st.integers(1, 5))


@st.composite
def partitions(draw):
    replicas = draw(st.frozensets(st.integers(1, 5), min_size=1))
    some = st.frozensets(st.sampled_from(sorted(replicas)))
    return PartitionFacts(
        "t",
        0,
        replicas,
        draw(st.none() | some),
        draw(st.sampled_from([-1, None, *sorted(replicas)])),
        draw(st.none() | st.integers(1, 4)),
        behind=draw(some),
        unsure=draw(some),
        unknown=draw(st.sampled_from(["", "silent"])),
    )


SEVERITY = {None: 0, Effect.KEEPS: 0, Effect.NOT_KNOWN: 1, Effect.BREAKS: 2, Effect.ANYWAY: 2}


@unhurried
@given(partitions(), IDS, IDS)
def test_stopping_more_brokers_never_makes_it_better(facts, stopped, more):
    """Fewer than min ISR stop acks=all for certain; it may not be known if waiting would have helped."""

    def severity(brokers):
        found = effect_on(facts, brokers)
        return SEVERITY[found.effect if found else None]

    both = stopped | more
    if severity(both) < severity(stopped):
        assert severity(both) == SEVERITY[Effect.NOT_KNOWN]
        assert len((facts.replicas or frozenset()) - both) < facts.least_min_isr


def test_whether_it_stops_anyway_is_not_known_of_replicas_whose_isr_is_not():
    facts = replace(ORDERS, isr=None, leader=None, behind=brokers(1))
    assert of(facts, 2)[0] is Effect.BREAKS
    assert of(facts, 1, 2)[0] is Effect.NOT_KNOWN


@unhurried
@given(st.frozensets(st.integers(1, 5), min_size=1).flatmap(lambda ar: st.tuples(st.just(ar), st.data())), IDS)
def test_a_partition_never_falls_below_what_the_judgement_said(drawn, stopped):
    """Whatever the truth behind the facts is: who is really caught up, and min ISR where it was not known."""
    replicas, data = drawn
    subset = st.frozensets(st.sampled_from(sorted(replicas)))
    truly_in_sync, unsure = data.draw(subset), data.draw(subset)
    min_isr, min_known = data.draw(st.integers(1, 4)), data.draw(st.booleans())
    isr = truly_in_sync | data.draw(subset)
    leader = data.draw(st.sampled_from(sorted(truly_in_sync))) if truly_in_sync else -1
    facts = PartitionFacts(
        "t",
        0,
        replicas,
        isr,
        leader,
        min_isr if min_known else None,
        behind=isr - truly_in_sync - unsure,
        unsure=unsure,
    )
    found = effect_on(facts, stopped)
    left = truly_in_sync - stopped
    holds = leader != -1 and len(left) >= min(min_isr, len(replicas))
    if found is None or found.effect is Effect.KEEPS:
        assert found is None or (holds and left)
    elif found.effect in (Effect.BREAKS, Effect.ANYWAY):
        assert not holds


@unhurried
@given(st.dictionaries(st.integers(1, 5), st.sampled_from([True, False, None]), min_size=1), IDS, IDS)
def test_stopping_more_voters_never_makes_it_better(voters, stopped, more):
    order = [Answer.YES, Answer.NOT_KNOWN, Answer.NO]
    before, after = (quorum_without(Quorum(voters), one).answer for one in (stopped, stopped | more))
    assert order.index(before) <= order.index(after)


def test_of_a_broker_that_is_down_already_it_is_not_said_that_it_must_not_be_stopped():
    late = replace(ORDERS, isr=brokers(3))
    down = about(late, down=brokers(1, 2))
    assert headline(judge(down), NOON).startswith(
        "prod: NO: broker 1 is down already: start it; without it 1 of 1 partition would not keep min ISR"
    )
    kept = about(replace(ORDERS, isr=brokers(2, 3)), down=brokers(1))
    assert headline(judge(kept), NOON).startswith("prod: YES: broker 1 is down already: its 1 partition keeps min ISR")
    unsure = about(replace(ORDERS, isr=None), down=brokers(1))
    assert headline(judge(unsure), NOON).startswith("prod: NOT KNOWN whether broker 1, down already, may stay away: 1 ")
    both = about(late, stopped=(1, 2), down=brokers(1))
    assert "NO: brokers 1, 2 must not be stopped now, broker 1 is down already: 1 of 1" in headline(judge(both), NOON)
