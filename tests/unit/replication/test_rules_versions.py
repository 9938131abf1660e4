"""Which version's rules a term follows: its broker's last one at or before its start, unless the cluster's are set."""

import pytest

from pipelines.replication import Reconstructor, Rules, replay
from pipelines.replication.facts.tables import Facts
from pipelines.replication.kafka_versions import (
    BY_MESSAGES,
    KNOWN,
    OF_MESSAGES,
    OF_METADATA,
    OF_SOFTWARE,
    STRICT_ELIGIBILITY,
    STRICT_MIN_ISR,
    WAITS_FOR_JOINERS,
    reported_rules,
)
from tests.unit.replication.bronze import Source, advances, controller, table, values_of

ALL = KNOWN | STRICT_MIN_ISR | STRICT_ELIGIBILITY | WAITS_FOR_JOINERS


@pytest.mark.parametrize(
    ("detail", "telemetry"),
    [
        ("kafka=0.8.2.2", (OF_SOFTWARE, KNOWN | BY_MESSAGES)),
        ("kafka=0.9.0.1", (OF_SOFTWARE, KNOWN)),
        ("kafka=0.10.1.1", (OF_SOFTWARE, KNOWN)),
        ("kafka=0.10.2.0", (OF_SOFTWARE, KNOWN | WAITS_FOR_JOINERS)),
        ("kafka=2.8.1-amzn.3", (OF_SOFTWARE, KNOWN | WAITS_FOR_JOINERS)),
        ("kafka=3.4.1", (OF_SOFTWARE, KNOWN | WAITS_FOR_JOINERS)),
        ("kafka=3.5.0", (OF_SOFTWARE, ALL & ~STRICT_MIN_ISR)),
        ("kafka=3.6.2", (OF_SOFTWARE, ALL & ~STRICT_MIN_ISR)),
        ("kafka=3.7.0", (OF_SOFTWARE, ALL)),
        ("kafka=4.4.0-SNAPSHOT", (OF_SOFTWARE, ALL)),
        ("kafka=7.6.1-ccs", (OF_SOFTWARE, ALL & ~STRICT_MIN_ISR)),
        ("kafka=7.7.0-ce", (OF_SOFTWARE, ALL)),
        ("kafka=6.2.0-ccs", (OF_SOFTWARE, KNOWN | WAITS_FOR_JOINERS)),
        ("kafka=5.5.1-ccs", (OF_SOFTWARE, KNOWN | WAITS_FOR_JOINERS)),
        ("metadata=4.1-IV1", (OF_METADATA, ALL)),
        ("replica.lag.max.messages=4", (OF_MESSAGES, 4)),
        ("kafka=3.3.1-ccs", None),
        ("kafka=unknown", None),
        ("kafka=2024.1", None),
        ("rack=eu-1a", None),
        (None, None),
    ],
)
def test_the_rules_of_a_version(detail, telemetry):
    assert reported_rules(detail) == telemetry


def frozen(ms=0, **columns):
    """Under min ISR since the start: only before Kafka 3.7 does the HW follow the log."""
    telemetry = Source(**columns)
    return telemetry, lambda: telemetry.leader(ms, 1, 5, 5, [1], min_isr=2).append(ms + 10, 8).progress(ms + 30_000)


def hws(*sources, rules=None):
    return [hw for _, hw in advances(replay(table(*sources), rules or Rules()))]


def test_a_term_goes_by_the_version_that_its_broker_reported():
    telemetry, go = frozen()
    telemetry.config(-10, detail="kafka=3.6.2")
    assert hws(go()) == [8]
    telemetry, go = frozen()
    telemetry.config(-10, detail="kafka=3.9.1")
    assert hws(go(), rules=Rules(strict_min_isr=False)) == []


def test_without_a_version_the_rules_hold():
    assert hws(frozen()[1]()) == []
    assert hws(frozen()[1](), rules=Rules(strict_min_isr=False)) == [8]


def test_a_version_counts_from_the_next_term_on():
    telemetry, go = frozen()
    telemetry.config(-10, detail="kafka=3.6.2")
    go()
    telemetry.config(40_000, detail="kafka=4.1.1").append(40_010, 9)
    telemetry.leader(50_000, 2, 9, 9, [1], min_isr=2).append(50_010, 12).progress(90_000)
    assert hws(telemetry) == [8, 9]


def test_the_version_of_another_broker_shows_nothing():
    other = Source("broker-2/replication.log").config(-10, detail="kafka=3.6.2").progress(30_000)
    assert hws(frozen()[1](), other) == []


def test_the_version_may_be_reported_by_another_file_of_the_broker():
    server = Source("broker-1/server.log", level=0).config(-10, detail="kafka=3.6.2").progress(30_000)
    assert hws(server, frozen()[1]()) == [8]
    assert hws(frozen()[1](), server) == [8]


def test_the_version_of_the_software_goes_before_that_of_the_metadata():
    telemetry, go = frozen()
    telemetry.config(-20, detail="kafka=4.1.1").config(-10, detail="metadata=3.6-IV2")
    assert hws(go()) == []
    telemetry, go = frozen()
    telemetry.config(-10, detail="metadata=3.6-IV2")
    assert hws(go()) == [8]


def test_the_rules_of_a_cluster_hold_whatever_its_brokers_report():
    telemetry, go = frozen(cluster="test-1")
    telemetry.config(-10, detail="kafka=4.1.1")
    events = go()
    assert hws(events, rules=Rules(clusters={"test-*": {"strict_min_isr": False}})) == [8]
    assert hws(events, rules=Rules(clusters={"prod-*": {"strict_min_isr": False}})) == []
    assert hws(events, rules=Rules(clusters={"*": {"min_isr": 2}, "test-?": {"strict_min_isr": False}})) == [8]


def test_min_isr_and_lag_of_a_cluster():
    telemetry = Source(cluster="a").leader(0, 1, 5, 5, [1, 2], replicas=[1, 2, 3]).append(10, 8).fetch(20, 2, 8, 8)
    telemetry.append(30, 9).progress(30_000)
    assert hws(telemetry) == [8]
    assert hws(telemetry, rules=Rules(clusters={"a": {"min_isr": 3}})) == []
    gone = replay(table(telemetry), Rules(clusters={"a": {"lag_max_ms": 5_000}})).replica_sync
    assert values_of(gone, "ms", state="out_of_sync", replica_id=2) == [5_021]


def test_by_messages_as_many_as_the_broker_reports():
    def lagging(*details):
        telemetry = Source()
        for detail in details:
            telemetry.config(-10, detail=detail)
        telemetry.leader(0, 1, 5, 5, [1, 2], replicas=[1, 2]).fetch(5, 2, 5, 5).append(10, 11).fetch(20, 2, 6, 11)
        return values_of(replay(table(telemetry.progress(60_000))).replica_sync, "ms", state="out_of_sync")

    # Then by time, too: it is behind, and fetched last at 20.
    assert lagging("kafka=0.8.2.2", "replica.lag.max.messages=5") == [10, 30_021]
    assert lagging("replica.lag.max.messages=5", "kafka=0.8.2.2") == [10, 30_021]
    assert lagging("kafka=0.8.2.2") == [30_021]
    assert lagging("kafka=0.9.0.1", "replica.lag.max.messages=5") == [30_006]


def test_before_0_10_2_the_hw_waits_for_the_isr_alone():
    def held(detail):
        telemetry = Source().config(-10, detail=detail).leader(0, 1, 5, 5, [1], replicas=[1, 2]).append(5, 6)
        return hws(telemetry.fetch(10, 2, 6, 6).append(20, 9).fetch(25, 2, 6, 9).progress(30_000))

    assert held("kafka=0.10.1.1") == [6, 9]
    assert held("kafka=0.10.2.0") == [6]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_what_a_broker_reported_its_version_outlives_a_snapshot(cut):
    telemetry, go = frozen()
    telemetry.config(-10, detail="kafka=3.6.2")
    rows = table(go(), controller().progress(30_000))
    first = Reconstructor()
    parts = [first.update(rows.slice(0, cut))]
    second = Reconstructor.restore(first.snapshot())
    parts += [second.update(rows.slice(cut)), second.finish()]
    assert [hw for _, hw in advances(Facts.concat(parts))] == [8]


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        ({"a": {"race_window_ms": 5}}, "rules.clusters.a.race_window_ms is no rule of one cluster"),
        ({"a": {"min_isr": 0}}, "rules.clusters.a.min_isr is 0; it must be at least 1"),
        ({"a": {"strict_min_isr": 1}}, "rules.clusters.a.strict_min_isr is 1"),
        ({"a": {"lag_max_ms": True}}, "rules.clusters.a.lag_max_ms is True"),
    ],
)
def test_a_bad_rule_of_a_cluster_is_named(clusters, words):
    with pytest.raises(ValueError, match=words):
        Rules(clusters=clusters)
