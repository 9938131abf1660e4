"""A state that forgets a cluster: the others go on as if nothing had been, and the cluster begins as first seen."""

import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.replication import Facts, Reconstructor, Rules, replay
from pipelines.replication.state import snapshot
from pipelines.replication.state.reshard import without_cluster
from pipelines.replication.telemetry.coverage import coverage
from tests.streaming.shell import added_up, same_rows
from tests.unit.replication.bronze import events_of
from tests.unit.replication.watching import Watched

STAYS, GONE = "main", "xenopus"


def of(rows, name):
    return rows.filter(pc.equal(rows["cluster"], name))


def forgotten(reconstructor):
    """The same without the cluster, whose name is nowhere in its state."""
    (blob,) = without_cluster([reconstructor.snapshot()], GONE)
    state, *rest = snapshot.unpack(blob)
    assert GONE.encode() not in snapshot._encoder.encode(snapshot._rest(state, *rest))
    assert GONE not in str([state.closings, state.watched, state.waiting, state.held])
    return Reconstructor.restore(blob)


def test_a_cluster_that_is_forgotten_begins_as_first_seen():
    stays, gone = (read_logs([traces.path("unclean_election")], name) for name in (STAYS, GONE))
    stays, gone = (rows.take(pc.sort_indices(rows["ts"])) for rows in (stays, gone))
    half = len(stays) // 2
    both = pa.concat_tables([stays.slice(0, half), gone.slice(0, half)])
    rest = pa.concat_tables([stays.slice(half), gone])
    before = Reconstructor(Rules())
    facts = [before.update(both, coverage(both), batch_id=0)]
    after = forgotten(before)
    facts += [after.update(rest, coverage(rest), batch_id=1), after.finish(2)]
    found, since = Facts.concat(facts).tables(), Facts.concat(facts[1:]).tables()
    for name, expected in replay(stays).tables().items():
        same = added_up if name == "minute_stats" else lambda rows: same_rows(rows, but=["quarantined_at"])
        assert same(of(found[name], STAYS)) == same(expected), name
    for name, expected in replay(gone).tables().items():
        same = added_up if name == "minute_stats" else lambda rows: same_rows(rows, but=["quarantined_at"])
        assert same(of(since[name], GONE)) == same(expected), name


def test_so_does_one_that_was_watched():
    rows = Watched(1).seen(0, 1, 0).began(0, 0, 10).leads(1000, 0, 12, 11).round(0, 1000).hung(2000).rows
    events = events_of(rows)
    events = events.set_column(0, "cluster", pa.array([GONE] * len(events)))
    reconstructor = Reconstructor(Rules())
    reconstructor.update(events, coverage(events), batch_id=0)
    assert reconstructor.state.watched
    assert not forgotten(reconstructor).state.watched
