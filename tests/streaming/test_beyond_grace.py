"""A source that comes later than the grace: every difference of the facts is covered by a `late` row."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.replication import Facts, Reconstructor, Rules, replay
from pipelines.streaming.tables import KINDS
from tests.streaming.shell import same_rows

GRACE_MS = 2_000
RULES = Rules(reorder_grace_ms=GRACE_MS)
DELAY_US = 15_000_000
BATCH_US = 2_000_000


def delivered(events, source, since, delay_us):
    """Micro-batches of two seconds each; what `source` reports from `since` on comes `delay_us` late."""
    ts = events["ts"].cast(pa.int64()).to_numpy()
    late = pc.equal(events["source_id"], source).to_numpy() & (ts >= since)
    batch = (ts + np.where(late, delay_us, 0) - ts.min()) // BATCH_US
    order = np.argsort(batch, kind="stable")
    bounds = np.flatnonzero(np.diff(batch[order])) + 1
    return [events.take(pa.array(rows)) for rows in np.split(order, bounds)]


def reconstructed(batches, rules=RULES):
    reconstructor = Reconstructor(rules)
    facts = [reconstructor.update(batch, batch_id=n) for n, batch in enumerate(batches)]
    return Facts.concat([*facts, reconstructor.finish(len(batches))])


def differences(facts, expected):
    """(table, row) of every silver row that only one of the two has, sources apart; partials add up elsewhere."""
    found = []
    for kind in KINDS:
        if kind not in ("minute_stats", "telemetry_gaps", "coverage"):
            got, want = ({str(row): row for row in same_rows(getattr(f, kind))} for f in (facts, expected))
            found += [(kind, row) for key, row in (got | want).items() if (key in got) != (key in want)]
    return found


LATE = [
    ("leader_crash", "metadata.dump"),
    ("leader_crash", "broker-3/replication.log"),
    ("unclean_election", "broker-2/replication.log"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("scenario", "source"), LATE)
def test_every_difference_beyond_the_grace_is_covered_by_a_late_row(scenario, source):
    events = read_logs([traces.path(scenario)], scenario)
    since = pc.quantile(events["ts"].cast(pa.int64()), 0.4)[0].as_py()
    facts = reconstructed(delivered(events, source, since, DELAY_US))
    late = [row for row in facts.telemetry_gaps.to_pylist() if row["kind"] == "late"]
    assert {row["source_id"] for row in late} == {source}
    covered = {(row["topic"], row["partition"]) for row in late}
    differing = differences(facts, replay(events, RULES))
    assert differing, "nothing came late enough to change a fact"
    assert [(kind, row) for kind, row in differing if (row["topic"], row["partition"]) not in covered] == []


def test_within_the_grace_nothing_is_late_and_nothing_differs():
    events = read_logs([traces.path("leader_crash")], "leader_crash")
    rules = Rules(reorder_grace_ms=10_000)
    since = pc.quantile(events["ts"].cast(pa.int64()), 0.4)[0].as_py()
    facts = reconstructed(delivered(events, "metadata.dump", since, 5_000_000), rules)
    assert differences(facts, replay(events, rules)) == []
    assert "late" not in facts.telemetry_gaps["kind"].to_pylist()
