"""Alerts of simulated clusters under faults, looked at at any moments, against what was true in them.

The clusters are reconstructed once, in small batches; what an evaluation sees is what the job had written by then.
Several are clusters of one lake. `HWMARK_HISTORIES=2000` plays a tenth as many. Pure: `decide` alone.
"""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.simulator.cluster.settings import START
from pipelines.alerting.evaluate import decide
from pipelines.alerting.evidence import SCHEMAS, evidence_of
from pipelines.alerting.outbox import latest
from pipelines.alerting.reading import Reading
from pipelines.alerting.rules import parse
from pipelines.alerting.step import Step
from pipelines.lake.queries import microseconds
from pipelines.replication import Reconstructor
from pipelines.settings import Simulate
from tests.unit.alerting.test_histories import HISTORIES, SEED, conditions, firing
from tests.unit.simulator.oracle import LOSSES
from tests.unit.simulator.simulated_runs import simulated

LASTS, BATCH = 5, 3
"""Seconds after which a state is reported, and of a micro-batch."""
NEAR = 2.0
"""Seconds by which a state may be shorter or longer in what brokers print: they learn of it, and die, at any moment."""
SETTINGS = {"for_s": LASTS, "group_s": 0}
RULES = parse(
    dict.fromkeys(("offline", "under_min_isr", "out_of_sync"), SETTINGS)
    | {
        "offline": SETTINGS | {"one_replica_s": LASTS},
        "controlled_restart": {"limit_s": 0},
        "stale_source": {"enabled": False},
        "gap": {"enabled": False},
    }
)
RULE_OF = {"critical": "loss", "warning": "unproven_loss", "info": "loss_not_excluded"}
"""By the severity of a verdict: the rule that tells it."""
LOSS_RULES = tuple(RULE_OF.values())
MIN_ISR = 2


def run_of(seed):
    """A small cluster with some faults, all drawn from one number."""
    rng = random.Random(f"alerts {seed}")
    brokers = rng.choice((2, 3, 3))
    faults = []
    for _ in range(rng.randint(1, 3)):
        at, broker = rng.randrange(5, 50), rng.randint(1, brokers)
        what = rng.choice(("kill", "freeze", "stop", "power-off"))
        faults.append(f"{at}s {what} {broker} for {rng.choice((2, 8, 20, 60))}s")
    return Simulate(
        seed=seed, brokers=brokers, version=rng.choice(("3.9", "4.1")), duration=70, session_timeout_ms=5_000,
        topics=f"orders:2x2:min-isr={MIN_ISR},clicks:2x{rng.choice((1, 2))}:unclean", lag_max_ms=4_000,
        load=["orders=steady:20,acks=all,tick=1s", "clicks=steady:20,acks=1,tick=1s"], fault=faults,
    )  # fmt: skip


class Committed:
    """What the quorum has committed of each partition: (seconds, leader, ISR), in order."""

    def __init__(self):
        self.changes = {}

    def observe(self, event):
        pass

    def recorded(self, event):
        if event.topic is not None and event.partition >= 0 and event.leader is not None:
            at = (event.at - START) / 1e6
            self.changes.setdefault(f"{event.topic}-{event.partition}", []).append((at, event.leader, event.isr))

    def spans(self, wrong):
        """(item, from, to; None: to the end) of how long it was wrong, by its leader and ISR."""
        for item, changes in self.changes.items():
            isr, since = (), None
            for at, leader, changed in changes:
                isr = isr if changed is None else changed
                if wrong(item, leader, isr) and since is None:
                    since = at
                elif not wrong(item, leader, isr) and since is not None:
                    yield item, since, at
                    since = None
            if since is not None:
                yield item, since, None


class Recording:
    """A simulated cluster: by the time of a batch (seconds) what it wrote, and what was true."""

    def __init__(self, seed):
        self.cluster = f"s{seed}"
        committed = Committed()
        events, rules, truth = simulated(run_of(seed), others=[committed])
        self.seconds, self.grace = 70, rules.reorder_grace_ms / 1000
        self.batches, job = [], Reconstructor(rules)
        for first in range(0, self.seconds, BATCH):
            part = events.filter(_between(events["ts"], first, first + BATCH))
            facts = job.update(part)
            self.batches.append((first + BATCH, facts, part, job.health()))
        facts = job.finish()
        self.batches.append((self.seconds + BATCH, facts, events.slice(0, 0), job.health()))
        self.lost = {_item(row) for row in truth["truth_regressions"].to_pylist() if row["class"] in LOSSES}
        behind = truth["truth_out_of_sync"].to_pylist()
        self.spans = {
            "offline": list(committed.spans(lambda item, leader, isr: leader < 0)),
            "under_min_isr": list(
                committed.spans(lambda item, leader, isr: item.startswith("orders") and len(isr) < MIN_ISR)
            ),
            "out_of_sync": [
                (_item(row), _seconds(row["from_ts"]), row["to_ts"] and _seconds(row["to_ts"])) for row in behind
            ],
        }

        starts = [row for row in truth["truth_hw"].to_pylist() if row["kind"] == "term_start"]
        terms = {item: [_seconds(row["at"]) for row in starts if _item(row) == item] for item in committed.changes}
        self.certain = self.spans | {
            # What is not over in a term is so for no longer than that.
            "out_of_sync": [
                (item, first, end or min((at for at in terms[item] if at > first), default=None))
                for item, first, end in self.spans["out_of_sync"]
            ],
            "under_min_isr": list(
                committed.spans(
                    lambda item, leader, isr: item.startswith("orders") and len(isr) < MIN_ISR and leader >= 0
                )
            ),
        }
        """Of these, what somebody can have said: without a leader nobody says that an ISR is too small."""
        verdicts = {}
        for row in (row for batch in self.batches for row in batch[1].hw_regressions.to_pylist()):
            rule = RULE_OF.get(row["severity"]) if row["class"] in (*LOSSES, "loss_not_excluded") else None
            verdicts.setdefault(row["regression_id"], {})[row["revision"]] = (self.cluster, rule, _item(row))
        last = {verdict[max(verdict)] for verdict in verdicts.values()}
        self.revised = {key for verdict in verdicts.values() for key in verdict.values()} - last
        """Verdicts that others took the place of: who looked in between has told them."""

    def final_until(self, now):
        """The second up to which facts are final by the batches written by then, not by the time of day."""
        written = max((at for at, *_ in self.batches if at <= now), default=0)
        return written - self.grace if written < self.batches[-1][0] else self.seconds

    def lasting(self, spans, rule, seconds):
        """Who was so for longer than that."""
        return {
            (self.cluster, rule, item) for item, first, last in spans[rule] if (last or self.seconds) - first > seconds
        }


def _between(ts, first, last):
    edges = [pa.scalar(START + second * 1_000_000).cast(pa.timestamp("us", tz="UTC")) for second in (first, last)]
    return pc.and_(pc.greater_equal(ts, edges[0]), pc.less(ts, edges[1]))


def _item(row):
    return f"{row['topic']}-{row['partition']}"


def _seconds(ts):
    return (ts - moment(0)).total_seconds()


def moment(seconds):
    return datetime.fromtimestamp(START // 1_000_000, UTC) + timedelta(seconds=seconds)


def evidence(recording, now):
    """Tables by their names in the evidence, of what was written by then."""
    there = [batch for batch in recording.batches if batch[0] <= now]
    if not there:
        return {}
    facts = {
        name: pa.concat_tables([getattr(batch[1], name) for batch in there])
        for name in ("hw_regressions", "partition_hw", "replica_sync")
    }
    hws, events = facts["partition_hw"], pa.concat_tables([batch[2] for batch in there])
    tables = {
        "regressions": facts["hw_regressions"],
        "min_isr": hws.filter(pc.is_in(hws["kind"], pa.array(["freeze", "thaw", "term_start"]))),
        "disagreements": hws.filter(pc.equal(hws["agreement"], "disagree")),
        "sync": facts["replica_sync"],
        "health": there[-1][3],
        "leaderships": events.filter(pc.is_in(events["event_type"], pa.array(["leader", "follower", "election"]))),
    }
    found = {name: table.select(SCHEMAS[name].names).cast(SCHEMAS[name]) for name, table in tables.items()}
    ids = [f"{recording.cluster} {one}" for one in found["regressions"]["regression_id"].to_pylist()]
    found["regressions"] = _with(found["regressions"], "regression_id", ids)
    return {name: _with(table, "cluster", [recording.cluster] * len(table)) for name, table in found.items()}


def _with(table, name, values):
    return table.set_column(table.column_names.index(name), table.schema.field(name), pa.array(values, pa.string()))


class Lake:
    """Recordings as a lake has them at some moment, and what was told of them."""

    def __init__(self, *recordings):
        self.recordings, self.told, self.step = recordings, [], Step()

    def look(self, now, *, killed=""):
        clocks = {one.cluster: microseconds(moment(one.final_until(now))) for one in self.recordings}
        each = [found for one in self.recordings if (found := evidence(one, now))]
        tables = {name: pa.concat_tables([found[name] for found in each]) for name in (each[0] if each else ())}
        clock = [{"cluster": cluster, "clock": at} for cluster, at in clocks.items()]
        seen = Reading(
            evidence_of(clock=clock, carried=self.step.carried, **tables), replace(self.step, clocks={}), clocks
        )
        done = decide(seen, RULES, self.told, self.step, moment(now))
        if killed != "before it told":
            self.told = self.told + done.new
        if not killed:
            self.step = done.step
        return done


def schedules(rng, seconds):
    yield "once", []
    yield "often", range(BATCH, seconds, BATCH)
    yield "at any moments", sorted(rng.randrange(1, seconds) for _ in range(rng.randint(1, 6)))


FOUND = (19, 31, 551283)
"""Lakes that failed: the leader before was forgotten by the next evaluation, and the alert had another name; a leader
that goes on in its epoch ends the stretches of before it started."""
TOGETHER = 10
"""Clusters of one lake: an evaluation of one takes nearly as long."""
DRAWN = range(SEED, SEED + HISTORIES // 10, TOGETHER) if HISTORIES > 100 else ()
LAKES = [(0, *FOUND), *(range(at, at + TOGETHER) for at in DRAWN)]


@pytest.mark.parametrize("seeds", LAKES, ids=lambda seeds: f"from {seeds[0]}, {len(seeds)}")
@pytest.mark.sampled(2)
def test_what_is_told_of_a_simulated_cluster_is_what_was_true(seeds):
    recordings, rng, ends = [Recording(seed) for seed in seeds], random.Random(seeds[0]), {}
    seconds = recordings[0].seconds
    for name, moments in schedules(rng, seconds):
        lake = Lake(*recordings)
        for at in moments:
            lake.look(at, killed=rng.choice(("before it told", "before the step")) if rng.random() < 0.1 else "")
        done = lake.look(seconds + BATCH)
        assert lake.look(seconds + BATCH).new == [], (name, "two evaluations at one moment")
        told, fires = set(conditions(lake.told)), firing(done.present)
        for one in recordings:
            _judge(one, {key for key in told if key[0] == one.cluster}, {key for key in fires if key[0] == one.cluster})
        revised = {key for one in recordings for key in one.revised}
        ends[name] = (frozenset(told - revised), frozenset(fires))
        assert latest(lake.told).keys() >= {state.episode for state in done.present if state.firing}
    assert len(set(ends.values())) == 1, "the same however it is looked at"


def _judge(recording, told, fires):
    for rule in recording.spans:
        mine = {key for key in told if key[1] == rule}
        assert mine - recording.lasting(recording.spans, rule, LASTS - NEAR) == set(), (
            "nothing told that truth excludes"
        )
        assert recording.lasting(recording.certain, rule, LASTS + NEAR) - mine == set(), "nothing true untold"
        open_ = {(recording.cluster, rule, item) for item, _, end in recording.spans[rule] if end is None}
        assert {key for key in fires if key[1] == rule} - open_ == set(), "nothing fires that is over"
    lost = {item for _, rule, item in told if rule in LOSS_RULES}
    assert recording.lost - lost == set(), "no loss untold"
    assert {item for _, rule, item in fires if rule == "loss"} - recording.lost == set(), "no loss that is none"
    assert not any(rule == "disagreement" for _, rule, _ in told)
