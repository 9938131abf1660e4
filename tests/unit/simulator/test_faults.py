"""Faults as values: how they are written, read, refused, and drawn by chance."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.simulator.cluster.settings import SECOND, Settings, Topic
from generators.simulator.faults.chance import DRAWS, drawn
from generators.simulator.faults.forms import FORMS
from generators.simulator.faults.script import SHAPES, Fault, checked, parse, rates, read, usage
from generators.simulator.faults.spans import span, written
from pipelines.errors import UsageError

CLUSTER = Settings(brokers=(1, 2, 3), topics=(Topic("orders", partitions=3), Topic("my-topic.v2")))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("12s freeze 3 for 20s", Fault(12 * SECOND, "freeze", 3, {"for": 20 * SECOND})),
        ("500ms kill 1", Fault(500_000, "kill", 1)),
        ("1m cut 1-2 for 1.5s", Fault(60 * SECOND, "cut", (1, 2), {"for": 1_500_000})),
        ("1s throttle 2 to 10", Fault(SECOND, "throttle", 2, {"to": 10})),
        ("1s clock-jump 2 by -5s", Fault(SECOND, "clock-jump", 2, {"by": -5 * SECOND})),
        ("1s reassign my-topic.v2-0 to 2,3,1", Fault(SECOND, "reassign", ("my-topic.v2", 0), {"to": (2, 3, 1)})),
        ("1s elect-preferred", Fault(SECOND, "elect-preferred")),
        ("1s elect-preferred orders-2", Fault(SECOND, "elect-preferred", ("orders", 2))),
        ("1s create-topic new:6x3:min-isr=2", Fault(SECOND, "create-topic", Topic("new", 6, 3, 2))),
        ("1s configure orders to unclean=on", Fault(SECOND, "configure", "orders", {"to": {"unclean": True}})),
        ("1s refuse-isr 0.5 for 9s", Fault(SECOND, "refuse-isr", 0.5, {"for": 9 * SECOND})),
        (
            "1s rolling-upgrade to 4.1 every 20s",
            Fault(SECOND, "rolling-upgrade", None, {"to": "4.1", "every": 20 * SECOND}),
        ),
    ],
)
def test_a_line_is_a_fault_and_a_fault_is_written_as_its_line(line, fault):
    assert parse(line) == fault
    assert parse(fault.written()) == fault


@pytest.mark.parametrize("do", SHAPES)
def test_every_kind_reads_what_its_usage_says(do):
    shape = SHAPES[do]
    on = [FORMS[shape.on].example] if shape.on else []
    words = [part for word, form in shape.options.items() for part in (word, FORMS[form].example)]
    fault = parse(" ".join(["12s", do, *on, *words]))
    assert parse(fault.written()) == fault
    assert usage(do).startswith(f"AT {do}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("12s freze 3", "there is no fault 'freze'; did you mean freeze?"),
        ("12s freeze", "freeze does not say which broker; it is written AT freeze BROKER [for LENGTH]"),
        ("12s freeze x", "'x' is no broker"),
        ("12 freeze 3", "'12' is no span of time: write 500ms, 12s, 2m or 1h; did you mean 12s?"),
        ("-12s freeze 3", "-12s is negative; the nearest allowed is 0s"),
        ("12s freeze 3 for", "'for' stands alone"),
        ("12s freeze 3 until 20s", "freeze takes no 'until'"),
        ("12s throttle 3", "throttle lacks 'to'; it is written AT throttle BROKER to RECORDS [for LENGTH]"),
        ("12s cut 1", "'1' is no link between two brokers: write 1-2"),
        ("12s cut 2-2", "'2-2' is no link"),
        ("12s reassign orders to 1,2", "'orders' is no partition: write TOPIC-NUMBER"),
        ("12s reassign orders-0 to 1,1", "1,1 names a broker twice"),
        ("12s refuse-isr 1.5", "a share of 1.5 cannot be; the nearest allowed is 1"),
        ("12s refuse-isr lots", "'lots' is no share"),
        ("12s configure orders to min-isr=0", "min-isr 0 is too small; the nearest allowed is 1"),
        ("12s configure orders to unclean=maybe", "unclean=maybe is neither unclean=on nor unclean=off"),
        ("12s configure orders to min_isr=2", "there is no setting min_isr here; did you mean min-isr?"),
        ("12s rolling-upgrade to 4.2", "there are no rules of version 4.2; the nearest allowed is 4.1"),
        ("12s rolling-upgrade to 2.0", "the nearest allowed is 0.10"),
        ("12s create-topic a/b", "'a/b' is no topic name"),
        ("12s create-topic new:0", "partitions of the topic new:0 is 0; the nearest allowed is 1"),
        ("12s create-topic new:min_isr=2", "'min_isr=2' of the topic new:min_isr=2 is not understood; did you mean"),
        ("freeze", 'it is written like "12s freeze 3 for 20s"'),
    ],
)
def test_a_line_that_cannot_be_is_refused_by_name_with_what_to_write(line, says):
    with pytest.raises(UsageError) as error:
        parse(line)
    assert repr(line) in str(error.value)
    assert says in str(error.value)


def test_a_file_has_the_same_in_tables(tmp_path):
    file = tmp_path / "faults.toml"
    file.write_text("""
        [[fault]]
        at = "12s"
        do = "freeze"
        broker = 3
        for = "20s"

        [[fault]]
        at = "20s"
        do = "reassign"
        partition = "orders-1"
        to = [2, 3, 1]
    """)
    assert read(file) == [parse("12s freeze 3 for 20s"), parse("20s reassign orders-1 to 2,3,1")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[fault]]\ndo = 'kill'\nbroker = 1", 'fault 1: kill does not say when: at = "12s"'),
        ("[[fault]]\nat = '1s'\ndo = 'kill'\nbroker = 1\nuntil = '3s'", "fault 1: kill takes no 'until'"),
        ("[[fault]]\nat = '1s'\nbroker = 1", "fault 1: there is no fault ''"),
        ("[[faults]]\nat = '1s'", "there is nothing called faults; did you mean fault?"),
        ("[[fault", "is not TOML"),
    ],
)
def test_a_file_that_cannot_be_names_itself_and_the_table(tmp_path, text, says):
    file = tmp_path / "faults.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        read(file)
    assert str(file) in str(error.value)
    assert says in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read the faults .*none\.toml"):
        read(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1s kill 9", "there is no broker 9; the nearest is 3"),
        ("1s cut 1-4", "there is no broker 4; the nearest is 3"),
        ("1s reassign orders-0 to 1,7", "there is no broker 7"),
        ("1s delete-topic order", "there is no topic order then; did you mean orders?"),
        ("1s unclean-election orders-3", "orders has no partition 3; the last one is 2"),
    ],
)
def test_what_the_cluster_does_not_have_is_refused_by_name(line, says):
    with pytest.raises(UsageError) as error:
        checked([parse(line)], CLUSTER)
    assert says in str(error.value)


def test_a_topic_is_there_once_a_fault_has_created_it():
    later = [parse("2s delete-topic new"), parse("1s create-topic new:2")]
    assert [fault.do for fault in checked(later, CLUSTER)] == ["create-topic", "delete-topic"]


def test_rates_are_of_known_kinds_and_not_negative():
    assert rates({"kill": 0.5, "freeze": 0}, DRAWS) == {"kill": 0.5, "freeze": 0}
    with pytest.raises(UsageError, match="'kil' does not come by chance; did you mean kill"):
        rates({"kil": 1}, DRAWS)
    with pytest.raises(UsageError, match="the rate kill=-1 is no number of times a minute; the nearest allowed is 0"):
        rates({"kill": -1}, DRAWS)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_chance_draws_the_same_script_from_the_same_seed_and_it_can_be_written_down(seed):
    every = dict.fromkeys(DRAWS, 1.0)
    script = drawn(CLUSTER, every, 120, seed)
    assert script == drawn(CLUSTER, every, 120, seed)
    assert script == [parse(fault.written()) for fault in script]
    assert script == checked(script, CLUSTER)


def test_another_kind_by_chance_leaves_the_others_as_they_were():
    kills = drawn(CLUSTER, {"kill": 2}, 600, seed=7)
    both = drawn(CLUSTER, {"kill": 2, "freeze": 5}, 600, seed=7)
    assert kills
    assert [fault for fault in both if fault.do == "kill"] == kills


def test_a_rate_is_so_many_a_minute():
    hours = 50
    found = drawn(CLUSTER, {"freeze": 2.0, "kill": 0}, hours * 3600, seed=1)
    assert {fault.do for fault in found} == {"freeze"}
    assert len(found) == pytest.approx(2 * 60 * hours, rel=0.05)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0s"), (1, "1us"), (500_000, "500ms"), (SECOND, "1s"), (65_273_000, "65.273s"), (1_500_000, "1.5s"),
        (60 * SECOND, "1m"), (90 * SECOND, "90s"), (3600 * SECOND, "1h"), (-5 * SECOND, "-5s"), (-1_250_000, "-1.25s"),
        (1_234_567_891, "1234567891us"),
    ],
)  # fmt: skip
def test_a_span_is_written_as_people_would(us, text):
    assert written(us) == text
    assert span(text) == us
