"""The lines of the counts: what was not covered, and what was lost by then."""

from pipelines.web.answers.last_hour import lost_by_then, not_covered
from tests.unit.project.lakes import at, health, loss, sound, write


def span(broker, since, until):
    return {"broker_id": broker, "from_ts": at(since), "to_ts": at(until)}


def leads(broker, minute, partitions):
    return {"broker_id": broker, "minute": at(60 * minute), "partitions": partitions}


def test_a_broker_counts_in_the_minutes_of_which_a_part_is_not_covered():
    led = [leads(1, 0, 20), leads(2, 0, 30), leads(2, 3, 0)]
    spans = [span(1, -600, 70), span(1, 50, 600), span(2, -600, 59)]
    assert not_covered(at(0), at(600), led, spans) == [30, 30, 30, 0, 0, 0, 0, 0, 0, 0, 0]


def test_the_end_of_a_stretch_that_goes_on_is_no_gap():
    assert not_covered(at(0), at(240), [leads(1, 0, 5)], [span(1, 0, 130)]) == [0, 0, 0, 0, 0]


def test_of_minutes_before_the_first_in_which_a_broker_is_known_to_lead_nothing_is_said():
    assert not_covered(at(0), at(180), [leads(1, 2, 5)], []) == [None, None, 5, 5]


def test_offsets_lost_are_added_up_to_the_number_beside_the_line():
    gone = [{"ts": at(70), "lost_records": 5}, {"ts": at(80), "lost_records": None}, {"ts": at(130), "lost_records": 1}]
    assert lost_by_then(at(0), at(180), gone, 16) == [10, 15, 16, 16]


def test_the_overview_draws_all_six_counts(lake, ask):
    sound(lake, health("clicks", 0))
    most = {"offline_max": 0, "under_min_isr_max": 0, "under_replicated": 0, "held_back_max": 4}
    write(lake, "cluster_minute", {"minute": at(0), **most})
    write(lake, "broker_minute", {"broker_id": 9, "minute": at(-3000), "partitions": 7})
    write(lake, "hw_regressions", loss(ts=at(-120)))
    counts = {one["name"]: one for one in ask("/api/v1/overview").json()["counts"]}
    assert [name for name, one in counts.items() if not one["line"]] == []
    assert {name: counts[name]["most"] for name in ("held back", "not known", "lost offsets")} == {
        "held back": 4, "not known": 7, "lost offsets": 180,
    }  # fmt: skip
