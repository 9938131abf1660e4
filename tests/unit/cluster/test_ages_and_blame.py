"""Drawn schedules of brokers that are killed, freeze, are cut off or slow, and come back, and of a paused watcher.

The watcher's rounds run in a time of their own; its rows reach a lake, of which a reader makes claims at each moment.

Nobody is blamed whom the truth excludes, and no claim is older than said.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace

import kafka.errors as errors
import pytest

from generators.cluster import metadata_source
from generators.cluster import watcher as module
from generators.cluster.asking.problems import NotAnswering
from generators.cluster.asking.round import Outcome
from generators.cluster.notes import Notes
from generators.cluster.watcher import Watcher, WatchOptions
from pipelines.lake.queries import moment
from pipelines.replication.metadata.broker_states import SILENT_STATES, add_answer
from pipelines.verdict.heard import states_now
from pipelines.verdict.judged import unanswered
from pipelines.verdict.records import ClusterRecord, Limits, Source
from schemas.event_types import holds_s
from tests.unit.cluster.clusters import T0, answer, observer, rows

EVERY_S, PROBE_S, END_S, SESSION_S = 5.0, 3.0, 150.0, 9.0
BROKERS = (1, 2, 3)
TOPIC = {("orders", "o1"): [(b, 0, [1, 2, 3], [1, 2, 3]) for b in BROKERS]}
AWAY = ("killed", "frozen")


@dataclass
class Fault:
    begin: float
    end: float
    kind: str
    latency_s: float = 0.0


@dataclass
class Truth:
    """What happens to brokers, and to the route and the process of the watcher."""

    faults: dict[int, list[Fault]]
    pauses: list[tuple[float, float]]
    late_s: float
    """How long the controllers and metadata take once the session time is over."""

    @classmethod
    def draw(cls, random):
        faults = {b: [] for b in BROKERS}
        for broker in BROKERS:
            at = random.uniform(15, 60)
            while at < END_S and random.random() < 0.7:
                kind = random.choice((*AWAY, "cut", "slow", "slow"))
                end = at + random.choice((random.uniform(1, 6), random.uniform(5, 50)))
                faults[broker].append(Fault(at, end, kind, random.choice((0.5, 1.9, 2.9, 4.0))))
                at = end + random.uniform(8, 60)
        if random.random() < 0.3:
            begin = random.uniform(20, 120)
            faults = {b: [Fault(begin, begin + random.uniform(10, 40), "cut")] for b in BROKERS}
        pauses = [(at, at + random.uniform(5, 40)) for at in (random.uniform(20, 120),) if random.random() < 0.4]
        return cls(faults, pauses, random.uniform(0.2, 5))

    def fault(self, broker, at):
        return next((one for one in self.faults[broker] if one.begin <= at < one.end), None)

    def listed(self, broker, at):
        return not any(
            one.kind in AWAY and one.begin + SESSION_S + self.late_s < at < one.end + 1.5
            for one in self.faults[broker]
        )  # fmt: skip

    def ask(self, broker, at):
        """(when, what) comes of one try: an answer (None), a refusal or silence."""
        one = self.fault(broker, at)
        if one is None:
            return at + 0.01, None
        if one.kind == "killed":
            return at, "ECONNREFUSED"
        comes = at + one.latency_s if one.kind == "slow" else one.end + 0.01
        return (comes, None) if comes < at + PROBE_S else (at + PROBE_S, "timed out")

    def probe(self, broker, at):
        """The same with one retry on a new connection, and the try that was answered."""
        when, why = self.ask(broker, at)
        return self.ask(broker, when) if why == "timed out" else (when, why)


class Future:
    def __init__(self, clock, at, value=None, exception=None):
        self.clock, self.at, self.value, self.exception = clock, at, value, exception

    @property
    def is_done(self):
        return self.clock.now >= self.at


class Clock:
    def __init__(self, truth, random):
        self.now, self.truth, self.random, self.pending = 0.0, truth, random, []

    def advance(self, until):
        """Time goes on; while the watcher is paused answers come, or their time runs out."""
        for begin, end in self.truth.pauses:
            if self.now <= begin < until:
                for one in self.pending:
                    if one.at > begin and self.random.random() < 0.5:
                        late = errors.KafkaTimeoutError("timed out")
                        one.value, one.exception = (Outcome(error=late), None) if one.value else (None, late)
                    one.at = max(one.at, end) if one.at > begin else one.at
                until = max(until, end)
        self.now = max(self.now, until)


@dataclass
class Links:
    """Brokers that answer as the truth has it."""

    clock: Clock
    by_broker: dict = field(default_factory=dict)
    fit: frozenset = frozenset()
    wake: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(set=lambda: None))
    describer: int = 1
    asked: Future | None = None
    wrong: list = field(default_factory=list)

    @property
    def describing(self):
        return [] if self.asked is None or self.asked.is_done else [self.asked]

    def connect(self, *_):
        pass

    def bootstrap(self, _):
        raise NotAnswering("no cluster can be asked")

    def take_errors(self):
        taken, self.wrong = self.wrong, []
        return taken

    def describe(self, until):
        if self.asked is None:
            free = [b for b in self.by_broker if not self.by_broker[b].busy]
            self.describer = (
                self.describer if self.describer in self.fit & set(free) else min(self.fit & {*free}, default=0)
            )
            if not self.describer:
                return
            when, why = self.clock.truth.probe(self.describer, self.clock.now)
            self.asked = self.by_broker[self.describer].work = future(self.clock, when, why)
        self.wait([self.asked], until)
        if self.asked.is_done:
            if self.asked.exception is not None:
                self.wrong.append((self.describer, self.asked.exception))
                self.describer = 0
            self.asked = None

    def wait(self, works, until, stop=None):
        left = [one.at for one in works if not one.is_done]
        self.clock.pending = list(works)
        if left:
            self.clock.advance(min(until, max(left)))


class Link:
    def __init__(self, broker, links, seen):
        self.broker, self.links, self.seen, self.work = broker, links, seen, None
        self.address = SimpleNamespace(host="host", port=9092)

    @property
    def busy(self):
        return self.work is not None and not self.work.is_done

    def begin(self, *_, done):
        clock = self.links.clock
        when, why = clock.truth.probe(self.broker, clock.now)
        end = when + 0.05
        broken = next(
            (f for f in clock.truth.faults[self.broker] if clock.now < f.begin < end and f.kind != "slow"), None
        )
        if why is not None or (broken and broken.begin < when):
            at = max(when, clock.now + 2 * PROBE_S) if broken and broken.kind != "killed" else when
            failed = future(clock, at, why or ("ECONNREFUSED" if broken.kind == "killed" else "timed out"))
            self.work = Future(clock, at, Outcome(error=failed.exception))
        else:
            listed = tuple(b for b in BROKERS if clock.truth.listed(b, when))
            outcome = Outcome(answer(self.seen, self.broker, end, [100] * 3), listed=listed)
            if broken:
                end, outcome = broken.begin + 10, Outcome(error=errors.KafkaTimeoutError("timed out"), listed=listed)
            self.work = Future(clock, end, outcome)
        return self.work


def future(clock, when, why):
    kinds = {"ECONNREFUSED": errors.KafkaConnectionError, "timed out": errors.KafkaTimeoutError}
    return Future(clock, when, exception=None if why is None else kinds[why](why))


def play(seed, monkeypatch):
    """The truth, and the watcher's rows of states and rounds, each with when a reader of the lake sees it."""
    random = Random(seed)
    truth = Truth.draw(random)
    clock, seen, stop = Clock(truth, random), observer(TOPIC), SimpleNamespace(is_set=lambda: False)
    for one in (module, metadata_source):
        monkeypatch.setattr(one, "monotonic", lambda: clock.now)
        monkeypatch.setattr(one, "time_ns", lambda: (T0 + round(clock.now * 1e6)) * 1000)
    links, told = Links(clock), []
    links.by_broker = {b: Link(b, links, seen) for b in BROKERS}
    watcher = Watcher(WatchOptions(bootstrap=()), links, seen, Notes(lambda _: None))

    def put():
        delay = clock.now + random.uniform(0.2, 1.0)
        every = [table for tables in watcher.rows.values() for table in tables]
        for kind, broker, ts, detail in rows(every, "event_type", "broker_id", "ts", "detail"):
            if kind in ("progress", "broker_state"):
                told.append((delay, broker, kind, round(ts.timestamp() * 1e6 - T0) / 1e6, detail))

    tick = 0
    while clock.now < END_S:
        tick = max(tick + 1, int(clock.now // EVERY_S))
        clock.pending = []
        clock.advance(tick * EVERY_S)
        watcher.round((tick + 1) * EVERY_S, stop, put)
        put()
    return truth, sorted(told, key=lambda one: one[0])


def claims(told):
    """At each half second: now, when brokers were heard last and how long that holds, their states, who is unknown."""
    answers, last, at = {}, {}, 0
    for half in range(20, int(2 * END_S)):
        now = half / 2
        until = bisect_right(told, now, key=lambda one: one[0])
        for _, broker, kind, ts, detail in told[at:until]:
            if kind == "broker_state":
                add_answer(answers.setdefault(broker, []), (T0 + round(ts * 1e6), detail))
            else:
                last[broker] = max(last.get(broker, (0, 0)), (ts, holds_s(detail)))
        at = until
        us = {broker: T0 + round(ts * 1e6) for broker, (ts, _) in last.items()}
        found = (Source(f"watch/main/broker-{b}", b, moment(us[b]), 1, last[b][1]) for b in us)
        record = ClusterRecord("c", sources=tuple(found))
        states = states_now([], answers, us, (None, None))
        asked = {broker: (some[-1][0] - T0) / 1e6 for broker, some in answers.items()}
        yield now, last, states, asked, unanswered(record, Limits(), moment(T0 + round(now * 1e6)))


def holds_out(truth, broker, begin, end, within_s=PROBE_S):
    """Whether a broker answers every question of this time, from here, in time."""
    calm = all(one.end <= begin or one.begin >= end or (one.kind == "slow" and one.latency_s < within_s)
               for one in truth.faults[broker])  # fmt: skip
    return calm and all(b >= end or e <= begin for b, e in truth.pauses)


def gone(truth, broker, begin, end):
    """Whether a broker answers nothing in this time."""
    return any(one.begin <= begin and end <= one.end and one.kind != "slow" for one in truth.faults[broker])


@pytest.mark.sampled(200)
@pytest.mark.parametrize("seed", range(2_000))
def test_nobody_is_blamed_whom_the_truth_excludes_and_no_claim_is_older_than_said(seed, monkeypatch):
    truth, told = play(seed, monkeypatch)
    heard = False
    for now, last, states, asked, unknown in claims(told):
        for broker in last:
            state = states[broker]
            if broker not in unknown and state.state not in SILENT_STATES:  # a claim of what it leads
                answered, holds = last[broker]
                heard = True
                assert now - answered <= holds <= 60
                assert not any(one.kind in AWAY and one.begin < answered - 0.1 < one.end - 0.1
                               for one in truth.faults[broker]), "it did not answer"  # fmt: skip
            if state.state in ("no_answer", "not_reached", "down"):
                since = (state.since - T0) / 1e6
                assert not holds_out(truth, broker, since - 3 * PROBE_S, asked[broker]), "it answered all the time"
                others = [b for b in BROKERS if b != broker]
                assert not all(gone(truth, b, asked[broker] - 20, max(asked.values())) for b in others), (
                    "it may be the watcher"
                )
            if state.state == "down":
                assert any(not truth.listed(broker, asked[broker] - ago / 2) for ago in range(32)), "others listed it"
            if state.state == "not_reached":
                assert any(truth.listed(broker, asked[broker] - ago / 2) for ago in range(32)), "it is down"
            if all(
                holds_out(truth, b, now - 45, now, 2) for b in BROKERS
            ):  # fmt: skip
                assert broker not in unknown, "one slow answer changes nothing"
                assert state.state == "answers"
    assert heard
