"""What hwmark said beside what happened: every difference is a sentence."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from schemas import hw_regressions, isr_changes, partition_hw, telemetry_gaps
from tests.realkafka.beside import Row
from tests.realkafka.load import Place
from tests.realkafka.metadata_log import Isr
from tests.realkafka.story import CLICKS, TOPICS, Story

TELLS_NO_VERSION = "3.0"
"""Its controller prints removals from an ISR without the version, by which changes are told apart otherwise."""


class Lost(NamedTuple):
    """What clients lost of one partition: committed records that are no longer at their offset."""

    first: int
    last: int
    records: int


def lost(story: Story) -> dict[Place, Lost]:
    """Of every partition: what was acknowledged with acks=all, or shown to the consumer, and is gone in the end."""
    found = {}
    assert story.reader is not None
    for place, final in story.final.items():
        committed = story.producers.acked[place] | story.reader.shown[place]
        gone = {offset for offset, value in committed if final.get(offset) != value}
        if gone:
            found[place] = Lost(min(gone), max(gone), len(gone))
    return found


def latest(rows: list[Row], *key: str) -> list[Row]:
    """The highest revision of every key."""
    newest: dict[tuple[object, ...], Row] = {}
    for row in rows:
        name = tuple(row[column] for column in key)
        if name not in newest or row["revision"] > newest[name]["revision"]:
            newest[name] = row
    return list(newest.values())


def regressions(story: Story) -> list[Row]:
    """The latest revision of every fall of a HW."""
    return latest(story.beside.rows(hw_regressions.TABLE.path), "regression_id")


def wrong_losses(story: Story) -> list[str]:
    """Where the lost ranges differ from what clients lost and from where the logs of dead brokers ended."""
    claimed: dict[Place, list[Row]] = defaultdict(list)
    for row in regressions(story):
        if row["severity"] == "critical":
            claimed[row["topic"], row["partition"]].append(row)
    gone = lost(story)
    wrong = [
        f"{_name(place)}: {len(rows)} critical rows, nothing is gone"
        for place, rows in claimed.items()
        if place not in gone
    ]
    for place, range_ in gone.items():
        rows = claimed[place]
        if len(rows) != 1:
            wrong.append(f"{_name(place)}: {len(rows)} critical rows, {range_} is gone")
        else:
            wrong += _wrong_range(story, place, range_, rows[0])
    return wrong


def _wrong_range(story: Story, place: Place, gone: Lost, row: Row) -> list[str]:
    """The range is exact: from the stale log's end to the HW, between the last ack and the dead log end.

    It is told as "at least" that much: a kill looks like a power failure, which may cut the leader's own log file, too.
    """
    stale_end, dead_end = story.log_ends[place]
    begins = row["lost_from"] == stale_end == gone.first
    ends = gone.last + 1 <= row["lost_to"] <= dead_end
    if begins and ends and row["class"] == "unclean_loss" and row["proof"] in ("proven", "bounded"):
        return []
    said = f"{row['class']} [{row['lost_from']}, {row['lost_to']}) {row['proof']}, evidence {row['evidence']}"
    logs = f"the stale log ended at {stale_end}, that of the dead leader at {dead_end}"
    return [f"{_name(place)}: {said}; clients lost {gone}, {logs}"]


def wrong_isr_changes(story: Story) -> list[str]:
    """Where the ISR changes differ from those that the quorum committed.

    What the active controller alone printed as the cluster was stopped is told as `controller_only`, and may be on no
    other node.
    """
    if story.kafka.name == TELLS_NO_VERSION:
        return _wrong_isrs_in_order(story)
    rows = latest(story.beside.rows(isr_changes.TABLE.path), "topic", "partition", "partition_epoch")
    told = {
        Isr(row["topic"], row["partition"], row["partition_epoch"], tuple(sorted(row["isr_after"] or ()))): row
        for row in rows
        if row["change"] != "retracted"
    }
    committed = set(story.metadata.isrs)
    claimed = {isr for isr, row in told.items() if row.get("witness") != "controller_only"}
    return [f"not committed: {isr}" for isr in sorted(claimed - committed)] + [
        f"missing: {isr}" for isr in sorted(committed - told.keys())
    ]


def _wrong_isrs_in_order(story: Story) -> list[str]:
    """Return the partitions whose ISRs, in order of time, differ from those that were committed."""
    rows = latest(story.beside.rows(isr_changes.TABLE.path), "topic", "partition", "ts")
    rows = sorted((row for row in rows if row["change"] != "retracted"), key=lambda row: row["ts"])
    claimed: dict[Place, list[tuple[int, ...]]] = defaultdict(list)
    for row in rows:
        claimed[row["topic"], row["partition"]].append(tuple(sorted(row["isr_after"])))
    committed: dict[Place, list[tuple[int, ...]]] = defaultdict(list)
    for isr in story.metadata.isrs:
        committed[isr.topic, isr.partition].append(isr.isr)
    return [
        f"{_name(place)}: committed {committed[place]}, told {claimed[place]}"
        for place in sorted(claimed.keys() | committed.keys())
        if committed[place] != claimed[place]
    ]


def disagreements(story: Story) -> list[Row]:
    """Reports that the reconstruction cannot explain."""
    return [row for row in story.beside.rows(partition_hw.TABLE.path) if row["agreement"] == "disagree"]


def gaps(story: Story) -> list[Row]:
    """Telemetry that hwmark misses; nothing was lost on its way here."""
    return [row for row in story.beside.rows(telemetry_gaps.TABLE.path) if row["kind"] == "gap"]


def claims(story: Story) -> list[Row]:
    """Rows that are no fact: a verdict without its proof, or a start that could not be judged."""
    return [row for row in regressions(story) if row["proof"] == "unproven" or row["class"] == "loss_not_excluded"]


def without_effect(story: Story) -> list[str]:
    """Faults that changed nothing: then the run has shown nothing."""
    gone, removals = lost(story), story.metadata.removals
    quiet = [f"no loss in {_name(place)}" for place in CLICKS.places() if place not in gone]
    shrunk = {broker for at_ms, broker in removals if at_ms >= story.faults[0].at_ms}
    return quiet + [
        f"broker {node} never left an ISR" for node in (story.roles.frozen, story.roles.stale) if node not in shrunk
    ]


def report(story: Story) -> list[str]:
    """What was run, what was lost, and seconds from fault to row and to alert."""
    kafka, gone = story.kafka, lost(story)
    hws = story.beside.rows(partition_hw.TABLE.path)
    reported = [row for row in hws if row["reported_hw"] is not None]
    acked = sum(len(records) for records in story.producers.acked.values())
    load = f"{len(TOPICS)} topics, {acked:,} records acknowledged"
    lines = [f"Kafka {kafka.kafka}, three brokers, {load}, {story.seconds:.0f} s"]
    lines += [f"  {fault.line()}" for fault in story.faults]
    for place, range_ in gone.items():
        mine = [r for r in regressions(story) if (r["topic"], r["partition"]) == place and r["severity"] == "critical"]
        said = ", ".join(f"{r['class']} [{r['lost_from']}, {r['lost_to']}) {r['proof']}" for r in mine) or "nothing"
        lines.append(
            f"  {_name(place)}: clients lost {range_.records} records, {range_.first} to {range_.last}; hwmark: {said}"
        )
    committed = len(story.metadata.isrs)
    lines.append(f"  {committed} ISR changes in the metadata log, {len(wrong_isr_changes(story))} known otherwise")
    lines.append(f"  {len(reported):,} HWs reported by the brokers, {len(disagreements(story))} in disagreement")
    lines += [
        f"  not judged: {_name((r['topic'], r['partition']))} {r['class']} {r['evidence']}" for r in claims(story)
    ]
    return lines


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
