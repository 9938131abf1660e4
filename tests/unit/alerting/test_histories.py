"""Histories of clusters, looked at in any way: what is told does not depend on when, how often or by whom.

A history is a list of things that begin and end, as the simulator's truth has them; its rows come to the evaluation as
the job writes them, some hours late. Many are clusters of one lake, which is looked at hourly, daily, once, at random
moments, beside a rebuild and retention, by processes that are killed, have a rule off, or find the last step lost;
`HWMARK_HISTORIES=2000` plays that many, `SEED` which.
Pure: `decide` alone, on evidence that is cut as `read` cuts it.
"""

import os
import random
from dataclasses import replace

import pytest

from pipelines.alerting.conditions import SECOND
from pipelines.alerting.evaluate import decide
from pipelines.alerting.evidence import evidence_of
from pipelines.alerting.outbox import latest
from pipelines.alerting.reading import MADE_ANEW, Reading
from pipelines.alerting.rules import RULES as EACH
from pipelines.alerting.rules import AlertRules, parse
from pipelines.alerting.step import Step
from pipelines.lake.queries import microseconds
from schemas.event_types import NO_CONTROLLER
from tests.unit.alerting.evidence_rows import NOON, at, rows

pytestmark = pytest.mark.long

HISTORIES = int(os.environ.get("HWMARK_HISTORIES", "8"))
SEED = int(os.environ.get("SEED", "0"))
OFTEN = 0.1 if HISTORIES > 100 else 0.0
"""How many of the lakes are looked at every hour."""
TOGETHER = min(100, HISTORIES)
"""Clusters of one lake: an evaluation of one takes as long as of many."""
HOUR, DAY = 3600, 86_400
END = 3 * DAY
LAST = 40 * DAY
"""When all is looked at for the last time: later than every `resolve_after_s` since the last telling."""
RULES = AlertRules()
TABLES = ("min_isr", "sync", "regressions", "gaps", "isr", "broker_states")
OFF = [parse({name: {"enabled": False}}) for name in ("under_min_isr", "no_controller", "loss", "gap")]
WELL, NONE = "quorum: 3 voters, 3 caught up", f"{NO_CONTROLLER} is reached by brokers 1, 2"


class History:
    """Rows with the moment (seconds) at which the job wrote them; `truth`: (rule, partition or source, first)."""

    def __init__(self, rng, cluster="c"):
        self.rng, self.cluster = rng, cluster
        self.rows = []
        self.truth, self.revised, self.holds = set(), set(), set()
        self.assigned, self.quorum = {}, []
        self.late = rng.random() < 0.3
        for number in range(rng.randint(1, 6)):
            rng.choice((self._frozen, self._behind, self._lost, self._gap, self._left, self._added))(number)
        if rng.random() < 0.3:
            self._headless()

    def _put(self, name, at_, **row):
        late = self.rng.choice((0, 600, 5 * HOUR, 2 * DAY)) if self.late and name != "broker_states" else 0
        written = at_ + self.rng.choice((1, 5, 9)) + late
        self.rows.append((written, name, {"cluster": self.cluster, "ts": at_, **row}))

    def _frozen(self, number):
        first = self.rng.randrange(0, END)
        lasts = self.rng.choice((100, 400, 5000, 2 * DAY, None))
        self._put("min_isr", first, partition=number, kind="freeze", isr=[1], frozen=True)
        if lasts is not None:
            self._put("min_isr", first + lasts, partition=number, kind="thaw", isr=[1, 2], frozen=False)
        self._lasts("under_min_isr", f"orders-{number}", first, lasts, 300)

    def _behind(self, number):
        first = self.rng.randrange(0, END)
        lasts = self.rng.choice((300, 900, DAY, None))
        place = {"partition": number, "replica_id": number + 10, "leader_epoch": 1, "reason": "silent"}
        self._put("sync", first, state="out_of_sync", **place)
        if lasts is not None:
            self._put("sync", first + lasts, state="in_sync", **place)
        self._lasts("out_of_sync", f"orders-{number}", first, lasts, 600)

    def _left(self, number):
        """A replica is out of the ISR, and comes back, or another one takes its place."""
        first, moved = self.rng.randrange(0, END), self.rng.random() < 0.5
        lasts = self.rng.choice((300, 5000, DAY, None))
        end, row = first + (lasts or 2 * DAY), {"partition": number, "revision": 1}
        self._put("isr", first, partition_epoch=1, isr_before=[1, 2], isr_after=[1], **row)
        after = [1, 3] if moved else [1, 2]
        if lasts:
            self._put("isr", end, partition_epoch=3, isr_before=[1], isr_after=after, **row)
        if moved:
            running = self.rng.randrange(first, end)
            self.assigned[number] = [(0, [1, 2]), (running, [1, 2, 3]), *([(end, after)] if lasts else [])]
        self._lasts("at_risk", f"orders-{number}", first, lasts, 600)

    def _added(self, number):
        """A replica more is assigned, and in the ISR a day later: no risk."""
        first = self.rng.randrange(1, END)
        self.assigned[number] = [(0, [1, 2]), (first, [1, 2, 3])]
        for ts, before, after in ((0, [1], [1, 2]), (first + DAY, [1, 2], [1, 2, 3])):
            self._put("isr", ts, partition=number, partition_epoch=ts, isr_before=before, isr_after=after, revision=1)

    def _headless(self):
        """Without a controller once or several times, at last perhaps to the end."""
        at_ = self.rng.randrange(0, END)
        self.quorum = [(0, WELL)]
        for _ in range(self.rng.randint(1, 3)):
            lasts = self.rng.choice((20, 400, 5000, None))
            self._lasts("no_controller", str(at(at_)), at_, lasts, 0)
            self.quorum += [(at_, NONE), *([(at_ + lasts, WELL)] if lasts else [])]
            if lasts is None:
                break
            at_ += lasts + self.rng.choice((100, 5000, DAY))
        for told_at, detail in self.quorum:
            self._put("broker_states", told_at, replica_id=1, detail=detail)

    def _lasts(self, rule, item, first, lasts, for_s):
        if lasts is None or lasts >= for_s:
            self.truth.add((rule, item, first))
        elif self.late:  # its end may come after somebody looked
            self.revised.add((rule, item, first))
        if lasts is None:
            self.holds.add((rule, item, first))

    def _lost(self, number):
        first = self.rng.randrange(0, END)
        severity, rule = self.rng.choice(
            (("critical", "loss"), ("warning", "unproven_loss"), ("info", "loss_not_excluded"))
        )
        row = {
            "regression_id": f"{self.cluster} r{number}",
            "class": "loss_not_excluded" if severity == "info" else "unclean_loss",
            "severity": severity, "partition": number, "lost_records": number + 1, "proof": "proven", "revision": 1,
            "lost_from": 1, "lost_to": number + 2,
        }  # fmt: skip
        self._put("regressions", first, **row)
        if self.rng.random() < 0.3:  # what is told later shows that it was none
            late = first + self.rng.choice((60, 2 * HOUR))
            other = {"ts": first, **row, "severity": "info", "class": "x", "revision": 2, "cluster": self.cluster}
            self.rows.append((late, "regressions", other))
            self.revised.add((rule, f"orders-{number}", first))
        else:
            self.truth.add((rule, f"orders-{number}", first))

    def _gap(self, number):
        first = self.rng.randrange(0, END)
        self._put("gaps", first, source_id=f"s{number}", series="source", seq_from=1, seq_to=2, kind="gap")
        self.truth.add(("gap", f"s{number}", first))


class Lake:
    """Histories as a lake has them at some moment, and what was told of them."""

    def __init__(self, *histories):
        self.histories, self.told, self.step, self.looked_at = histories, [], Step(), 0
        self.rows = [row for history in histories for row in history.rows]
        self.clusters = [history.cluster for history in histories]

    def look(self, now, *, rebuilding=False, rebuilt=None, kept_s=None, killed="", away=(), rules=RULES):
        floor = None if kept_s is None else max(0, now - kept_s)
        clock = now - 10  # what is later may still be preceded by what comes
        blind = dict.fromkeys(MADE_ANEW if rebuilding else away, "cannot be read")
        starts = {name: self._starts(name) for name in TABLES}
        tables = {name: [] for name in TABLES}
        for written, name, row in self.rows:
            edges = (floor, starts[name].get(row["cluster"]))
            gone = name != "regressions" and any(edge is not None and row["ts"] < edge for edge in edges)
            if written <= now and not gone and name not in blind and row["cluster"] != rebuilt:
                tables[name].append(row)
        tables["health"] = [
            {"cluster": one.cluster, "partition": n, **assigned(one.assigned.get(n, ()), now)}
            for one in self.histories
            for n in range(6)
        ]
        tables["brokers"] = [
            {"cluster": one.cluster, "broker_id": 1, "quorum": told[-1][1], "quorum_since": at(told[-1][0])}
            for one in self.histories
            if (told := [each for each in one.quorum if each[0] <= now])
        ]
        for name in ("health", "brokers"):
            tables[name] = [row for row in tables[name] if row["cluster"] != rebuilt]
        tables["clock"] = [{"cluster": c, "clock": clock} for c in self.clusters if c != rebuilt]
        found = evidence_of(
            **{name: rows(name, *own) for name, own in tables.items()},
            carried=self.step.carried,
        )
        kept_from = {} if floor is None else dict.fromkeys(self.clusters, at(floor))
        clocks = {c: microseconds(at(clock)) for c in self.clusters if c != rebuilt}
        done = decide(
            Reading(found, replace(self.step, clocks={}), clocks, blind, kept_from, rebuilt=rebuilt),
            rules,
            self.told,
            self.step,
            at(now),
        )
        if killed != "before it told":
            self.told = self.told + done.new
        if not killed:
            self.step = done.step
            self.looked_at = self.looked_at if blind or rebuilt else now
        return done

    def _starts(self, table):
        """From when on rows are read, by cluster, as `read` has it."""
        asking = [self.step.clocks.get(RULES.key(name), {}) for name, rule in EACH.items() if table in rule.needs]
        late = [row["ts"] for written, name, row in self.rows if name == table and written > self.looked_at - 600]
        return {
            c: min([(min(one[c] for one in asking) - microseconds(NOON)) // SECOND - RULES.history.silver_s, *late])
            for c in self.clusters
            if all(c in one for one in asking)
        }


def assigned(changes, now):
    """The replicas assigned to a partition now, and those of before."""
    each = [(0, [1, 2]), *(one for one in changes[1:] if one[0] <= now)]
    whole = [{"since": at(since), "replicas": replicas} for since, replicas in each]
    return {"ar": each[-1][1], "assignments": whole if len(each) > 1 else None}


def schedules(rng):
    """(name, moments) at which somebody looks, before the last time."""
    yield "once", []
    yield "daily", range(DAY, END + DAY, DAY)
    for number in range(6):
        yield f"at any moments, {number}", sorted(rng.randrange(1, END + DAY) for _ in range(rng.randint(1, 6)))
    if rng.random() < OFTEN:
        yield "hourly", range(HOUR, END + DAY, HOUR)


def named(state):
    """(cluster, rule, partition or source) of what a state says is affected, and of what it says was so before."""
    affected, over = (
        {
            (state.labels["cluster"], state.rule, one)
            for label in labels
            for one in state.labels.get(label, "").split(", ")
            if one
        }
        for labels in (("partitions", "sources"), ("over",))
    )
    if state.rule == "no_controller":  # each time by itself
        affected = {(state.labels["cluster"], state.rule, str(state.first_ts))}
    return affected, over


def conditions(states):
    """(cluster, rule, partition or source) of what was told, with the alerts that named it; but for what was
    withdrawn."""
    found = {}
    for state in states:
        if state.labels.get("end") != "withdrawn":
            for key in set.union(*named(state)):
                found.setdefault(key, set()).add(state.episode)
    return found


def firing(states):
    """(cluster, rule, partition or source) of what is affected by the alerts that fire."""
    return {key for state in states if state.firing for key in named(state)[0]}


def drawn(seed):
    rng = random.Random(seed)
    return rng, [History(rng, f"c{number}") for number in range(TOGETHER)]


def all_of(histories, what):
    return {(one.cluster, rule, item) for one in histories for rule, item, _ in getattr(one, what)}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(SEED, SEED - (-HISTORIES // TOGETHER)))
def test_what_is_told_does_not_depend_on_when_it_is_looked_at(seed):
    rng, histories = drawn(seed)
    true, revised = all_of(histories, "truth"), all_of(histories, "revised")
    ends = {}
    for name, moments in schedules(rng):
        lake = Lake(*histories)
        for moment in moments:
            if rng.random() < 0.1:
                lake.look(moment, killed=rng.choice(("before it told", "before the step")))
            if rng.random() < 0.1:
                one = rng.choice([None, *lake.clusters])
                lake.look(moment, rebuilding=one is None, rebuilt=one)
            if rng.random() < 0.1:
                lake.look(moment, rules=rng.choice(OFF))
            if rng.random() < 0.03:
                lake.step = Step()
            away = rng.sample(TABLES, rng.choice((0, 0, 0, 1, 4)))
            lake.look(moment, away=away)
            if rng.random() < 0.2:
                assert lake.look(moment, away=away).new == [], (name, "two evaluations at one moment")
        for last in (LAST, LAST + 2 * DAY):
            done = lake.look(last)
        found = conditions(lake.told)
        assert true - found.keys() == set(), (name, "whoever was affected is told")
        assert found.keys() - true - revised == set(), (name, "nothing told that truth excludes, unless revised")
        assert not firing(latest(lake.told).values()) & revised - true, (name, "what was revised does not fire")
        withdrawn = {key for one in lake.told if one.labels.get("end") == "withdrawn" for key in named(one)[0]}
        assert withdrawn - revised == set(), (name, "nothing that held is told as withdrawn")
        assert {key: own for key, own in found.items() if len(own) > 1} == {}, (name, "told once")
        assert firing(done.present) == all_of(histories, "holds"), (name, "what holds by the truth fires")
        # Telemetry that comes late makes no one of two alerts that were told, so they are not counted.
        ends[name] = sorted({(s.labels["cluster"], s.rule, s.state) for s in done.present if s.firing})
    assert len({tuple(end) for end in ends.values()}) == 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(SEED, SEED - (-HISTORIES // TOGETHER // 4)))
def test_retention_ends_nothing_that_was_told(seed):
    """What it removed before anybody looked is exempt."""
    rng, histories = drawn(seed)
    lake, kept_s = Lake(*histories), rng.choice((DAY, 2 * DAY))
    for moment in range(6 * HOUR, END + 5 * DAY, 6 * HOUR):
        lake.look(moment)
    for moment in range(END + 5 * DAY, LAST, 6 * DAY):
        lake.step = Step() if rng.random() < 0.3 else lake.step
        done = lake.look(moment, kept_s=kept_s)
    assert firing(done.present) == all_of(histories, "holds")
    assert {key: own for key, own in conditions(lake.told).items() if len(own) > 1} == {}


def frozen(*spans):
    """A lake in which partitions were under min ISR in these spans (from, to) of seconds."""
    history = History(random.Random(1))
    history.rows, history.late, history.assigned, history.quorum = [], False, {}, []
    for number, (first, last) in enumerate(spans):
        history._put("min_isr", first, partition=number, kind="freeze", isr=[1], frozen=True)
        if last is not None:
            history._put("min_isr", last, partition=number, kind="thaw", isr=[1, 2], frozen=False)
    return Lake(history)


def test_what_began_and_ended_within_an_alert_is_named_for_as_long_as_it_fires_and_at_its_end():
    lake = frozen((0, 20 * DAY), (HOUR, 3 * HOUR))
    (told,) = lake.look(DAY).new
    assert (told.labels["partitions"], told.labels["over"], told.size) == ("orders-0", "orders-1", (2, None, 2))
    assert [lake.look(day * DAY).new for day in (1, 7, 9, 9, 19)] == [[]] * 5
    (ended,) = lake.look(21 * DAY).new
    assert (ended.state, ended.labels["partitions"]) == ("resolved", "orders-0, orders-1")


def test_growth_that_was_over_when_it_was_looked_at_is_told_as_if_it_was_seen():
    lake = frozen((0, None), *((HOUR, 3 * HOUR) for _ in range(5)))
    lake.look(HOUR)
    before = latest(lake.told)
    (grown,) = lake.look(DAY).new
    assert grown.exceeds(before[grown.episode].size)


def late(*rows):
    """A lake in which partitions were under min ISR by such rows: (written, partition, from or None, to or None)."""
    history = History(random.Random(1))
    history.assigned, history.quorum = {}, []
    history.rows = [
        (written, "min_isr", {"cluster": "c", "ts": ts, "partition": n, "kind": kind, "isr": [1], "frozen": False})
        for written, n, *span in rows
        for ts, kind in zip(span, ("freeze", "thaw"), strict=True)
        if ts is not None
    ]
    lake = Lake(history)
    lake.look(10)
    return lake


def test_a_late_row_that_shows_an_end_before_the_alert_that_named_it_began_tells_nobody_twice():
    """Found by SEED=551142: a partition named as it came late had been well again before the other one was not."""
    lake = late(
        (2 * HOUR, 0, 9000, None), (30 * HOUR, 1, 1000, None), (50 * HOUR, 1, None, 2000), (75 * HOUR, 0, None, 9900)
    )
    for day in (1, 2, 3, 4, 5, 6):
        lake.look(day * DAY)
    assert [(s.state, s.labels["partitions"], s.first_ts) for s in lake.told if s.state == "resolved"] == [
        ("resolved", "orders-0, orders-1", at(9000))
    ]
    assert all(len(own) == 1 for own in conditions(lake.told).values())


@pytest.mark.parametrize(("begins", "named"), [(970, "orders-0, orders-1"), (100, "orders-1")])
def test_a_late_row_that_moves_the_beginning_of_what_was_told_as_over_tells_nobody_twice(begins, named):
    lake = late((2 * HOUR, 0, 1000, 2000), (30 * HOUR, 1, begins, 1500))
    assert len(lake.look(DAY).new) == 2
    told = lake.look(2 * DAY).new
    assert {(s.state, s.labels["partitions"]) for s in told} == {("firing", named), ("resolved", named)}
    assert all(len(own) == 1 for own in conditions(lake.told).values())


def test_a_late_row_that_shows_an_earlier_end_makes_no_second_alert_of_one_that_was_told():
    lake = late((2 * HOUR, 0, 1000, None), (3 * HOUR, 1, 5000, 6000), (30 * HOUR, 0, None, 2000))
    assert [s.state for s in lake.look(DAY).new] == ["firing"]
    assert [(s.state, s.labels["partitions"]) for s in lake.look(2 * DAY).new] == [("resolved", "orders-0, orders-1")]
    assert lake.look(3 * DAY).new == []


def test_a_late_row_that_bridges_what_was_told_as_over_and_what_fires_makes_no_one_of_two():
    lake = late((2 * HOUR, 0, 1000, 5000), (2 * HOUR, 1, 6000, None), (30 * HOUR, 2, 4000, 7000))
    lake.look(DAY)
    (fires,) = (state.episode for state in latest(lake.told).values() if state.firing)
    assert {state.episode for state in lake.look(2 * DAY).present if state.firing} == {fires}
    assert {len(own) for own in conditions(lake.told).values()} == {1}


def test_what_comes_late_and_began_before_what_was_told_is_an_alert_beside_it():
    """Found by SEED=990002: looked at once the three are one alert."""
    rows = (2 * HOUR, 0, 3000, 4000), (2 * HOUR, 1, 9000, None), (30 * HOUR, 2, 1000, None)
    lake = late(*rows)
    lake.look(DAY)
    (told,) = lake.look(2 * DAY).new
    assert (told.state, told.labels["partitions"], told.first_ts) == ("firing", "orders-2", at(1000))
    assert {item for _, _, item in firing(lake.look(3 * DAY).present)} == {"orders-1", "orders-2"}
    assert {len(own) for own in conditions(lake.told).values()} == {1}
    once = late(*rows)
    assert [s.labels["partitions"] for s in once.look(3 * DAY).present if s.firing] == ["orders-1, orders-2"]


@pytest.mark.parametrize("number", [0, 1], ids=["the same partition", "another one"])
def test_what_began_earlier_than_it_was_told_is_told_once_when_it_is_over(number):
    """A simulated cluster showed it: evaluated twice after its end it had another name, and was sent anew."""
    ends = [(50 * HOUR, n, None, 40 * HOUR + n) for n in {0, number}]
    lake = late((2 * HOUR, 0, 1000, None), (30 * HOUR, number, 900, None), *ends)
    assert [s.state for s in lake.look(DAY).new] == ["firing"]
    assert all(s.first_ts == at(1000) for s in lake.look(2 * DAY).new)
    assert [s.state for s in lake.look(3 * DAY).new] == ["resolved"]
    assert [lake.look(moment).new for moment in (3 * DAY, 4 * DAY)] == [[], []]


def test_an_alert_whose_first_condition_late_telemetry_takes_away_keeps_the_others_that_it_named():
    spans = ((2 * HOUR, 0, 1000, None), (3 * HOUR, 1, 5000, 6000), (3 * HOUR, 2, 9000, 9900))
    lake = late(*spans, (30 * HOUR, 0, None, 1100))
    lake.look(DAY)
    lake.look(2 * DAY)
    named = conditions(lake.told)
    assert {len(own) for own in named.values()} == {1}, named


def test_an_alert_that_grew_and_was_over_before_it_was_seen_is_told_to_have_fired():
    lake = late((2 * HOUR, 0, 1000, 5000), (30 * HOUR, 1, 2000, 4000))
    lake.look(DAY)
    assert [s.state for s in lake.look(2 * DAY).new] == ["firing", "resolved"]


def test_late_telemetry_within_an_alert_that_is_long_over_is_told():
    lake = late((2 * HOUR, 0, 1000, 5000), (20 * DAY, 1, 2000, 4000))
    lake.look(DAY)
    lake.look(15 * DAY)
    assert {(s.state, s.labels["partitions"]) for s in lake.look(21 * DAY).new} == {
        ("firing", "orders-1"), ("resolved", "orders-1"),
    }  # fmt: skip
    assert lake.look(22 * DAY).new == []


def test_what_was_told_as_over_is_not_found_anew_where_its_first_rows_are_read_no_more():
    lake = frozen((0, 2 * DAY), (DAY, 3 * DAY))
    assert len(lake.look(4 * DAY).new) == 1
    assert [lake.look(day * DAY).new for day in (7.5, 7.6, 7.8)] == [[]] * 3


def test_carried_states_go_through_the_record(tmp_path):
    from pipelines.alerting.step import last_step, take_step
    from pipelines.lake.lake import Lake as OnDisk

    lake = frozen((0, None))
    lake.look(DAY)
    place = OnDisk(str(tmp_path))
    take_step(place, lake.step)
    assert last_step(place).carried == lake.step.carried != []
