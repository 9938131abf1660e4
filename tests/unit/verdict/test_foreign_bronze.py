"""Bronze whose writer left columns out, as other engines may: what sources report is read all the same."""

from deltalake import write_deltalake

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake.lake import Lake
from pipelines.verdict.sources import reports
from schemas import replication_events


def test_sources_of_a_bronze_that_lacks_columns_and_is_partitioned(tmp_path):
    events = read_logs([traces.path("unclean_election") / "broker-1"], "c")
    fewer = events.drop_columns(["broker_epoch", "detail"])
    lakes = {"whole": events, "fewer": fewer}
    found = {}
    for name, rows in lakes.items():
        uri = Lake(str(tmp_path / name)).uri(replication_events.TABLE)
        write_deltalake(uri, rows, partition_by=["cluster"])
        (found[name],) = reports(Lake(str(tmp_path / name)), {"c": events["ts"][-1].as_py()}, 3600).values()
    assert found["fewer"].sources == found["whole"].sources != []
