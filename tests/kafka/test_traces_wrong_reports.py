"""A broker that reports a wrong HW is found out wherever other rows have the HW; the computed HW does not move."""

import random
from collections import Counter
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pytest

from generators.recordings import traces
from pipelines.replication import Rules, replay
from tests.kafka.test_traces_loss import worse_than_info

SAMPLE, SEED = 60, 6
WRONG_BY = (1, -1, 100, -100)
APART_US = 2_000_000
"""Wrong reports of one partition lie so far apart in one replay that none is judged in the light of another."""
RACE_US = Rules().race_window_ms * 1000


class Report(NamedTuple):
    row: int
    ts: int
    topic: str
    partition: int
    leader_epoch: int
    hw: int

    @property
    def place(self):
        return self.topic, self.partition

    @property
    def term(self):
        return self.topic, self.partition, self.leader_epoch


class Wrong(NamedTuple):
    report: Report
    hw: int


def told_reports(events):
    """Every HW that a leader reported of its partition, with the number of its row."""
    names = ["event_type", "source_id", "ts", "topic", "partition", "leader_epoch", "hw"]
    columns = events.select(names).set_column(2, "ts", events["ts"].cast(pa.int64()))
    return [
        Report(number, *row[2:])
        for number, row in enumerate(zip(*(column.to_pylist() for column in columns.columns), strict=True))
        if row[0] == "hw" and row[1].endswith("replication.log")
    ]


def agreement_of(facts):
    """The agreement of each report; within a term no HW comes twice."""
    rows = [row for row in facts.partition_hw.to_pylist() if row["reported_hw"] is not None]
    said = {(r["topic"], r["partition"], r["leader_epoch"], r["reported_hw"]): r["agreement"] for r in rows}
    assert len(said) == len(rows)
    return said


def outlived(events):
    """Rows of reports that a later row of their partition is past, ahead of the next start of its broker: a broker that
    was killed right behind one had no time for what would have shown it right."""
    names = ["event_type", "source_id", "topic", "partition", "ts"]
    columns = events.select(names).set_column(4, "ts", events["ts"].cast(pa.int64()))
    latest, found = {}, set()
    for number, row in reversed(list(enumerate(zip(*(c.to_pylist() for c in columns.columns), strict=True)))):
        kind, *series, ts = row
        if kind == "hw" and latest.get(tuple(series), -1) > ts + RACE_US:
            found.add(number)
        begins = kind in ("leader", "follower")
        latest[tuple(series)] = -1 if begins else max(latest.get(tuple(series), -1), ts)
    return found


def chosen(events, facts):
    """The first and the last report of each term and a seeded sample of the others, as far as they can be checked."""
    said, past = agreement_of(facts), outlived(events)
    checked = [r for r in told_reports(events) if r.row in past and said[*r.term, r.hw] in ("exact", "race")]
    terms = [list(reports) for _, reports in groupby(sorted(checked, key=lambda r: (r.term, r.ts)), lambda r: r.term)]
    ends = [report for reports in terms for report in (reports[0], reports[-1])]
    return sorted({*ends, *random.Random(SEED).sample(checked, SAMPLE)})


def rounds(wrongs):
    """The wrong reports spread over as few replays as keep them apart."""
    left = sorted(wrongs, key=lambda wrong: wrong.report.ts)
    while left:
        latest, going, later = {}, [], []
        for wrong in left:
            place, ts = wrong.report.place, wrong.report.ts
            if ts - latest.get(place, -APART_US) < APART_US:
                later.append(wrong)
                continue
            latest[place] = ts
            going.append(wrong)
        yield going
        left = later


def with_wrong(events, wrongs):
    """The events with those reports changed."""
    hw = events["hw"].to_pylist()
    for wrong in wrongs:
        hw[wrong.report.row] = wrong.hw
    at = events.schema.get_field_index("hw")
    return events.set_column(at, events.schema.field(at), pa.array(hw, events.schema.field(at).type))


def computed(facts):
    """The computed HW: every advance and term start with its time."""
    rows = facts.partition_hw.to_pylist()
    return Counter(
        (r["topic"], r["partition"], r["leader_epoch"], r["ts"], r["hw"])
        for r in rows
        if r["kind"] in ("advance", "term_start")
    )


def disagreements(facts):
    rows = facts.partition_hw.to_pylist()
    return [row for row in rows if row["agreement"] == "disagree"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("by", WRONG_BY)
@pytest.mark.parametrize("scenario", traces.scenarios())
def test_a_wrong_report_is_found_out_and_moves_nothing(events_of, facts_of, scenario, by):
    """One disagreement for each, at its time; the computed HW stays, and nothing is called lost that was not."""
    events, facts = events_of(scenario), facts_of(scenario)
    wrongs = [Wrong(r, r.hw + by) for r in chosen(events, facts) if r.hw + by >= 0]
    assert len(wrongs) >= SAMPLE / 2
    for going in rounds(wrongs):
        found = replay(with_wrong(events, going))
        assert computed(found) == computed(facts)
        rows = disagreements(found)
        key = Counter((r["topic"], r["partition"], r["leader_epoch"], r["reported_hw"]) for r in rows)
        assert key == Counter((*wrong.report.term, wrong.hw) for wrong in going)
        assert near(rows, going)
        assert len(worse_than_info(found)) == len(worse_than_info(facts))


def near(rows, wrongs):
    """Each disagreement lies within the race window of the report that was changed."""
    times = {(r["topic"], r["partition"], r["leader_epoch"], r["reported_hw"]): r["ts"] for r in rows}
    distance = [
        abs(round(times[*wrong.report.term, wrong.hw].timestamp() * 1_000_000) - wrong.report.ts) for wrong in wrongs
    ]
    return max(distance) <= RACE_US


def test_a_report_that_is_the_only_witness_cannot_be_checked(events_of, facts_of):
    """The last report of a leader that is alone in the ISR and has no append row: accepted, and marked as the only
    witness."""
    events, facts = events_of("unclean_election"), facts_of("unclean_election")
    said = agreement_of(facts)
    first_term = [report for report in told_reports(events) if report.term == ("clicks", 0, 0)]
    last = max(first_term, key=lambda report: report.ts)
    assert said[*last.term, last.hw] == "only_witness"
    found = replay(with_wrong(events, [Wrong(last, last.hw + 100)]))
    assert disagreements(found) == []
    assert computed(found) - computed(facts) == Counter([(*last.term, utc(last.ts), last.hw + 100)])


def utc(us):
    return datetime.fromtimestamp(us / 1_000_000, UTC)


@pytest.mark.parametrize("scenario", ["leader_crash", "slow_follower"])
def test_lean_takes_a_report_back_that_a_later_line_contradicts(events_of_cut, facts_of_cut, scenario):
    """What disagrees beside it came before that line and is final; nothing is called lost or moved back."""
    events, facts = events_of_cut(scenario, "lean"), facts_of_cut(scenario, "lean")
    reports = random.Random(SEED).sample(told_reports(events), SAMPLE)
    for going in rounds([Wrong(report, report.hw + 100) for report in reports]):
        found = replay(with_wrong(events, going))
        rows = disagreements(found)
        shown = {(*place_of(row), row["reported_hw"]): row["ts"] for row in rows}
        assert {(*wrong.report.term, wrong.hw) for wrong in going} <= shown.keys()
        spans = [(wrong.report.term, utc(wrong.report.ts), shown[*wrong.report.term, wrong.hw]) for wrong in going]
        assert all(any(place_of(row) == term and a <= row["ts"] <= b for term, a, b in spans) for row in rows)
        assert len(rows) <= 1.5 * len(going)
        assert len(worse_than_info(found)) == len(worse_than_info(facts))


def place_of(row):
    return row["topic"], row["partition"], row["leader_epoch"]
