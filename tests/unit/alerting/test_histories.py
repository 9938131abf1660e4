"""Histories of a cluster, looked at in any way: what is told does not depend on when, how often or by whom.

A history is a list of things that begin and end, as the simulator's truth has them; its rows come to the evaluation as
the job writes them. It is looked at hourly, daily, once, at random moments, beside a rebuild and retention, and by
processes that are killed; `HWMARK_HISTORIES=2000` plays that many. Pure: `decide` alone, on evidence that is cut as
`read` cuts it.
"""

import os
import random
from dataclasses import replace

import pyarrow as pa
import pytest

from pipelines.alerting.conditions import SECOND
from pipelines.alerting.evaluate import decide
from pipelines.alerting.outbox import latest
from pipelines.alerting.reading import MADE_ANEW, Reading
from pipelines.alerting.rules import AlertRules
from pipelines.alerting.step import Step
from pipelines.lake.queries import microseconds
from tests.unit.alerting.evidence_rows import NOON, at, evidence

pytestmark = pytest.mark.long

HISTORIES = int(os.environ.get("HWMARK_HISTORIES", "8"))
OFTEN = 0.05 if HISTORIES > 100 else 0.0
"""How many of them are looked at every hour: each time takes a tenth of a second."""
HOUR, DAY = 3600, 86_400
END = 3 * DAY
LAST = 40 * DAY
"""When all is looked at for the last time: later than every `resolve_after_s` since the last telling."""
RULES = AlertRules()


class History:
    """Rows with the moment (seconds) at which the job wrote them; `truth`: (rule, partition or source, first)."""

    def __init__(self, rng):
        self.rng = rng
        self.rows = []
        self.truth, self.revised = set(), set()
        for number in range(rng.randint(1, 6)):
            rng.choice((self._frozen, self._behind, self._lost, self._gap))(number)
        self.retained_from = rng.choice((None, None, DAY, 2 * DAY))

    def _put(self, name, at_, **row):
        self.rows.append((at_ + self.rng.choice((1, 5, 9)), name, {"ts": at_, **row}))

    def _frozen(self, number):
        first = self.rng.randrange(0, END)
        lasts = self.rng.choice((100, 400, 5000, 2 * DAY, None))
        self._put("min_isr", first, partition=number, kind="freeze", isr=[1], frozen=True)
        if lasts is not None:
            self._put("min_isr", first + lasts, partition=number, kind="thaw", isr=[1, 2], frozen=False)
        if lasts is None or lasts >= 300:
            self.truth.add(("under_min_isr", f"orders-{number}", first))

    def _behind(self, number):
        first = self.rng.randrange(0, END)
        lasts = self.rng.choice((300, 900, DAY, None))
        place = {"partition": number, "replica_id": number + 10, "leader_epoch": 1, "reason": "silent"}
        self._put("sync", first, state="out_of_sync", **place)
        if lasts is not None:
            self._put("sync", first + lasts, state="in_sync", **place)
        if lasts is None or lasts >= 600:
            self.truth.add(("out_of_sync", f"orders-{number}", first))

    def _lost(self, number):
        first = self.rng.randrange(0, END)
        severity, rule = self.rng.choice(
            (("critical", "loss"), ("warning", "unproven_loss"), ("info", "loss_not_excluded"))
        )
        row = {
            "regression_id": f"r{number}", "class": "loss_not_excluded" if severity == "info" else "unclean_loss",
            "severity": severity, "partition": number, "lost_records": number + 1, "proof": "proven", "revision": 1,
            "lost_from": 1, "lost_to": number + 2,
        }  # fmt: skip
        self._put("regressions", first, **row)
        if self.rng.random() < 0.3:  # what is told later shows that it was none
            late = first + self.rng.choice((60, 2 * HOUR))
            self.rows.append(
                (late, "regressions", {"ts": first, **row, "severity": "info", "class": "x", "revision": 2})
            )
            self.revised.add((rule, f"orders-{number}", first))
        else:
            self.truth.add((rule, f"orders-{number}", first))

    def _gap(self, number):
        first = self.rng.randrange(0, END)
        self._put("gaps", first, source_id=f"s{number}", series="source", seq_from=1, seq_to=2, kind="gap")
        self.truth.add(("gap", f"s{number}", first))


class Lake:
    """A history as a lake has it at some moment, and what was told of it."""

    def __init__(self, history):
        self.history, self.told, self.step = history, [], Step()

    def look(self, now, *, rebuilding=False, retention=False, killed=False, away=()):
        kept = self.history.retained_from if retention else None
        floor = None if kept is None else max(0, now - kept)
        clock = now - 10  # what is later may still be preceded by what comes
        before = self.step.clocks.get(RULES.key("loss"), {}).get("c")
        start = None if before is None else (before - microseconds(NOON)) // SECOND - RULES.history.silver_s
        blind = dict.fromkeys(MADE_ANEW if rebuilding else away, "cannot be read")
        tables = {"min_isr": [], "sync": [], "regressions": [], "gaps": []}
        for written, name, row in self.history.rows:
            gone = name != "regressions" and any(edge is not None and row["ts"] < edge for edge in (floor, start))
            if written <= now and not gone and name not in blind:
                tables[name].append(row)
        partitions = [{"partition": n, "ar": [1, 2]} for n in range(6)]
        found = evidence(clock, health=partitions, **tables)
        found["carried"] = self.step.carried
        kept_from = {} if floor is None else {"c": at(floor)}
        seen = Reading(found, replace(self.step, clocks={}), {"c": microseconds(at(clock))}, blind, kept_from)
        done = decide(seen, RULES, self.told, self.step, at(now))
        if not killed:
            self.told, self.step = self.told + done.new, done.step
        return done


def schedules(rng):
    """(name, moments) at which somebody looks, before the last time."""
    yield "once", []
    yield "daily", range(DAY, END + DAY, DAY)
    yield "at any moments", sorted(rng.randrange(1, END + DAY) for _ in range(rng.randint(1, 6)))
    if rng.random() < OFTEN:
        yield "hourly", range(HOUR, END + DAY, HOUR)


def named(state):
    """(rule, partition or source) of what a state says is affected, and of what it says was so before."""
    affected, over = (
        {(state.rule, one) for label in labels for one in state.labels.get(label, "").split(", ") if one}
        for labels in (("partitions", "sources"), ("over",))
    )
    return affected, over


def conditions(states):
    """(rule, partition or source) of what was told, with the alerts that named it; but for what was withdrawn."""
    found = {}
    for state in states:
        if state.labels.get("end") != "withdrawn":
            for key in set.union(*named(state)):
                found.setdefault(key, set()).add(state.episode)
    return found


def firing(states):
    """(rule, partition or source) of what is affected by the alerts that fire."""
    return {key for state in states if state.firing for key in named(state)[0]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_what_is_told_does_not_depend_on_when_it_is_looked_at(seed):
    rng = random.Random(seed)
    history = History(rng)
    true = {(rule, item) for rule, item, _ in history.truth}
    ends = {}
    for name, moments in schedules(rng):
        lake = Lake(history)
        for moment in moments:
            if rng.random() < 0.1:
                lake.look(moment, killed=True)
            if rng.random() < 0.05:
                lake.look(moment, rebuilding=True)
            away = rng.sample(("min_isr", "sync", "regressions", "gaps"), rng.choice((0, 0, 0, 1, 4)))
            lake.look(moment, away=away)
            if rng.random() < 0.2:
                assert lake.look(moment, away=away).new == [], (name, "two evaluations at one moment")
        for last in (LAST, LAST + 2 * DAY):
            done = lake.look(last)
        found = conditions(lake.told)
        revised = {(rule, item) for rule, item, _ in history.revised}
        assert true <= found.keys(), (name, "whoever was affected is told")
        assert found.keys() - true <= revised, (name, "nothing told that truth excludes, unless it was revised")
        assert not firing(latest(lake.told).values()) & revised - true, (name, "what was revised does not fire")
        assert all(len(own) == 1 for own in found.values()), (name, "told once", found)
        assert firing(done.present) == _holds(history), (name, "what holds by the truth fires")
        ends[name] = sorted((s.rule, s.state) for s in done.present if s.firing)
    assert len({tuple(end) for end in ends.values()}) == 1


def _holds(history):
    """(rule, item) of the lasting states that are never over."""
    ends = ("in_sync", "thaw")
    over = {(name, row["partition"]) for _, name, row in history.rows if (row.get("state") or row.get("kind")) in ends}
    names = {"under_min_isr": "min_isr", "out_of_sync": "sync"}
    return {
        (rule, item)
        for rule, item, _ in history.truth
        if rule in names and (names[rule], int(item.rpartition("-")[2])) not in over
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(0, HISTORIES, 4))
def test_retention_ends_nothing_that_was_told(seed):
    """What it removed before anybody looked is exempt."""
    rng = random.Random(seed)
    history = History(rng)
    history.retained_from = rng.choice((DAY, 2 * DAY))
    lake = Lake(history)
    for moment in range(6 * HOUR, END + DAY, 6 * HOUR):
        lake.look(moment)
    for moment in range(END + DAY, LAST, 6 * DAY):
        done = lake.look(moment, retention=True)
    assert firing(done.present) == _holds(history)
    assert all(len(own) == 1 for own in conditions(lake.told).values())


def frozen(*spans):
    """A lake in which partitions were under min ISR in these spans (from, to) of seconds."""
    history = History(random.Random(1))
    history.rows, history.retained_from = [], None
    for number, (first, last) in enumerate(spans):
        history._put("min_isr", first, partition=number, kind="freeze", isr=[1], frozen=True)
        if last is not None:
            history._put("min_isr", last, partition=number, kind="thaw", isr=[1, 2], frozen=False)
    return Lake(history)


def test_what_began_and_ended_within_an_alert_is_named_for_as_long_as_it_fires_and_at_its_end():
    lake = frozen((0, 20 * DAY), (HOUR, 3 * HOUR))
    (told,) = lake.look(DAY).new
    assert (told.labels["partitions"], told.labels["over"], told.size) == ("orders-0", "orders-1", (2, None))
    assert [lake.look(day * DAY).new for day in (1, 7, 9, 9, 19)] == [[]] * 5
    (ended,) = lake.look(21 * DAY).new
    assert (ended.state, ended.labels["partitions"]) == ("resolved", "orders-0, orders-1")


def test_growth_that_was_over_when_it_was_looked_at_is_told_as_if_it_was_seen():
    lake = frozen((0, None), *((HOUR, 3 * HOUR) for _ in range(5)))
    lake.look(HOUR)
    before = latest(lake.told)
    (grown,) = lake.look(DAY).new
    assert grown.exceeds(before[grown.episode].size)


def test_what_was_told_as_over_is_not_found_anew_where_its_first_rows_are_read_no_more():
    lake = frozen((0, 2 * DAY), (DAY, 3 * DAY))
    assert len(lake.look(4 * DAY).new) == 1
    assert [lake.look(day * DAY).new for day in (7.5, 7.6, 7.8)] == [[]] * 3


def test_a_table_of_carried_states_goes_through_the_record(tmp_path):
    from pipelines.alerting.step import recorded_step, take_step
    from pipelines.lake.lake import Lake as OnDisk

    history = History(random.Random(1))
    history.rows, history.truth = [], set()
    history._frozen(0)
    lake = Lake(history)
    lake.look(LAST)
    place = OnDisk(str(tmp_path))
    take_step(place, lake.step, {})
    assert recorded_step(place) == lake.step or recorded_step(place).carried.equals(lake.step.carried)
    assert isinstance(recorded_step(place).carried, pa.Table)
