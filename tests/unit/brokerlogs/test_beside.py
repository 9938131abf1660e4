"""What stands beside the lines: server.properties, what a leader prints of a shrink, and the log4j2 snippet."""

import gzip
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from generators.brokerlogs.parsing.parser import EVENTS, SourceParser
from generators.brokerlogs.tailing.broker_settings import node_id, server_properties_events
from generators.recordings import traces
from tests.kafka.shrink_lines import out_of_sync_replicas
from tests.unit.brokerlogs.log_lines import PARTITION, T0, partition, plain, short

CONF = Path(__file__).parents[3] / "conf"


def test_settings_of_a_broker():
    text = (
        "# min.insync.replicas=9\nnode.id=3\nmin.insync.replicas = 2\nreplica.lag.time.max.ms=6000\nbroker.rack=eu-1a\n"
    )
    table = server_properties_events(text, "c", "broker-3/server.properties", T0 * 1000)
    assert table.schema == EVENTS
    columns = "ts", "broker_id", "topic", "partition", "min_isr", "lag_max_ms", "replica_id", "detail"
    assert short(plain(table), *columns) == [
        ("config", 0, 3, None, -1, 2, None, None, None),
        ("config", 0, 3, None, -1, None, 6000, None, None),
        ("config", 0, 3, None, -1, None, None, 3, "rack=eu-1a"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node.id=1\n",
        "min.insync.replicas=2\n",
        "broker.rack=a\n",
        "node.id=1\nbroker.rack=\n",
        "node.id=1\nmin.insync.replicas=two\n",
    ],
)
def test_what_is_not_stated_has_no_row(text):
    assert server_properties_events(text, "c", "s", 0).num_rows == 0


def test_the_id_of_a_broker():
    assert (node_id("broker.id=7"), node_id("broker.id=7\nnode.id=8"), node_id("a=b")) == (7, 8, None)


def test_the_shrinks_of_a_trace_name_when_each_replica_was_last_caught_up():
    with gzip.open(traces.path("slow_follower") / "broker-1/replication.log.gz") as file:
        (row,) = out_of_sync_replicas(file.read()).to_pylist()
    assert row["ts"].timestamp() == 1795224372.517
    assert row["last_caught_up_ts"].timestamp() == 1795224366.014
    del row["ts"], row["last_caught_up_ts"]
    assert row == {
        "broker_id": 1,
        "topic": "orders",
        "partition": 1,
        "replica_id": 3,
        "leo": 158,
        "hw": 158,
        "leader_leo": 159,
    }


def test_several_replicas_and_the_stock_pattern():
    replicas = " ".join(f"(brokerId: {r}, endOffset: {r}, lastCaughtUpTimeMs: {T0 + r})" for r in (2, 3))
    text = partition(
        f"Shrinking ISR from 1,2,3 to 1. Leader: (highWatermark: 1, endOffset: 9). Out of sync replicas: {replicas}."
    )
    table = out_of_sync_replicas(f"[2026-11-21 01:27:06,250] INFO {text} ({PARTITION})\n".encode())
    assert table["replica_id"].to_pylist() == [2, 3]
    assert [t.timestamp() for t in table["ts"].to_pylist()] == [(T0 + 250) / 1000] * 2
    assert out_of_sync_replicas(b"").num_rows == 0


def test_the_snippet_prints_what_the_parser_reads_and_both_forms_agree():
    xml = ElementTree.parse(CONF / "log4j2-hwmark.xml").getroot()
    layout = xml.find(".//PatternLayout").get("pattern")
    yaml = (CONF / "log4j2-hwmark.yaml").read_text()
    assert f'pattern: "{layout}"' in yaml
    denied = [f.get("text") for f in xml.iter("StringMatchFilter") if f.get("onMatch") == "DENY"]
    assert denied == ["Recorded replica", "Progress awaiting"]
    for name in [*denied, *(logger.get("name") for logger in xml.iter("Logger"))]:
        assert name in yaml
    message = partition("High watermark updated from (offset=1, segment=[0:7]) to (offset=2, segment=[0:9])")
    printed = layout
    for word, value in {
        "%d{UNIX_MILLIS}": T0,
        "%t": "t",
        "%p": "DEBUG",
        "%c": PARTITION,
        "%sn": 7,
        "%m": message,
        "%n": "\n",
    }.items():
        printed = printed.replace(word, str(value))
    parser = SourceParser("c", "s")
    assert short(plain(parser.feed(printed.encode(), last=True)), "hw") == [("hw", 2)]
    assert parser.report.has_sn


def test_the_stock_pattern_is_read_in_its_time_zone():
    def hours(zone, *stamps):
        text = partition("Recorded replica 2 log end offset (LEO) position 1 and log start offset 0.")
        data = "".join(f"[{stamp}] DEBUG {text} ({PARTITION})\n" for stamp in stamps).encode()
        rows = SourceParser("c", "s", timezone=zone).feed(data, last=True)
        return [str(t)[:16] for t in rows["ts"].to_pylist()]

    summer, winter = "2026-08-22 10:00:00,125", "2026-12-22 10:00:00,125"
    assert hours("UTC", summer, winter) == ["2026-08-22 10:00", "2026-12-22 10:00"]
    assert hours("Europe/Berlin", summer, winter) == ["2026-08-22 08:00", "2026-12-22 09:00"]
    assert hours("Asia/Kathmandu", summer) == ["2026-08-22 04:15"]
    assert hours("UTC", "2024-02-29 23:59:59,999", "2000-03-01 00:00:00,000", "2026-13-01 00:00:00,000") == [
        "2024-02-29 23:59"
    ]


@pytest.mark.parametrize("lag", [(1 << 31) - 1, 1 << 31, (1 << 63) - 1])
def test_a_lag_that_an_int_has_no_room_for_is_the_longest(lag):
    """It is a LONG in Kafka, and ended ingest."""
    table = server_properties_events(f"node.id=3\nreplica.lag.time.max.ms={lag}\n", "c", "s", 0)
    assert table["lag_max_ms"].to_pylist() == [(1 << 31) - 1]


@pytest.mark.parametrize("value", ["9" * 5000, "\N{SUPERSCRIPT TWO}", "-1", "1e9", ""])
def test_what_is_no_number_of_kafka_s_makes_no_event(value):
    table = server_properties_events(f"node.id=3\nreplica.lag.time.max.ms={value}\nmin.insync.replicas=2", "c", "s", 0)
    assert table["lag_max_ms"].to_pylist() == [None]
