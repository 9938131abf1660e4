"""A scrape of a small lake, as Prometheus would parse it."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.lake.lake import Lake
from pipelines.metrics.exporter import Exporter
from pipelines.verdict import Limits
from tests.unit.project.lakes import at, health, reported, sound, write

SEVERITIES = {"loss": "critical", "offline": "critical", "gap": "warning"}


def exporter(lake, *, seconds=85, worst=20, limits=None):
    """Of a lake whose brokers reported until 25 s before the wall clock."""
    return Exporter(Lake(str(lake)), lambda: limits or Limits(), SEVERITIES, lambda: at(seconds), worst)


class _Families:
    def __init__(self, families):
        self.families = list(families)

    def collect(self):
        return self.families


def text(exporter):
    registry = CollectorRegistry()
    registry.register(_Families(exporter.metrics()))
    return generate_latest(registry).decode()


def samples(exporter):
    """(name, labels) to value, of every sample."""
    return {
        (sample.name.removeprefix("hwmark_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text(exporter))
        for sample in family.samples
    }


def only(found, name, *labels):
    """The values of one metric by the values of these labels."""
    mine = [(dict(where), value) for (metric, where), value in found.items() if metric == name]
    return {tuple(where[label] for label in labels): value for where, value in mine}


def troubled(lake):
    """Five partitions of prod: offline, under min ISR, held back by broker 3, under-replicated, in sync."""
    sound(
        lake,
        health("orders", 0, offline=True, leader_id=-1, isr=[2]),
        health("orders", 1, isr=[1], osr=[2, 3], under_replicated=True, under_min_isr=True),
        health("orders", 2, leader_leo=140, stalled_ms=14_000, holding_replicas=[3], lag_records=40),
        health("orders", 3, isr=[1, 2], osr=[3], under_replicated=True),
        health("orders", 4),
    )


def minute(number, batch=0, cluster="prod", **counts):
    """One partial of `silver/minute_stats`, so many minutes after NOON."""
    histogram = [0] * 41
    histogram[4] = counts.pop("appended", 0)
    return {
        "cluster": cluster, "broker_id": 1, "minute": at(60 * number), "batch_id": batch,
        "counts": [(name.replace("__", ":"), value) for name, value in counts.items()], "append_to_hw": histogram,
    }  # fmt: skip


__all__ = ["at", "exporter", "health", "minute", "only", "reported", "samples", "sound", "text", "troubled", "write"]
