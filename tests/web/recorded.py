"""A lake with the recordings of a real Kafka, reconstructed without Spark."""

from deltalake import write_deltalake

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake.lake import Lake
from pipelines.replication import Reconstructor
from pipelines.replication.facts.tables import Facts
from schemas import tables
from tests.unit.project.lakes import job_has_read


def write_recordings(lake):
    """Every recorded scenario, each a cluster: bronze, silver and how its partitions stood at the end."""
    for scenario in traces.scenarios():
        events, machine = read_logs([traces.path(scenario)], scenario), Reconstructor()
        facts = Facts.concat([machine.update(events), machine.finish()])
        Lake(lake).append("replication_events", events)
        for name, rows in [*facts.tables().items(), ("partition_health", machine.health())]:
            write_deltalake(f"{lake}/{tables()[name].path}", rows, mode="append")
    job_has_read(lake)
