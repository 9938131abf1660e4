"""What the rules say of histories of one partition, against a model that knows what became of every record."""

from itertools import islice
from random import Random

import pytest

from tests.model.campaign import DRAWN, VIEWS
from tests.model.compare import View
from tests.model.histories import Scope, drawn, every
from tests.model.known import KEPT, Kept
from tests.model.search import found

PRESENT = Scope(3, 2, 1, (1, 2, 3), present=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("view", [View(3), View(0, "info")], ids=str)
def test_two_brokers_and_two_terms(view: View):
    """One in eight of all; `make test-model` plays the others."""
    assert list(found(Scope(2, 2), islice(every(Scope(2, 2)), 0, None, 8), [view])) == []


@pytest.mark.sampled(5)
@pytest.mark.parametrize("scope", DRAWN, ids=lambda scope: f"{scope.brokers}-brokers-{scope.terms}-terms")
def test_longer_histories_by_lot(scope: Scope):
    assert list(found(scope, islice(drawn(scope, Random(9)), 30), VIEWS)) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("view", [View(3), View(0)], ids=str)
def test_with_something_of_the_telemetry_taken_away(view: View):
    assert list(found(Scope(2, 2), islice(every(Scope(2, 2)), 5, None, 320), [view], taken=True)) == []


def test_no_yes_of_the_gate_costs_records_a_leader_or_min_isr():
    assert list(found(PRESENT, islice(drawn(PRESENT, Random(3)), 30), [View(3), View(2)])) == []


def test_no_yes_does_where_something_of_the_telemetry_is_taken_away():
    scope = PRESENT._replace(terms=1, rounds=2)
    assert list(found(scope, islice(drawn(scope, Random(4)), 4), [View(3)], taken=True)) == []


def test_replicas_that_a_controller_names_are_assigned_though_no_leaders_start_is_told():
    """A log that begins inside a term names those in the ISR: the gate took them for all that there are."""
    scope = Scope(3, 3, 1, (1, 2, 3), present=True)
    numbers = tuple(map(int, "011000100000100000101010001100111"))
    assert list(found(scope, [numbers], [View(3)], taken=True, of="no broker leader row")) == []


def test_a_stored_hw_is_of_an_epoch_in_which_its_leader_saw_the_broker_fetch():
    """Its own line as a follower of that epoch is lost: the HW counted for one before, and a loss was dated there."""
    numbers = tuple(map(int, "112012101032010113103110010101012"))
    assert list(found(DRAWN[0], [numbers], [View(3)], taken=True, of="row 85 lost")) == []


def test_a_former_leader_that_started_again_has_no_hw_of_its_own_term_where_its_lines_as_follower_are_not_told():
    """It fetched from the leader of after that: its HW counted for its own term, and a loss was dated there."""
    numbers = tuple(map(int, "00101011200001100001"))
    assert list(found(DRAWN[0], [numbers], [View(0)], taken=True, of="no broker follower row")) == []


HOLES = [
    pytest.param(0, View(3), 50, "0120130000000012000010000011", id="HWs behind a hole in which their term began"),
    pytest.param(
        2, View(0), 107, "01321021211100011102011010112000010121120010111001011133200", id="a fetch in a term of a hole"
    ),
    pytest.param(
        2, View(3), 208, "012010133201110110000112012010010111001132012001002002", id="a HW that waits for its term"
    ),
    pytest.param(
        2, View(3), 102, "0102000301001123103212201011101111021132110001011000", id="the same after a clean election"
    ),
    pytest.param(
        2, View(3), 174, "0133130100101211010011101000111101010103112121", id="a cut behind a lost first start"
    ),
]


@pytest.mark.parametrize(("scope", "view", "row", "numbers"), HOLES)
def test_a_row_that_is_lost_makes_no_claim_of_a_loss_or_of_none(scope: int, view: View, row: int, numbers: str):
    assert list(found(DRAWN[scope], [tuple(map(int, numbers))], [view], taken=True, of=f"row {row} lost")) == []


def test_a_resumption_that_is_the_first_start_of_a_lake_is_judged_where_a_hw_of_before_is_known():
    """A power failure had cut the log in which the HW rose: the start below it was stale, and proven."""
    numbers = tuple(map(int, "010200103201001110310121101001200010111130111011112"))
    assert list(found(DRAWN[2], [numbers], [View(3)], taken=True, of="nothing before 1767225654190000")) == []


def test_a_leader_of_a_lake_that_begins_inside_a_term_has_no_hw_of_an_epoch_that_nobody_names():
    """The fetches of a leader whose epoch is not told are of epoch -1: no broker's last one."""
    numbers = tuple(map(int, "0000021000011010000121"))
    assert list(found(DRAWN[0], [numbers], [View(3)], taken=True, of="nothing before 1767225609530000")) == []


@pytest.mark.parametrize(
    ("terms", "numbers"), [(3, "002000001000111300001101001"), (4, "000200000100000101000102212000000000000001")]
)
def test_a_restoration_that_no_line_of_a_follower_shows_is_one(terms: int, numbers: str):
    """A leader resumes an epoch: its HWs of that counted for before a later one, in which they were lost."""
    scope = DRAWN[3]._replace(terms=terms)
    assert list(found(scope, [tuple(map(int, numbers))], [View(3)], taken=True, of="no broker follower row")) == []


@pytest.mark.parametrize(
    ("view", "numbers"),
    [
        (View(3), "0101003010111000200100100101200012"),
        (View(0), "012310000110010012211000001202010012110010021"),
        (View(0), "002100110100110011111000200100000101010000001201"),
    ],
)
def test_a_broker_of_which_no_start_as_a_follower_is_told_may_have_what_leaders_beside_it_had(view: View, numbers: str):
    """A leader that has told nothing since may not have told its last fetches; nor did a broker that tells of its
    first start as a leader, and was in the cluster before."""
    assert list(found(DRAWN[3], [tuple(map(int, numbers))], [view], taken=True, of="no broker follower row")) == []


def test_hws_of_a_leader_that_resumed_an_epoch_when_it_was_over_are_of_no_term_before_a_later_epoch():
    """Nobody tells that a snapshot was restored: no controller is read, and no line of a follower."""
    numbers, view = tuple(map(int, "10220103310302010011011001131131130")), View(3, "none")
    assert list(found(DRAWN[3], [numbers], [view], taken=True, of="no broker follower row")) == []


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.name)
def test_what_was_found_before(kept: Kept):
    assert list(found(kept.scope, [kept.numbers], [kept.view])) == []
