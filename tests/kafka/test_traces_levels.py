"""What lower log levels keep of the recorded traces, and what they lose, as the README's table says."""

from collections import Counter

import pytest

from generators.recordings import traces
from tests.kafka.conftest import millis
from tests.kafka.test_traces_isr import changes
from tests.kafka.test_traces_loss import LOST, verdicts, worse_than_info

LEVELS = [(scenario, level) for level in ("lean", "info") for scenario in traces.scenarios()]


def identity(facts, names):
    return sorted(tuple(str(row[name]) for name in names) for row in facts)


@pytest.mark.parametrize(("scenario", "level"), LEVELS)
def test_every_cut_has_the_isr_changes_of_the_whole(facts_of, facts_of_cut, scenario, level):
    names = ("topic", "partition", "partition_epoch", "change", "isr_before", "isr_after", "cause")
    assert identity(changes(facts_of_cut(scenario, level)), names) == identity(changes(facts_of(scenario)), names)


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_lean_has_the_verdicts_of_the_whole(facts_of, facts_of_cut, scenario):
    names = ("regression_id", "class", "severity", "proof", "hw_before", "start_offset", "lost_from", "lost_to")
    assert identity(verdicts(facts_of_cut(scenario, "lean")), names) == identity(verdicts(facts_of(scenario)), names)


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_lean_takes_every_report_and_none_disagrees(facts_of_cut, printed_hw, scenario):
    """A report that no later line confirms is `only_witness`; none is invented and none is left out."""
    rows = [row for row in facts_of_cut(scenario, "lean").partition_hw.to_pylist() if row["reported_hw"] is not None]
    assert {row["agreement"] for row in rows} <= {"exact", "race", "only_witness"}
    assert all(row["hw"] == row["reported_hw"] and row["kind"] == "advance" for row in rows)
    found = Counter((row["topic"], row["partition"], row["leader_id"], row["reported_hw"]) for row in rows)
    assert found == Counter(map(tuple, printed_hw(scenario)))


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_lean_calls_out_of_sync_late_or_not_at_all_and_never_early(facts_of, facts_of_cut, scenario):
    """All silences that it has are in the full one, and began no later there."""

    def silences(facts):
        rows = [row for row in facts.replica_sync.to_pylist() if row["state"] == "out_of_sync"]
        return {(r["topic"], r["partition"], r["leader_epoch"], r["replica_id"]): r["ts"] for r in rows}

    whole, lean = silences(facts_of(scenario)), silences(facts_of_cut(scenario, "lean"))
    assert lean
    assert lean.keys() <= whole.keys()
    assert [place for place in lean if lean[place] < whole[place]] == []


def test_lean_finds_the_frozen_follower(facts_of_cut, actions_of):
    frozen, thawed = (a["ts_ms"] for a in actions_of("slow_follower") if a.get("broker") == 3 and "SIG" in a["action"])
    rows = facts_of_cut("slow_follower", "lean").replica_sync.to_pylist()
    found = [r for r in rows if r["state"] == "out_of_sync" and r["replica_id"] == 3 and millis(r["ts"]) < thawed]
    assert {(row["topic"], row["partition"]) for row in found} == {
        ("orders", 1), ("orders", 2), ("orders", 3), ("payments", 0)
    }  # fmt: skip
    assert all(millis(row["ts"]) > frozen + 6000 for row in found)


def test_info_bounds_the_loss_of_the_unclean_election(facts_of_cut):
    lost = worse_than_info(facts_of_cut("unclean_election", "info"))
    assert sorted((row["topic"], row["partition"], row["class"], row["severity"], row["proof"]) for row in lost) == [
        ("clicks", partition, "unclean_loss", "critical", "bounded") for partition in (0, 1)
    ]
    for row in lost:
        assert row["lost_from"] <= LOST[0]
        assert row["lost_to"] >= LOST[1]


@pytest.mark.parametrize("scenario", ["leader_crash", "slow_follower"])
def test_info_finds_no_loss_where_there_is_none(facts_of_cut, scenario):
    assert worse_than_info(facts_of_cut(scenario, "info")) == []


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_info_loses_the_hw_between_term_starts(facts_of, facts_of_cut, scenario):
    """What is left comes from the lines of leaders that start, and of shrinks."""
    rows = facts_of_cut(scenario, "info").partition_hw.to_pylist()
    assert {row["level"] for row in rows} == {0}
    starts = [row for row in rows if row["kind"] == "term_start"]
    whole = [row for row in facts_of(scenario).partition_hw.to_pylist() if row["kind"] == "term_start"]
    names = ("topic", "partition", "leader_epoch", "hw")
    assert identity(starts, names) == identity(whole, names)
    assert sum(row["kind"] == "advance" for row in rows) <= 5


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_info_never_disagrees_with_what_it_cannot_check(facts_of_cut, scenario):
    rows = facts_of_cut(scenario, "info").partition_hw.to_pylist()
    assert [row for row in rows if row["agreement"] == "disagree"] == []


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_info_calls_nobody_out_of_sync_whom_no_line_names(facts_of_cut, printed_shrinks, scenario):
    rows = facts_of_cut(scenario, "info").replica_sync.to_pylist()
    named = {(shrink["topic"], shrink["partition"], shrink["replica_id"]) for shrink in printed_shrinks(scenario)}
    claimed = {(row["topic"], row["partition"], row["replica_id"]) for row in rows if row["in_isr"]}
    assert claimed <= named
