"""The chart of one partition."""

from pipelines.charts.partition import partition_chart
from pipelines.charts.style import SHADES
from pipelines.timeline.isr import Stretch
from pipelines.timeline.offsets import HW, Point
from pipelines.timeline.partition import LostRange, PartitionPast, Term
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
    assert title == ["not drawn: broker 8, broker 9, broker 10"]
    assert list(colours) == [HW, *(f"broker {n}" for n in (*range(1, 8), 11))]
    assert len(set(colours.values())) == 9


def past(**more):
    ends = [Point(at(5 * s), "broker 2", 100 + s) for s in (0, 1, 2, 3, 100)]
    return PartitionPast(at(0), at(600), [Point(at(0), HW, 90), *ends], sampled=True, **more)


def layers(chart):
    return {str(one["mark"]["type"]): one for one in chart["vconcat"][0]["layer"]}


def test_what_was_lost_is_said_above_the_chart_and_not_on_it():
    lost = [LostRange(at(30), 10, 19), LostRange(at(30), 30, 39), LostRange(at(40), 50, 59, sure=False)]
    chart = partition_chart(past(lost=lost))
    assert chart["vconcat"][0]["title"] == ["lost (shaded): 10..19, 30..39", "may be lost (shaded): 50..59"]
    assert "text" not in layers(chart)


def test_between_two_samples_all_is_possible_but_not_while_a_follower_was_away():
    brackets = [(one["offset"], one["to"]) for one in layers(partition_chart(past()))["area"]["data"]["values"]]
    assert brackets == [(100, 101), (101, 102), (102, 103)]


def test_the_hw_lies_on_top_of_the_ends():
    values = layers(partition_chart(past()))["line"]["data"]["values"]
    assert list(dict.fromkeys(one["series"] for one in values)) == ["broker 2", HW]
