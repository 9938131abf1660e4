"""Every HW change that the brokers of the recorded traces printed is computed from their fetches and appends."""

from collections import Counter

import pytest

from generators.recordings import traces

PRINTED = {"slow_follower": 2761, "leader_crash": 4882, "unclean_election": 1915}
ALONE = 580
"""HW changes of `clicks` while its leader is alone in the ISR: nothing but the HW line shows its LEO (acks=1)."""


def reports(facts):
    return [row for row in facts.partition_hw.to_pylist() if row["reported_hw"] is not None]


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_every_printed_hw_change_is_a_reported_hw(facts_of, printed_hw, scenario):
    printed = printed_hw(scenario)
    assert len(printed) == PRINTED[scenario]
    rows = reports(facts_of(scenario))
    found = Counter((r["topic"], r["partition"], r["leader_id"], r["reported_hw"]) for r in rows)
    assert found == Counter(map(tuple, printed))


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_every_report_with_another_witness_agrees_and_nearly_all_exactly(facts_of, scenario):
    agreement = Counter(row["agreement"] for row in reports(facts_of(scenario)))
    alone = agreement.pop("only_witness", 0)
    assert set(agreement) <= {"exact", "race"}
    assert agreement.total() == PRINTED[scenario] - alone
    assert agreement["exact"] >= 0.98 * agreement.total()


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_only_witness_is_a_leader_alone_in_the_isr(facts_of, scenario):
    facts = facts_of(scenario)
    said = [row for row in reports(facts) if row["agreement"] == "only_witness"]
    assert [row for row in said if row["isr"] != [row["leader_id"]]] == []
    assert {row["topic"] for row in said} == ({"clicks"} if scenario == "unclean_election" else set())
    assert len(said) == (ALONE if scenario == "unclean_election" else 0)


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_the_hw_is_what_was_reported_and_never_falls_within_a_term(facts_of, scenario):
    latest = {}
    rows = facts_of(scenario).partition_hw.to_pylist()
    assert [row for row in rows if row["agreement"] in ("exact", "race") and row["hw"] != row["reported_hw"]] == []
    for row in sorted((r for r in rows if r["kind"] in ("advance", "term_start")), key=lambda r: r["ts"]):
        place = row["topic"], row["partition"]
        if row["kind"] == "advance":
            assert row["hw"] > latest[place]
            assert row["leader_leo"] is None or row["hw"] <= row["leader_leo"]
        latest[place] = row["hw"]


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_the_last_hw_is_the_end_of_the_acknowledged_records(facts_of, actions_of, scenario):
    """The producers' own count of what is there: every acknowledged record is below the HW at the end."""
    rows = sorted(facts_of(scenario).partition_hw.to_pylist(), key=lambda row: row["ts"])
    last = {(row["topic"], row["partition"]): row["hw"] for row in rows}
    summaries = [action for action in actions_of(scenario) if action["action"] == "load_summary"]
    ends = {
        (summary["topic"], int(partition)): max_offset + 1
        for summary in summaries
        for partition, (_, max_offset) in summary["acked_count_and_max_offset"].items()
    }
    assert last == ends
