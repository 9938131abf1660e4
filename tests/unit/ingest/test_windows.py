"""Windows and copies of one log under names that people gave them are read as one log, each line once."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from generators.brokerlogs.ingest import ReadOptions, ingest_logs, read_logs
from generators.brokerlogs.tailing import windows
from pipelines.lake.bronze import read_events
from tests.unit.ingest.test_seams import advances, leads

LINES = (leads("01:00:00", 5, 100) + advances("01:00:00", 100, 400)).splitlines(keepends=True)
Calls = Callable[[Path], list[list[Path]]]


def write(folder: Path, **files: list[str]) -> list[Path]:
    folder.mkdir(exist_ok=True)
    (folder / "server.properties").write_text("node.id=1\nmin.insync.replicas=2\n")
    for name, lines in files.items():
        (folder / f"{name}.log").write_text("".join(lines))
    return [folder / f"{name}.log" for name in files]


def told_hws(folder: Path, calls: list[list[Path]], **options: str) -> list[int]:
    """The HWs in the lake after these calls, each of which adds no line of another log."""
    for paths in calls:
        ingest_logs(paths, cluster="c", lake=str(folder / "lake"), options=ReadOptions(**options))
    rows = read_events(str(folder / "lake")).to_pylist()
    assert not [row["detail"] for row in rows if row["event_type"] in ("lost", "unread")]
    assert len({row["source_id"].partition("+")[0] for row in rows}) == 1
    return sorted(row["hw"] for row in rows if row["event_type"] == "hw")


@pytest.mark.parametrize("names", ["abc", "bca", "cba"])
@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(lambda files: [[files[0].parent]], id="a folder"),
        pytest.param(lambda files: [files], id="files"),
        pytest.param(lambda files: [[file] for file in files], id="calls"),
        pytest.param(lambda files: [[file] for file in reversed(files)], id="later ones first"),
        pytest.param(lambda files: [files[:2], files[2:], [files[0].parent]], id="some, others, all"),
    ],
)
def test_windows_under_other_names_are_one_log(calls: Calls, names: str, tmp_path: Path) -> None:
    parts = (LINES[:30], LINES[20:45], LINES[40:])
    files = write(tmp_path / "broker-1", **dict(zip(names, parts, strict=True)))
    assert told_hws(tmp_path, calls(files)) == [*range(110, 401, 10)]


def test_windows_are_one_log_under_a_name_that_was_given(tmp_path: Path) -> None:
    first, second = write(tmp_path / "broker-1", a=LINES[:30], b=LINES[20:])
    assert told_hws(tmp_path, [[first], [second], [second]], source="mine") == [*range(110, 401, 10)]


def test_a_window_that_was_empty_at_first_is_one_of_its_log(tmp_path: Path) -> None:
    """The shell makes the file before `kubectl logs` writes into it."""
    first, second = write(tmp_path / "broker-1", a=LINES[:30], b=[])
    ingest_logs([first.parent], cluster="c", lake=str(tmp_path / "lake"))
    second.write_text("".join(LINES[20:]))
    assert told_hws(tmp_path, [[first.parent]]) == [*range(110, 401, 10)]


def test_a_copy_is_no_other_log(tmp_path: Path) -> None:
    files = write(tmp_path / "broker-1", replication=LINES, copy=LINES)
    assert told_hws(tmp_path, [[files[0].parent]]) == [*range(110, 401, 10)]


def test_a_window_that_begins_within_a_line_is_one_of_its_log(tmp_path: Path) -> None:
    write(tmp_path / "broker-1", a=LINES[:30], b=[LINES[20][9:], *LINES[21:]])
    rows = read_logs([tmp_path], "c").to_pylist()
    assert [row["hw"] for row in rows if row["event_type"] == "hw"] == [*range(110, 401, 10)]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"server": LINES[:30], "controller": LINES[20:]}, id="both are Kafka's"),
        pytest.param({"a": LINES[:30], "b": LINES[29:]}, id="one line in common"),
        pytest.param({"a": LINES, "b": [*LINES[:10], *LINES[20:]]}, id="one is what the other prints in part"),
    ],
)
def test_logs_that_are_not_windows_of_one_stay_apart(files: dict[str, list[str]], tmp_path: Path) -> None:
    write(tmp_path / "broker-1", **files)
    sources = Counter(read_logs([tmp_path], "c")["source_id"].to_pylist())
    assert {*sources} == {f"broker-1/{name}.log" for name in files}


def test_a_log_too_large_to_be_a_window_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "LARGEST", 1000)
    write(tmp_path / "broker-1", a=LINES[:30], b=LINES[20:])
    assert len({*read_logs([tmp_path], "c")["source_id"].to_pylist()}) == 2


def test_a_window_tells_nothing_of_the_time_until_the_next_one_begins(tmp_path: Path) -> None:
    """Lines may be missing between them: the end of the later one was taken for that of both."""
    files = write(tmp_path / "broker-1", morning=LINES[:10], evening=LINES[20:])
    ingest_logs(files, cluster="c", lake=str(tmp_path / "lake"))
    rows = read_events(str(tmp_path / "lake")).to_pylist()
    times = {
        name: [row["ts"] for row in rows if row["source_id"].endswith(name)] for name in ("morning.log", "evening.log")
    }
    assert max(times["morning.log"]) < min(times["evening.log"])


def test_logs_of_several_brokers_in_one_folder_are_read_each(tmp_path: Path) -> None:
    """HWs of all but one broker were left out, as if their lines were those of that one."""
    for broker in (1, 2):
        text = "".join(LINES).replace("Broker id=1", f"Broker id={broker}").replace("broker=1", f"broker={broker}")
        (tmp_path / f"b{broker}.log").write_text(text)
    rows = read_logs([tmp_path], "c").to_pylist()
    assert Counter(row["broker_id"] for row in rows if row["event_type"] == "hw") == {1: 30, 2: 30}
