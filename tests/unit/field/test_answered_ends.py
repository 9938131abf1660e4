"""A cut whose leader answered an end below the replica's HW: a loss, from its server.log alone."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.replication import Reconstructor, Rules, replay
from tests.unit.field.cases import facts_of, lost, read_logs, rows, unpack

INVOICES = {"invoices-0": (120, 230), "invoices-1": (120, 230)}
FETCHER = "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0]"


def log(folder: Path, *, hw: int, end: int, to: int, loaded: bool = True) -> Path:
    """A replica's server.log: its HW as it starts, and a cut to `to` where the leader's epoch 4 ends at `end`."""
    load = (
        f"INFO [Partition a-0 broker=1] Log loaded for partition a-0 with initial high watermark {hw} (kafka.cluster."
    )
    answer = f"EpochEndOffset(errorCode=0, partition=0, leaderEpoch=4, endOffset={end})"
    lines = [
        load + "Partition)"
        if loaded
        else "INFO [Partition a-0 broker=1] Log already exists. (kafka.cluster.Partition)",
        f"INFO {FETCHER} Truncating partition a-0 with TruncationState(offset={to}, completed=true) due to leader "
        f"epoch and offset {answer} (kafka.server.ReplicaFetcherThread)",
        f"INFO [UnifiedLog partition=a-0, dir=/d] Truncating to offset {to} (kafka.log.UnifiedLog)",
    ]
    (folder / "server.log").write_text("".join(f"[2026-11-21 03:00:0{k},000] {x}\n" for k, x in enumerate(lines)))
    return folder


@pytest.mark.parametrize("files", [["server.log"], ["server.log", "state-change.log"]])
def test_the_old_leaders_own_log_shows_what_was_lost(files: list[str], tmp_path: Path) -> None:
    """Cases 02c and 22."""
    folder = unpack("01-stock41", tmp_path) / "broker-1"
    assert lost(facts_of(*(folder / name for name in files))) == INVOICES


def test_with_all_logs_a_loss_is_told_once(tmp_path: Path) -> None:
    found = facts_of(unpack("01-stock41", tmp_path))
    assert lost(found) == {"invoices-0": (120, 300), "invoices-1": (120, 300)}
    assert not [row for row in rows(found) if row["class"] == "hw_moved_back"]


def test_the_end_that_was_answered_counts_and_not_the_cut(tmp_path: Path) -> None:
    """A compacted leader lacks epochs of which the replica has records: it is cut lower than the leader's end."""
    assert lost(facts_of(log(tmp_path, hw=230, end=200, to=120))) == {"a-0": (200, 230)}


@pytest.mark.parametrize(
    "about",
    [{"hw": 230, "end": 230, "to": 120}, {"hw": 0, "end": 0, "to": 0}, {"hw": 230, "end": 1, "to": 1, "loaded": False}],
)
def test_a_cut_below_no_known_hw_is_no_loss(about: dict[str, Any], tmp_path: Path) -> None:
    assert lost(facts_of(log(tmp_path, **about))) == {}


def test_a_loss_by_an_answered_end_does_not_depend_on_the_cuts(tmp_path: Path) -> None:
    events = read_logs([unpack("01-stock41", tmp_path) / "broker-1"], "c")
    whole = rows(replay(events, Rules()))
    one = Reconstructor(Rules())
    parts = [one.update(events.slice(k, 7)) for k in range(0, events.num_rows, 7)] + [one.finish()]
    key = ("topic", "partition", "class", "lost_from", "lost_to", "ts")
    told = [row for facts in parts for row in rows(facts)]
    assert {tuple(row[k] for k in key) for row in told if row["severity"] == "critical"} == {
        tuple(row[k] for k in key) for row in whole if row["severity"] == "critical"
    }
