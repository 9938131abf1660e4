"""The recorded traces, read and replayed once a session, beside what their files say when read without the parser."""

import functools
import gzip
import json
import re
from typing import NamedTuple

import pytest

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.replication import replay
from tests.kafka.shrink_lines import out_of_sync_replicas
from tests.simulated import cut_traces

SETTLED_HW = re.compile(
    r"(\d+)\|[^|]*\|[^|]*\|kafka\.cluster\.Partition\|\[Partition (\S+)-(\d+) broker=(\d+)\] "
    r"High watermark updated from \(offset=(-?\d+).* to \(offset=(-?\d+)"
)
METADATA_RECORD = re.compile(r"CreateTime: (\d+) .*? payload: (\{.*\})$")


def pytest_collection_modifyitems(items):
    """One worker for all of them: each trace is parsed and replayed once."""
    for item in items:
        if "/tests/kafka/test_traces_" in str(item.path):
            item.add_marker(pytest.mark.xdist_group("traces"))


class PrintedHw(NamedTuple):
    topic: str
    partition: int
    broker: int
    hw: int


class IsrChange(NamedTuple):
    topic: str
    partition: int
    partition_epoch: int
    isr: tuple[int, ...]


def millis(ts):
    """Epoch milliseconds of a time in a row."""
    return round(ts.timestamp() * 1000)


def brokers_of(scenario):
    """The folders of the brokers: what they logged, without the metadata dump."""
    return sorted(traces.path(scenario).glob("broker-*"))


@pytest.fixture(scope="session")
def events_of():
    return functools.cache(lambda scenario: read_logs([traces.path(scenario)], scenario))


@pytest.fixture(scope="session")
def facts_of(events_of):
    return functools.cache(lambda scenario: replay(events_of(scenario)))


@pytest.fixture(scope="session")
def facts_of_brokers():
    """Facts from what the brokers logged alone: the metadata dump is left aside."""
    return functools.cache(lambda scenario: replay(read_logs(brokers_of(scenario), scenario)))


@pytest.fixture(scope="session")
def events_of_cut(tmp_path_factory):
    """Events of a scenario whose logs are cut to a level, by name: `lean` or `info`."""

    @functools.cache
    def events(scenario, level):
        folder = tmp_path_factory.mktemp(f"{scenario}-{level}")
        return read_logs([cut_traces.cut(scenario, getattr(cut_traces, level), folder)], scenario)

    return events


@pytest.fixture(scope="session")
def facts_of_cut(events_of_cut):
    return functools.cache(lambda scenario, level: replay(events_of_cut(scenario, level)))


@pytest.fixture(scope="session")
def printed_hw():
    """Every HW change of a user topic that a leader printed, read from the lines without the parser."""

    @functools.cache
    def printed(scenario):
        changes = []
        for log in traces.path(scenario).glob("broker-*/replication.log.gz"):
            with gzip.open(log, "rt") as lines:
                found = [SETTLED_HW.match(line) for line in lines if "High watermark updated" in line]
            changes += [
                PrintedHw(m[2], int(m[3]), int(m[4]), int(m[6]))
                for m in found
                if m[5] != m[6] and not m[2].startswith("__")
            ]
        return changes

    return printed


@pytest.fixture(scope="session")
def metadata_isr_changes():
    """Every ISR change of every partition in the metadata dump: a change record adds one to the partition epoch."""

    @functools.cache
    def changes(scenario):
        topics, isrs, epochs, found = {}, {}, {}, []
        for record in metadata_records(scenario):
            data = record["data"]
            place = data.get("topicId"), data.get("partitionId")
            if record["type"] == "TOPIC_RECORD":
                topics[data["topicId"]] = data["name"]
            elif record["type"] == "PARTITION_RECORD":
                isrs[place], epochs[place] = data["isr"], data["partitionEpoch"]
            elif record["type"] == "PARTITION_CHANGE_RECORD":
                epochs[place] += 1
                if set(data.get("isr", isrs[place])) != set(isrs[place]):
                    isrs[place] = data["isr"]
                    found.append(IsrChange(topics[place[0]], place[1], epochs[place], tuple(sorted(data["isr"]))))
        return found

    return changes


def metadata_records(scenario):
    with gzip.open(traces.path(scenario) / "metadata.dump.gz", "rt") as lines:
        return [json.loads(m[2]) for line in lines if (m := METADATA_RECORD.search(line.rstrip()))]


@pytest.fixture(scope="session")
def actions_of():
    """What was done to the cluster, in order: rows of actions.jsonl."""

    def actions(scenario):
        return [json.loads(line) for line in (traces.path(scenario) / "actions.jsonl").read_text().splitlines()]

    return functools.cache(actions)


@pytest.fixture(scope="session")
def printed_shrinks():
    """Every out-of-sync replica that a leader printed when it asked for a smaller ISR."""

    def shrinks(scenario):
        logs = traces.path(scenario).glob("broker-*/replication.log.gz")
        return [row for log in logs for row in out_of_sync_replicas(gzip.decompress(log.read_bytes())).to_pylist()]

    return functools.cache(shrinks)
