"""Recordings of clusters that nobody here had chosen: every range, every ISR change, no false alarm, no disagreement.

`TRUTH.md` in each folder describes what happened and how it is known: from what clients saw acknowledged and read back.
"""

import functools
from pathlib import Path

import pytest

from generators.brokerlogs.ingest import read_logs
from pipelines.replication import Reconstructor, replay
from pipelines.replication.facts.tables import Facts
from tests.kafka import metadata_log

RECORDINGS = Path(__file__).parent / "recordings"
LOST = {
    "dynamic_elr": {("clicks", 0): (116, 508), ("clicks", 1): (115, 508)},
    "lean_live": {("clicks", 0): (1332, 1502), ("clicks", 1): (1333, 1502)},
    "quorum_lost": {},
    "stock39_lean": {("clicks", 0): (119, 300), ("clicks", 1): (119, 299)},
    "unclean_election_44": {("clicks", 0): (119, 300), ("clicks", 1): (119, 300)},
    "zombie_leader": {("clicks", 0): (182, 900), ("clicks", 1): (179, 901)},
}
DUMPED = sorted(name for name in LOST if (RECORDINGS / name / "metadata.dump.gz").exists())
WAYS = [(name, False) for name in sorted(LOST)] + [(name, True) for name in DUMPED]


@functools.cache
def events_of(name, with_dump):
    """Everything the nodes logged, the whole directories; the printed metadata log where it is asked for."""
    folder = RECORDINGS / name
    nodes = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    return read_logs([*nodes, *([folder / "metadata.dump.gz"] if with_dump else [])], name)


@functools.cache
def facts_of(name, with_dump):
    return replay(events_of(name, with_dump))


def standing(table, *key):
    """Of each key the row of the highest revision."""
    last = {}
    for row in table.to_pylist():
        place = tuple(row[name] for name in key)
        if place not in last or row["revision"] > last[place]["revision"]:
            last[place] = row
    return list(last.values())


@pytest.mark.parametrize(("name", "with_dump"), WAYS)
def test_every_lost_range_is_named_to_the_offset_and_nothing_else_is(name, with_dump):
    rows = standing(facts_of(name, with_dump).hw_regressions, "regression_id")
    grave = [row for row in rows if row["severity"] != "info" and row["class"] != "loss_not_excluded"]
    assert {(r["topic"], r["partition"]): (r["lost_from"], r["lost_to"]) for r in grave} == LOST[name]
    assert {row["class"] for row in grave} <= {"unclean_loss"}
    assert len(grave) == len(LOST[name])


@pytest.mark.parametrize(("name", "with_dump"), WAYS)
def test_no_report_of_a_broker_disagrees(name, with_dump):
    rows = facts_of(name, with_dump).partition_hw.to_pylist()
    assert [row for row in rows if row["agreement"] == "disagree"] == []
    assert facts_of(name, with_dump).quarantine.num_rows == 0


@pytest.mark.parametrize(("name", "with_dump"), [way for way in WAYS if way[0] in DUMPED])
def test_the_isr_changes_are_those_of_the_metadata_log(name, with_dump):
    rows = standing(facts_of(name, with_dump).isr_changes, "topic", "topic_id", "partition", "partition_epoch")
    reported = {
        (row["topic"], row["partition"], row["partition_epoch"], tuple(sorted(row["isr_after"])))
        for row in rows
        if row["change"] != "retracted" and not row["topic"].startswith("__")
    }
    assert reported == set(metadata_log.isr_changes(RECORDINGS / name))


@pytest.mark.parametrize("name", ["lean_live", "zombie_leader"])
def test_the_verdicts_do_not_depend_on_how_the_batches_are_cut(name):
    """As `run --interval` beside `ingest --follow` has them: in order of time, a few seconds each."""
    events = events_of(name, False).sort_by("ts")
    reconstructor, parts = Reconstructor(), []
    for start in range(0, len(events), 4000):
        reconstructor = Reconstructor.restore(reconstructor.snapshot())
        parts.append(reconstructor.update(events.slice(start, 4000)))
    facts = Facts.concat([*parts, reconstructor.finish()])
    rows = standing(facts.hw_regressions, "regression_id")
    grave = [row for row in rows if row["severity"] != "info" and row["class"] != "loss_not_excluded"]
    assert {(r["topic"], r["partition"]): (r["lost_from"], r["lost_to"]) for r in grave} == LOST[name]
