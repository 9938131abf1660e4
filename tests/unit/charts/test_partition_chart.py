"""The chart of one partition."""

from pipelines.charts.partition import partition_chart
from pipelines.charts.style import SHADES
from pipelines.timeline.isr import Stretch
from pipelines.timeline.offsets import HW, Point
from pipelines.timeline.partition import PartitionPast, Term
from tests.unit.project.lakes import at


def chart(replicas):
    points = [Point(at(60 * s), f"broker {n}", 100 * s + n) for s in range(2) for n in range(1, replicas + 1)]
    points = sorted([*points, Point(at(0), HW, 90)])
    stretches = [Stretch(n, at(0), at(60)) for n in range(1, replicas + 1)]
    spec = partition_chart(PartitionPast(at(0), at(60), points, stretches, terms=[Term(at(0), replicas, 1)]))
    lines, bars = spec["vconcat"]
    color = bars["encoding"]["color"]["scale"]
    return lines.get("title"), dict(zip(color["domain"], color["range"], strict=False))


def test_every_replica_has_a_colour_of_its_own():
    title, colours = chart(8)
    assert title is None
    assert [colours[f"broker {n}"] for n in range(1, 9)] == list(SHADES)


def test_of_more_replicas_than_colours_the_rest_is_named():
    title, colours = chart(11)
    assert title == "not drawn: broker 8, broker 9, broker 10"
    assert list(colours) == [HW, *(f"broker {n}" for n in (*range(1, 8), 11))]
    assert len(set(colours.values())) == 9
