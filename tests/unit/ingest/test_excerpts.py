"""Single lines of a log, as `grep` gives them, are told once, or it is told that they are told again."""

from collections import Counter
from pathlib import Path

import pytest

from generators.brokerlogs.ingest import ReadOptions, ingest_logs, read_logs
from generators.brokerlogs.tailing.read_position import PositionLost
from pipelines.lake.bronze import read_events
from pipelines.replication import Rules, replay
from tests.unit.ingest.reading import read_with_older, reader_of
from tests.unit.ingest.test_seams import advances, leads
from tests.unit.ingest.test_windows import write

LINES = (leads("01:00:00", 5, 100) + advances("01:00:00", 100, 400)).splitlines(keepends=True)
THIRD = LINES[::3]
RUNS = [line for k, line in enumerate(LINES) if k % 5]


@pytest.mark.parametrize("calls", ["EW", "WE", "B", "EB", "EWEW"])
@pytest.mark.parametrize("excerpt", [THIRD, RUNS, LINES[20:21]], ids=["third lines", "lines in runs", "one line"])
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("server.log.grep", "server.log"), id="beside the log"),
        pytest.param(("x/k.log", "k.log"), id="in another folder"),
        pytest.param(("g.log", "server.log"), id="under another name"),
    ],
)
def test_an_excerpt_is_told_once_or_as_told_again(
    names: tuple[str, str], excerpt: list[str], calls: str, tmp_path: Path
) -> None:
    """Its lines were told twice without a word, a loss was proven by them, or the lines between them were left out."""
    folder, lake = tmp_path / "broker-1", str(tmp_path / "lake")
    for name, lines in zip(names, (excerpt, LINES), strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write((folder / name).parent)
        (folder / name).write_text("".join(lines))
    for call in calls:
        paths = {"E": [folder / names[0]], "W": [folder / names[1]], "B": [folder]}[call]
        ingest_logs(paths, cluster="c", lake=lake)
    events = read_events(lake)
    hws = Counter(row["hw"] for row in events.to_pylist() if row["event_type"] == "hw")
    assert {*hws} == {*range(110, 401, 10)}
    assert "lost" in events["event_type"].to_pylist() or max(hws.values()) == 1
    assert "critical" not in replay(events, Rules()).hw_regressions["severity"].to_pylist()


def test_a_log_without_a_line_of_its_own_is_left_out_and_that_is_said(tmp_path: Path) -> None:
    """The HWs of the other one were left out, as if both had the same."""
    files = write(tmp_path / "broker-1", a=LINES, b=[*LINES[:10], *LINES[20:]])
    summary = ingest_logs(files, cluster="c", lake=str(tmp_path / "lake"))
    said = "broker-1/b.log: an excerpt of broker-1/a.log, which has all of its lines, left out"
    assert summary.problems == [said]
    assert {*read_logs(files, "c")["source_id"].to_pylist()} == {"broker-1/a.log"}


def test_an_excerpt_that_grows_with_its_log_stays_left_out(tmp_path: Path) -> None:
    (excerpt,) = write(tmp_path / "broker-1", g=THIRD[:5])
    for count in (20, 40, 60):
        (whole,) = write(tmp_path / "broker-1", k=LINES[:count])
        for path in (excerpt, whole, excerpt):
            ingest_logs([path], cluster="c", lake=str(tmp_path / "lake"))
        excerpt.write_text("".join(LINES[:count:3]))
    rows = read_events(str(tmp_path / "lake")).to_pylist()
    told = {row["source_id"]: row["ts"] for row in rows if row["event_type"] == "hw"}
    assert told["broker-1/g.log"] < told["broker-1/k.log"]


def test_older_lines_may_have_later_times_than_those_after_them(tmp_path: Path) -> None:
    """Each source waited for the time of the other, and a call never ended."""
    lake, later = str(tmp_path / "lake"), advances("03:00:00", 100, 200)
    (live,) = write(tmp_path / "broker-1", replication=[advances("01:00:00", 200, 300)])
    ingest_logs([live], cluster="c", lake=lake)
    live.with_name("replication.log.1").write_text(later)
    ingest_logs([live.parent], cluster="c", lake=lake, options=ReadOptions())
    rows = read_events(lake).to_pylist()
    assert Counter(row["ts"].hour for row in rows if row["event_type"] == "hw") == {1: 10, 3: 10}


@pytest.mark.parametrize("limit", [200, 1 << 16])
def test_sorted_lines_of_a_log_are_nothing_new(limit: int, tmp_path: Path) -> None:
    log = [b"%d|t|INFO|a.Logger|line %d\n" % (1_700_000_000_000 + k, k) for k in range(100)]
    (tmp_path / "rep.log").write_bytes(b"".join(log))
    reader = reader_of(tmp_path)
    assert read_with_older(reader, limit) == [b"".join(log)]
    (tmp_path / "rep.log.sorted").write_bytes(b"".join(sorted(log, key=lambda line: line[::-1])))
    assert read_with_older(reader, limit) == [b""]


FAILED = (
    "java.io.IOException: Connection to 127.0.0.1:22215 (id: 1 rack: null isFenced: false) failed.\n"
    "\tat org.apache.kafka.clients.NetworkClientUtils.awaitReady(NetworkClientUtils.java:71)\n"
)


@pytest.mark.parametrize("prefix", ["", "kafka-1  | "])
@pytest.mark.parametrize("every", [1, 2, 3, 4])
def test_exceptions_that_are_equal_are_no_lines_told_before(tmp_path: Path, every: int, prefix: str) -> None:
    """After a rotation beside a real Kafka whose broker was killed lines of the live log were told as older ones, late,
    with nine `lost` rows."""
    lake = str(tmp_path / "lake")
    printed = "".join(line + FAILED * (k % every == 0) for k, line in enumerate(LINES))
    enveloped = "".join(prefix + line for line in printed.splitlines(keepends=True))
    lines = [f"{prefix}[2026-{line}" for line in enveloped.split(f"{prefix}[2026-")[1:]]
    (live,) = write(tmp_path / "broker-1", replication=lines[:21])
    ingest_logs([live.parent], cluster="c", lake=lake)
    live.rename(live.with_name("replication.log.1"))
    for count in (22, 25, 29, 34, 36):
        live.write_text("".join(lines[21:count]))
        ingest_logs([live.parent], cluster="c", lake=lake)
    rows = read_events(lake).to_pylist()
    assert {(row["source_id"], row["source_epoch"]) for row in rows} == {("broker-1/replication.log", 0)}
    assert "lost" not in {row["event_type"] for row in rows}
    whole = read_logs([tmp_path / "broker-1"], "c").to_pylist()
    hws, expected = ([row["hw"] for row in found if row["event_type"] == "hw"] for found in (rows, whole))
    assert sorted(hws) == sorted(expected)


LOG = [b"%d|t|INFO|a.Logger|line %d\n" % (1_700_000_000_000 + k, k) for k in range(100)]
OTHERS = [b"%d|t|INFO|a.Logger|other %d\n" % (1_700_000_001_000 + k, k) for k in range(20)]


@pytest.mark.parametrize("limit", [200, 1 << 16])
@pytest.mark.parametrize("at", [0, 1, 10, 19])
def test_one_line_that_was_told_is_told_again_by_a_new_epoch_only(at: int, limit: int, tmp_path: Path) -> None:
    """It was told again without a word."""
    (tmp_path / "rep.log").write_bytes(b"".join(LOG))
    reader = reader_of(tmp_path)
    assert read_with_older(reader, limit) == [b"".join(LOG)]
    (tmp_path / "rep.log").rename(tmp_path / "rep.log.1")
    (tmp_path / "rep.log").write_bytes(b"".join([*OTHERS[:at], LOG[50], *OTHERS[at:]]))
    try:
        told = read_with_older(reader, limit)[0]
    except PositionLost:
        return
    assert told == b"".join(OTHERS)


@pytest.mark.parametrize("limit", [200, 1 << 16])
@pytest.mark.parametrize("before", [b"AB", b"ABC", b"AA", b"ABAB", b"ABCAB"])
def test_lines_that_a_busy_broker_prints_twice_in_a_moment_are_no_repeat(
    before: bytes, limit: int, tmp_path: Path
) -> None:
    """A rotation may come between them; the new file was told as an older one, or as another log."""
    moment = [b"1700000000100|t|INFO|a.Logger|%c\n" % name for name in before]
    (tmp_path / "rep.log").write_bytes(b"".join([*LOG, *moment]))
    reader = reader_of(tmp_path)
    assert read_with_older(reader, limit) == [b"".join([*LOG, *moment])]
    (tmp_path / "rep.log").rename(tmp_path / "rep.log.1")
    (tmp_path / "rep.log").write_bytes(b"".join([*moment[:2], *OTHERS]))
    assert read_with_older(reader, limit) == [b"".join(OTHERS)]


def test_a_lone_carriage_return_ends_no_line_where_first_lines_are_told_once(tmp_path: Path) -> None:
    """As many lines behind them as there were carriage returns were lost."""
    moment = [b"1700000000100|t|INFO|a.Logger|%c\n" % name for name in b"ABC"]
    (tmp_path / "rep.log").write_bytes(b"".join([*LOG, *moment]))
    reader = reader_of(tmp_path)
    assert read_with_older(reader, 1 << 16) == [b"".join([*LOG, *moment])]
    (tmp_path / "rep.log").rename(tmp_path / "rep.log.1")
    others = [line.replace(b"other", b"10 %\r20 %\rother") for line in OTHERS]
    (tmp_path / "rep.log").write_bytes(b"".join([*moment[:2], *others]))
    assert read_with_older(reader, 1 << 16) == [b"".join(others)]


@pytest.mark.parametrize("name", ["g", "z"])
def test_an_excerpt_that_is_ahead_of_its_log_hides_no_line_of_it(name: str, tmp_path: Path) -> None:
    """HWs between its lines were never told, and its lines twice without a word."""
    log, excerpt = write(tmp_path / "broker-1", **{"replication": LINES[:30], name: THIRD})
    for path in (log, excerpt, log):
        ingest_logs([path], cluster="c", lake=str(tmp_path / "lake"))
        log.write_text("".join(LINES))
    ingest_logs([log.parent], cluster="c", lake=str(tmp_path / "lake"))
    rows = read_events(str(tmp_path / "lake")).to_pylist()
    assert {row["hw"] for row in rows if row["event_type"] == "hw"} == {*range(110, 401, 10)}
    assert [(row["source_id"], row["detail"]) for row in rows if row["event_type"] == "lost"] == [
        (
            f"broker-1/{name}.log",
            "an unknown number of lines: broker-1/replication.log has lines of this log, they are told again",
        )
    ]
