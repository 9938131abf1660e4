"""HWs, fetches, appends and LEOs of a broker come from one of its files, whatever order and pieces they are read in."""

import gzip
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.brokerlogs.ingest import ingest_logs, read_logs
from generators.brokerlogs.tailing import chosen_files
from pipelines.lake.bronze import read_events
from tests.unit.brokerlogs.log_lines import LOG, PARTITION, T0, advanced, leader, line, partition, recorded, skipped
from tests.unit.ingest.comparing import numbers_without_holes, reported

pytestmark = pytest.mark.long

FROM_ONE_FILE = ("append", "fetch", "hw", "replica_leo")
SHRINK = partition(
    "Shrinking ISR from 1,2,3 to 1,2. Leader: (highWatermark: {}, endOffset: {}). Out of sync replicas: "
    "(brokerId: 3, endOffset: {}, lastCaughtUpTimeMs: 1795224366014)."
)
RECORDINGS = Path(__file__).parents[2] / "kafka" / "recordings"


def shrink(ms: int, hw: int = 4) -> str:
    return line(SHRINK.format(hw, hw + 2, hw), PARTITION, ms=ms)


def stock(*lines: str) -> str:
    """The same lines in the pattern that names no thread."""
    printed = []
    for one in lines:
        stamp, _, level, logger, message = one.rstrip("\n").split("|", 4)
        at = int(stamp) - T0 + 1_795_224_426_000
        seconds, ms = divmod(at, 1000)
        hour, rest = divmod(seconds % 86_400, 3600)
        printed.append(
            f"[2026-11-21 {hour:02d}:{rest // 60:02d}:{rest % 60:02d},{ms:03d}] {level} {message} ({logger})\n"
        )
    return "".join(printed)


def numbered(*lines: str) -> str:
    """The same lines with %sn."""
    heads = [one.split("|", 4) for one in lines]
    return "".join("|".join([*head[:4], str(k + 1), head[4]]) for k, head in enumerate(heads))


def cluster(folder: Path, **files: str) -> Path:
    broker = folder / "broker-1"
    broker.mkdir(parents=True, exist_ok=True)
    (broker / "server.properties").write_text("node.id=1\n")
    for name, content in files.items():
        (broker / f"{name.replace('_', '-')}.log").write_text(content)
    return folder


def counts_by_file(events: pa.Table) -> Counter:
    rows = events.to_pylist()
    return Counter(
        (row["source_id"].partition("/")[2], row["event_type"]) for row in rows if row["event_type"] in FROM_ONE_FILE
    )


LEAN = [leader(), skipped({2: 4, 3: 4, 1: 5}, ms=10), advanced(0, 4, ms=20), shrink(30), advanced(4, 6, ms=40)]


def test_offsets_of_a_shrink_that_the_server_log_repeats_count_once(tmp_path: Path) -> None:
    logs = cluster(tmp_path, replication=numbered(*LEAN), server=stock(LEAN[0], LEAN[3]))
    alone = cluster(tmp_path / "alone", replication=numbered(*LEAN))
    assert counts_by_file(read_logs([logs / "broker-1"], "c")) == counts_by_file(read_logs([alone], "c"))
    kinds = Counter(row["event_type"] for row in reported(read_logs([logs / "broker-1"], "c")))
    assert (kinds["leader"], kinds["isr_proposed"]) == (2, 2), "what is one happening in two files stays two rows"


def test_without_other_files_they_come_from_the_server_log(tmp_path: Path) -> None:
    found = counts_by_file(read_logs([cluster(tmp_path, server=stock(LEAN[0], LEAN[3]))], "c"))
    assert found == {("server.log", "append"): 1, ("server.log", "replica_leo"): 1, ("server.log", "hw"): 1}


@pytest.mark.parametrize(
    ("files", "speaks"),
    [
        pytest.param({"aaa": stock(*LEAN), "bbb": numbered(*LEAN)}, "bbb", id="numbers before the stock pattern"),
        pytest.param({"aaa": "".join(LEAN), "bbb": numbered(*LEAN)}, "bbb", id="numbers before threads"),
        pytest.param({"aaa": stock(*LEAN), "bbb": "".join(LEAN)}, "bbb", id="threads before the stock pattern"),
        pytest.param({"aaa": "".join(LEAN), "bbb": "".join(LEAN)}, "aaa", id="of two alike the first by name"),
        pytest.param(
            {"aaa": stock(*LEAN[:2], *LEAN[3:]), "bbb": stock(*LEAN, recorded(2, 6, ms=50))},
            "bbb",
            id="of two alike the one with fetches",
        ),
        pytest.param(
            {"aaa": numbered(LEAN[0], LEAN[3]), "bbb": stock(*LEAN)}, "bbb", id="a file without HW lines does not count"
        ),
    ],
)
def test_the_file_that_is_read(tmp_path: Path, files: dict[str, str], speaks: str) -> None:
    found = counts_by_file(read_logs([cluster(tmp_path, **files)], "c"))
    of = {name for name, _ in found}
    assert speaks + ".log" in of
    assert sum(count for (name, kind), count in found.items() if kind == "hw" and name != speaks + ".log") <= 1


def test_before_the_better_file_has_such_a_line_they_come_from_the_other_one(tmp_path: Path) -> None:
    """Logging was switched on in between."""
    early, late = shrink(30), [advanced(0, 4, ms=60_000), shrink(60_010), advanced(4, 6, ms=60_020)]
    logs = cluster(tmp_path, server=stock(leader(), early, late[1]), replication=numbered(*late))
    rows = [row for row in reported(read_logs([logs], "c")) if row["event_type"] in FROM_ONE_FILE]
    of_server = [row["ts"].timestamp() * 1000 - T0 for row in rows if row["source_id"].endswith("server.log")]
    assert of_server == [30, 30, 30]


def test_files_of_another_broker_count_too(tmp_path: Path) -> None:
    cluster(tmp_path / "a", replication=numbered(*LEAN))
    cluster(tmp_path / "b", server=stock(LEAN[0], LEAN[3]))
    (tmp_path / "b" / "broker-1" / "server.properties").write_text("node.id=2\n")
    found = counts_by_file(read_logs([tmp_path / "a" / "broker-1", tmp_path / "b" / "broker-1"], "c"))
    assert found["server.log", "append"] == 1


def test_files_of_one_broker_in_two_folders_count_once(tmp_path: Path) -> None:
    logs = cluster(tmp_path, replication="".join(LEAN))
    beside = cluster(tmp_path / "beside", server="".join(LEAN))
    told = counts_by_file(read_logs([logs / "broker-1", beside / "broker-1"], "c"))
    assert told == counts_by_file(read_logs([logs / "broker-1"], "c"))


def test_followers_and_leaders_may_have_files_of_their_own(tmp_path: Path) -> None:
    received = (
        "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Follower received high watermark 100 from the leader "
        "and updated replica high watermark to 99 for partition orders-7"
    )
    fetcher = line(received, "kafka.server.ReplicaFetcherThread", ms=5)
    logs = cluster(tmp_path, fetcher=fetcher, replication=numbered(*LEAN))
    assert counts_by_file(read_logs([logs], "c"))["fetcher.log", "hw"] == 1


@pytest.mark.parametrize("chunk", [300, 1 << 20])
def test_pieces_and_restarts_change_nothing(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generators.brokerlogs.tailing.session.CHUNK", chunk)
    lean = [leader(), *(advanced(n, n + 1, ms=100 * n) for n in range(60))]
    shrinks = [shrink(100 * n + 50, hw=n) for n in range(0, 60, 7)]
    both = sorted(lean + shrinks, key=lambda one: int(one[:13]))
    whole = cluster(tmp_path / "whole", server=stock(*shrinks), replication=numbered(*both))
    expected = counts_by_file(read_logs([whole], "c"))
    assert not any(name == "server.log" for name, _ in expected)
    lake, parts = str(tmp_path / "lake"), tmp_path / "parts"
    for upto in (20, 41, 70):
        some = both[:upto]
        cluster(parts, server=stock(*(one for one in shrinks if one in some)), replication=numbered(*some))
        ingest_logs([parts], cluster="c", lake=lake)
    events = read_events(lake)
    assert counts_by_file(events) == expected
    assert numbers_without_holes(events)


def test_the_summary_names_the_file_they_are_read_from(tmp_path: Path) -> None:
    logs = cluster(tmp_path / "logs", replication=numbered(*LEAN), server=stock(LEAN[0], LEAN[3]))
    summary = ingest_logs([logs], cluster="c", lake=str(tmp_path / "lake"))
    assert "broker-1/server.log: HWs, fetches and appends are read from broker-1/replication.log" in str(summary)


def test_a_recorded_cluster_with_stock_files_beside_ours(tmp_path: Path) -> None:
    events = read_logs([RECORDINGS / "lean_live"], "c")
    assert {name for name, _ in counts_by_file(events)} == {"replication.log"}
    for broker in (1, 2, 3):
        folder = tmp_path / f"b{broker}"
        folder.mkdir()
        packed = RECORDINGS / "lean_live" / f"b{broker}" / "replication.log.gz"
        (folder / "replication.log").write_bytes(gzip.decompress(packed.read_bytes()))
    mine = events.filter(pc.match_substring(events["source_id"], "replication.log"))
    assert counts_by_file(read_logs([tmp_path], "c")) == counts_by_file(mine)


def test_a_file_that_stopped_long_before_suppresses_nothing(tmp_path: Path) -> None:
    hours = 2 * 3_600_000
    logs = cluster(tmp_path, replication=numbered(*LEAN), server=stock(LEAN[0], LEAN[3], shrink(hours, hw=9)))
    told = counts_by_file(read_logs([logs], "c"))
    assert told["server.log", "hw"] == 1
    alone = cluster(tmp_path / "alone", replication=numbered(*LEAN))
    assert told["replication.log", "hw"] == counts_by_file(read_logs([alone], "c"))["replication.log", "hw"]


def test_windows_of_one_log_under_two_names_lose_no_row(tmp_path: Path) -> None:
    lean = [leader(), *(advanced(n, n + 1, ms=1000 * n) for n in range(1, 60))]
    whole = cluster(tmp_path / "whole", replication="".join(lean))
    both = cluster(tmp_path / "both", w1="".join(lean[:40]), w2="".join(lean[30:]))

    def hws(logs: Path) -> set[int]:
        return {row["hw"] for row in read_logs([logs], "c").to_pylist() if row["event_type"] == "hw"}

    assert hws(both) == hws(whole)


def test_older_lines_that_another_file_repeats_count_once(tmp_path: Path) -> None:
    lean = [leader(), *(advanced(n, n + 1, ms=1000 * n) for n in range(1, 60))]
    logs, lake = cluster(tmp_path, replication="".join(lean[40:])), str(tmp_path / "lake")
    ingest_logs([logs], cluster="c", lake=lake)
    (logs / "broker-1/replication.log.1").write_text("".join(lean[:40]))
    cluster(tmp_path, server="".join(lean[:40]))
    ingest_logs([logs], cluster="c", lake=lake)
    told = [row["hw"] for row in read_events(lake).to_pylist() if row["event_type"] == "hw"]
    assert sorted(told) == list(range(2, 61))


def test_what_a_file_told_before_another_was_given_counts_once(tmp_path: Path) -> None:
    """The other one, whose name is smaller, told all HWs again."""
    lines, lake = [leader(), *(advanced(n, n + 1, ms=100 * n) for n in range(60))], str(tmp_path / "lake")
    logs = cluster(tmp_path / "logs", server="".join(lines[:20]), controller="".join(lines[:20]))
    ingest_logs([logs / "broker-1" / "server.log"], cluster="c", lake=lake)
    for upto in (30, 61):
        cluster(logs, server="".join(lines[:upto]), controller="".join(lines[:upto]))
        ingest_logs([logs], cluster="c", lake=lake)
    assert counts_by_file(read_events(lake)) == {("server.log", "hw"): 19, ("controller.log", "hw"): 41}


@pytest.mark.parametrize(
    "moves",
    [
        pytest.param([(20, 3), (60_000, 7)], id="printing is switched off"),
        pytest.param([(600_000, 3), (60_000, 7)], id="and the clock set back by nine minutes"),
        pytest.param([(20, 3), (20, 7)], id="within the moment that the better file ends with"),
    ],
)
def test_what_the_better_file_does_not_print_comes_from_the_other_one(moves: list[tuple[int, int]], tmp_path: Path):
    """For ten minutes after its last row the HWs of `server.log` were told by none."""
    (at, hw), (later, unprinted) = moves
    better = numbered(leader(), advanced(0, 1, ms=10), advanced(1, hw, ms=at))
    logs = cluster(tmp_path, replication=better, server=stock(leader(), shrink(at, hw=hw), shrink(later, unprinted)))
    told = [(row["source_id"][9:], row["hw"]) for row in reported(read_logs([logs], "c")) if row["event_type"] == "hw"]
    assert told == [("replication.log", 1), ("replication.log", hw), ("server.log", unprinted)]


@pytest.mark.parametrize("chunk", [300, 1 << 20])
def test_hws_between_which_the_clock_was_set_back_come_from_one_file(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two logs alike was taken for the one that had ended; their HWs were told twice, or by none."""
    for name in ("CHUNK", "LEAST_CHUNK"):
        monkeypatch.setattr(f"generators.brokerlogs.tailing.session.{name}", chunk)
    times = [*range(0, 4_000_000, 400_000), *range(1, 1_000_000, 300_000), 0, 3_999_999]
    lean = [leader(), *(advanced(n, n + 1, ms=at) for n, at in enumerate(times))]
    logs = cluster(tmp_path, server="".join(lean), controller="".join(lean[:9] + lean[12:]))
    told = [row["hw"] for row in reported(read_logs([logs], "c")) if row["event_type"] == "hw"]
    assert sorted(told) == list(range(1, len(times) + 1))


def test_the_hw_of_a_shrink_that_was_told_before_the_better_file_was_given_counts_once(tmp_path: Path) -> None:
    logs, lake = cluster(tmp_path, server=stock(shrink(30)), replication=numbered(shrink(30))), str(tmp_path / "lake")
    for path in (logs / "broker-1/server.log", logs):
        ingest_logs([path], cluster="c", lake=lake)
    assert counts_by_file(read_events(lake))["server.log", "hw"] == 1
    assert counts_by_file(read_events(lake))["replication.log", "hw"] == 0


FALL = "[UnifiedLog partition=orders-2, dir=/d] Non-monotonic update of high watermark from (offset=9) to (offset=7)"
RISING = [leader(), *(advanced(n, n + 1, ms=100 * n) for n in range(20))]


@pytest.mark.parametrize(
    ("first", "replication", "server", "expected"),
    [
        ("replication", [*RISING[:6], *RISING[16:]], [shrink(1000, hw=10)], {"server": [10]}),
        ("replication", RISING, [line(FALL, LOG, ms=1000)], {"server": [7]}),
        ("server", RISING, [shrink(50, hw=1), shrink(1950, hw=20)], {"replication": [*range(1, 21)]}),
    ],
    ids=["a shrink", "a fall", "all of a finer log"],
)
def test_what_an_earlier_call_told_hides_no_hw_that_it_may_not_have_told(
    first: str, replication: list[str], server: list[str], expected: dict, tmp_path: Path, monkeypatch
) -> None:
    """Its rows were no longer known one by one, and HWs between their times were told by none."""
    monkeypatch.setattr(chosen_files, "STORED", 2)
    logs = cluster(tmp_path, replication=numbered(*replication), server=stock(leader(), *server))
    for path in (logs / f"broker-1/{first}.log", logs):
        ingest_logs([path], cluster="c", lake=str(tmp_path / "lake"))
    rows = read_events(str(tmp_path / "lake")).to_pylist()
    told = [(row["source_id"][9:-4], row["hw"]) for row in rows if row["event_type"] == "hw"]
    assert {name: [hw for source, hw in told if source == name] for name in expected} == expected


def test_a_copy_that_ends_within_a_moment_hides_none_of_its_hws(tmp_path: Path) -> None:
    lean = [leader(), *(advanced(n, n + 1, ms=n // 3) for n in range(12))]
    logs, lake = cluster(tmp_path, server="".join(lean[:6]), controller="".join(lean[:5])), str(tmp_path / "lake")
    for upto in (6, 13):
        ingest_logs([logs], cluster="c", lake=lake)
        cluster(tmp_path, server="".join(lean[:upto]), controller="".join(lean[:8]))
    ingest_logs([logs], cluster="c", lake=lake)
    told = [row["hw"] for row in read_events(lake).to_pylist() if row["event_type"] == "hw"]
    assert sorted(told) == list(range(1, 13))
