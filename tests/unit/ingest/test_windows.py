"""Windows and copies of one log under names that people gave them are read as one log, each line once."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from generators.brokerlogs.ingest import ReadOptions, ingest_logs, read_logs
from generators.brokerlogs.tailing import windows
from generators.brokerlogs.tailing.session import TailerFactory
from generators.brokerlogs.tailing.tailer import Tailer
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


def test_a_log_that_told_nothing_yet_is_no_other_log_than_its_copy(tmp_path: Path) -> None:
    """Its name was known, and none of its lines: what the copy had told was told again, by another source."""
    quiet = "Transitioning 1 partition(s) to local leaders. (state.change.logger)"
    lines = [f"[2026-10-25 00:59:59,000] INFO [Broker id=1] {quiet}\n", *LINES]
    first, second = write(tmp_path / "broker-1", a=lines[:1], b=lines)
    (first.parent / "server.properties").unlink()
    assert told_hws(tmp_path, [[first], [second]]) == [*range(110, 401, 10)]
    first.write_text("".join(lines[:40]))
    assert told_hws(tmp_path, [[first.parent]]) == [*range(110, 401, 10)]


def test_a_copy_is_no_other_log(tmp_path: Path) -> None:
    files = write(tmp_path / "broker-1", replication=LINES, copy=LINES)
    assert told_hws(tmp_path, [[files[0].parent]]) == [*range(110, 401, 10)]


@pytest.mark.parametrize(("first", "second"), [("server.log", "kafkaServer.out"), ("kafkaServer.out", "server.log")])
@pytest.mark.parametrize("there", ["broker-1", "saved"])
def test_a_copy_under_another_of_kafkas_names_in_another_call_is_no_other_log(
    first: str, second: str, there: str, tmp_path: Path
) -> None:
    """It was told again, as another source, without a word."""
    for folder in ("broker-1", there):
        write(tmp_path / folder)
    (log := tmp_path / "broker-1" / first).write_text("".join(LINES[:40]))
    told_hws(tmp_path, [[log]])
    (copy := tmp_path / there / second).write_text("".join(LINES[:40]))
    told_hws(tmp_path, [[copy], [log], [copy]])
    for path in (copy, log):
        path.write_text("".join(LINES))
        assert told_hws(tmp_path, [[copy], [copy.parent]]) == [*range(110, 401, 10)]


@pytest.mark.parametrize(
    ("rotated", "restored"),
    [("server.log.1", "server.log.2025-01-01"), ("server.log.2026-11-20-10", "server-2026-12-01.log")],
)
def test_a_file_restored_under_another_dated_name_is_nothing_new(rotated: str, restored: str, tmp_path: Path) -> None:
    (log,) = write(tmp_path / "broker-1", server=LINES[:30])
    told_hws(tmp_path, [[log]])
    log.rename(log.with_name(rotated))
    log.write_text("".join(LINES[30:]))
    told_hws(tmp_path, [[log.parent]])
    for folder in (log.parent, tmp_path / "restored"):
        write(folder)
        (folder / restored).write_text("".join(LINES[:30]))
        assert told_hws(tmp_path, [[folder / restored], [log.parent]]) == [*range(110, 401, 10)]


@pytest.mark.parametrize("name", ["a", "server"])
def test_a_whole_log_of_which_the_end_was_told_has_one_source_of_older_lines(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end was seen again and again, and each time it had older lines: a call never ended."""
    made = list[object]()
    older_tailers = TailerFactory.older_tailers

    def count(self: TailerFactory, tailer: Tailer) -> list[Tailer]:
        made.extend(found := older_tailers(self, tailer))
        assert len(made) < 3
        return found

    monkeypatch.setattr(TailerFactory, "older_tailers", count)
    (end,) = write(tmp_path / "broker-1", a=LINES[-12:])
    ingest_logs([end], cluster="c", lake=str(tmp_path / "lake"))
    (whole,) = write(tmp_path / "broker-1", **{name: LINES})
    assert told_hws(tmp_path, [[whole], [whole]]) == [*range(110, 401, 10)]
    assert len(made) == 1


def test_a_window_that_begins_within_a_line_is_one_of_its_log(tmp_path: Path) -> None:
    write(tmp_path / "broker-1", a=LINES[:30], b=[LINES[20][9:], *LINES[21:]])
    rows = read_logs([tmp_path], "c").to_pylist()
    assert [row["hw"] for row in rows if row["event_type"] == "hw"] == [*range(110, 401, 10)]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("{")], ids=["gone", "damaged"])
def test_a_copy_is_no_other_log_where_the_names_of_sources_are(
    damage: Callable[[Path], object], tmp_path: Path
) -> None:
    """It was told again, as another source, without a word."""
    log, copy = write(tmp_path / "broker-1", server=LINES, copy=LINES)
    told_hws(tmp_path, [[log]])
    (names,) = (tmp_path / "lake" / "_ingest").rglob("names.json")
    damage(names)
    assert ingest_logs([copy], cluster="c", lake=str(tmp_path / "lake")).problems == [
        "_ingest/c/names.json: damaged or missing, logs are known by their lines",
        "broker-1/copy.log: read as one log with broker-1/server.log, which has the same lines",
    ]
    assert told_hws(tmp_path, [[log], [copy]]) == [*range(110, 401, 10)]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"server": LINES[:30], "controller": LINES[20:]}, id="both are Kafka's"),
        pytest.param({"a": LINES[:30], "b": LINES[29:]}, id="one line in common"),
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


SPLITS = pytest.mark.parametrize(
    "split",
    [
        pytest.param(["01"], id="one call"),
        pytest.param(["10"], id="one call, the later one first"),
        pytest.param(["0", "1"], id="calls"),
        pytest.param(["1", "0"], id="later ones first"),
        pytest.param(["0", "01"], id="one, both"),
        pytest.param(["1", "01"], id="the later one, both"),
        pytest.param(["1", "0", "01", "10"], id="again and again"),
    ],
)


@SPLITS
@pytest.mark.parametrize(
    "names", [("mon/kafka-0", "tue/kafka-0"), ("mon/server", "tue/server"), ("a", "b"), ("b", "a")]
)
def test_a_hole_between_windows_is_told_however_calls_are_split(
    names: tuple[str, str], split: list[str], tmp_path: Path
) -> None:
    rows = told_rows(tmp_path, dict(zip(names, (LINES[:20], LINES[30:]), strict=True)), split)
    assert sorted(row["hw"] for row in rows if row["event_type"] == "hw") == [
        *range(110, 191, 10),
        *range(250, 401, 10),
    ]
    assert Counter(row["event_type"] for row in rows)["lost"] == 1


def told_rows(folder: Path, files: dict[str, list[str]], split: list[str]) -> list[dict]:
    """The rows in the lake after calls, each with the files of these numbers."""
    for name, lines in files.items():
        path = folder / "broker-1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path.parent, **{path.name: lines})
    for call in split:
        paths = [folder / "broker-1" / f"{[*files][int(k)]}.log" for k in call]
        ingest_logs(paths, cluster="c", lake=str(folder / "lake"))
    return read_events(str(folder / "lake")).to_pylist()


def test_parts_of_a_log_in_several_folders_are_read_folder_by_folder(tmp_path: Path) -> None:
    parts = {"mon": (LINES[:10], LINES[10:20]), "tue": (LINES[30:40], LINES[40:])}
    write(tmp_path / "broker-1")
    for day, (rotated, live) in parts.items():
        write(tmp_path / "broker-1" / day, server=live)
        (tmp_path / "broker-1" / day / "server.log.1").write_text("".join(rotated))
    ingest_logs([tmp_path / "broker-1"], cluster="c", lake=str(tmp_path / "lake"))
    rows = sorted(read_events(str(tmp_path / "lake")).to_pylist(), key=lambda row: row["source_seq"])
    kinds = [row["hw"] or row["event_type"] for row in rows if row["event_type"] in ("hw", "lost")]
    assert kinds == [*range(110, 191, 10), "lost", *range(250, 401, 10)]


@pytest.mark.parametrize("name", ["x/server", "x/kafka-0"])
def test_an_excerpt_of_what_was_told_is_nothing_new(name: str, tmp_path: Path) -> None:
    """It was taken for another log, and what followed it for lost."""
    files = {f"log/{Path(name).name}": LINES[:40], name: LINES[10:20], f"later/{Path(name).name}": LINES}
    rows = told_rows(tmp_path, files, ["0", "1", "1", "2"])
    assert sorted(row["hw"] for row in rows if row["event_type"] == "hw") == [*range(110, 401, 10)]
    assert {row["source_epoch"] for row in rows} == {0}
    assert "lost" not in {row["event_type"] for row in rows}


def test_a_log_overwritten_by_an_excerpt_of_itself_is_nothing_new(tmp_path: Path) -> None:
    (path,) = write(tmp_path / "broker-1", kafka=LINES[:40])
    ingest_logs([path], cluster="c", lake=str(tmp_path / "lake"))
    path.write_text("".join(LINES[10:20]))
    ingest_logs([path], cluster="c", lake=str(tmp_path / "lake"))
    path.write_text("".join(LINES[10:]))
    assert told_hws(tmp_path, [[path]]) == [*range(110, 401, 10)]


@pytest.mark.parametrize("order", ["012", "021", "102", "120", "201", "210"])
def test_a_window_that_joins_two_others_is_told_once(order: str, tmp_path: Path) -> None:
    """It was compared with the first of them only."""
    files = {"a": LINES[:20], "b": LINES[14:45], "c": LINES[40:60]}
    rows = told_rows(tmp_path, files, [*order, "012", "1", "2"])
    assert sorted(row["hw"] for row in rows if row["event_type"] == "hw") == [*range(110, 391, 10)]
    again = {"d": LINES[40:]}
    rows = told_rows(tmp_path, again, ["0", "0"])
    assert sorted(row["hw"] for row in rows if row["event_type"] == "hw") == [*range(110, 401, 10)]


@pytest.mark.parametrize(
    ("order", "sources"), [("3210", 1), ("0321", 2), ("2031", 2), ("1032", 2), ("0123", 4), ("0213", 3)]
)
def test_rotated_files_given_one_by_one_are_told_once_in_any_order(order: str, sources: int, tmp_path: Path) -> None:
    """Each was a new source_epoch behind a `lost` row, though the folder shows their order."""
    folder = tmp_path / "broker-1"
    write(folder)
    for k in range(4):
        text = "".join(LINES[(3 - k) * 15 : (4 - k) * 15 if k else None])
        (folder / (f"server.log.{k}" if k else "server.log")).write_text(text)
    for k in order:
        path = folder / (f"server.log.{k}" if k != "0" else "server.log")
        ingest_logs([path], cluster="c", lake=str(tmp_path / "lake"))
    rows = read_events(str(tmp_path / "lake")).to_pylist()
    assert sorted(row["hw"] for row in rows if row["event_type"] == "hw") == [*range(110, 401, 10)]
    assert "lost" not in {row["event_type"] for row in rows}
    assert ({row["source_epoch"] for row in rows}, len({row["source_id"] for row in rows})) == ({0}, sources)
