"""What Kafka's tools print, recorded on a real 4.1.1: broker 2 is killed, then 1, and 2 is elected without 80
records of orders-0 that consumers had read."""

import gzip
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from generators.brokerlogs.ingest import ReadOptions, ingest_logs, read_logs
from generators.brokerlogs.printed import Printed
from hwmark import replay
from pipelines.lake.bronze import read_events
from tests.unit.brokerlogs import log_lines
from tests.unit.brokerlogs.log_lines import ID, leader, line, partition
from tests.unit.brokerlogs.test_clients import detection

RECORDED = Path(__file__).parent / "printed"
T0 = datetime.fromtimestamp(log_lines.T0 // 1000, UTC)
LATER = {"healthy": 0, "alone": 120, "elected": 240}


@pytest.fixture
def prints(tmp_path):
    """Copies prints of a step below a line with their time, without it where that is None."""

    def copy(step, *tools, at=T0):
        folder = tmp_path / step
        folder.mkdir()
        for tool in tools:
            file = shutil.copy(RECORDED / f"{step}-{tool}.txt", folder)
            if at is not None:
                moment = datetime.fromtimestamp(at.timestamp() + LATER[step], UTC)
                Path(file).write_text(f"{moment:%Y-%m-%dT%H:%M:%SZ}\n{Path(file).read_text()}")
        return folder

    return copy


def rows(*folders, **options):
    return read_logs(folders, "c", ReadOptions(**options)).to_pylist()


def losses(*folders):
    found = replay(read_logs(folders, "c")).hw_regressions.to_pylist()
    return sorted((row["topic"], row["class"], row["proof"], row["lost_from"], row["lost_to"]) for row in found)


def test_describe_tells_isr_leader_replicas_and_min_isr_as_of_its_time(prints):
    found = rows(prints("elected", "describe"))
    shown = ("event_type", "partition", "leader_id", "isr", "replicas", "min_isr")
    assert [tuple(row[name] for name in shown) for row in found if row["topic"] == "orders"] == [
        ("config", -1, None, None, None, 1),
        ("isr", 0, 2, [2], [1, 2], None),
        ("isr", 1, 3, [3, 2], [2, 3], None),
        ("isr", 2, 3, [3], [3, 1], None),
    ]
    (single,) = [row for row in found if row["topic"] == "single" and row["event_type"] == "isr"]
    assert (single["leader_id"], single["isr"]) == (-1, [])
    assert {row["ts"].timestamp() - T0.timestamp() for row in found} == {240}


def test_offsets_are_hws_of_the_leaders_that_describe_names(prints):
    found = rows(prints("alone", "describe", "offsets"))
    hws = [(r["topic"], r["partition"], r["replica_id"], r["hw"]) for r in found if r["event_type"] == "sample"]
    assert [row for row in hws if row[0] == "orders"] == [
        ("orders", 0, 1, 180),
        ("orders", 1, 3, 180),
        ("orders", 2, 3, 180),
    ]


@pytest.mark.parametrize(
    ("step", "tool", "said"),
    [
        ("healthy", "replication", "quorum: 3 voters, 3 caught up"),
        ("alone", "replication", "quorum: 3 voters, 2 caught up, without 2, none to spare"),
        ("alone", "status", "quorum: 3 voters"),
    ],
)
def test_a_quorum_is_told_in_the_words_of_a_watcher(prints, step, tool, said):
    (row,) = rows(prints(step, tool))
    assert (row["event_type"], row["detail"]) == ("broker_state", said)


def test_the_active_controllers_clock_says_when_a_quorum_was_printed(prints):
    (row,) = rows(prints("healthy", "replication", at=None))
    assert row["ts"].date().isoformat() == "2026-11-28"


def test_a_print_that_does_not_say_when_is_left_out_and_said(prints, tmp_path):
    """The time of a file is that of its last copy."""
    folder, lake = prints("healthy", "describe", at=None), str(tmp_path / "lake")
    summary = ingest_logs([folder], cluster="c", lake=lake)
    assert "--printed-at" in summary.unread()[0]
    summary = ingest_logs([folder], cluster="c", lake=lake, options=ReadOptions(printed_at=T0))
    assert (summary.unread(), summary.events) == ([], len(read_events(lake)))
    assert {row["ts"] for row in read_events(lake).to_pylist()} == {T0}


def test_offsets_without_their_leaders_are_left_out_and_said(prints, tmp_path):
    summary = ingest_logs([prints("healthy", "offsets")], cluster="c", lake=str(tmp_path / "lake"))
    assert "kafka-topics --describe" in summary.unread()[0]


def test_a_print_given_twice_under_any_name_is_told_once(prints, tmp_path):
    folder, lake = prints("elected", "describe"), str(tmp_path / "lake")
    for _ in range(2):
        ingest_logs([folder], cluster="c", lake=lake)
    events = read_events(lake)
    assert len(replay(events).isr_changes) == len(replay(read_logs([folder], "c")).isr_changes)


BOTH = ("describe", "offsets")


def test_a_hw_that_is_printed_below_an_earlier_one_may_be_lost(prints):
    """The earliest offsets are printed alike: kafka-get-offsets --time -2."""
    found = losses(*(prints(step, *BOTH) for step in LATER))
    assert found == [("orders", "hw_moved_back", "unproven", 100, 180)]


def test_earliest_offsets_printed_beside_the_latest_are_no_loss(prints):
    folder = prints("alone", *BOTH)
    latest = (folder / "alone-offsets.txt").read_text()
    (folder / "earliest.txt").write_text(re.sub(r":\d+$", ":0", latest, flags=re.MULTILINE))
    assert losses(folder) == []


def test_a_printed_hw_above_the_start_of_a_later_term_is_lost(prints, tmp_path):
    """Logs of before and after, which tell no HW above 100."""
    describe = prints("alone", *BOTH) / "alone-describe.txt"
    topic_id = re.search(r"orders\tTopicId: (\S+)", describe.read_text())[1]
    began = leader(0, 0, "1", name="orders-0"), leader(100, 100, "2", epoch=1, name="orders-0", ms=1_000_000)
    for number, start in enumerate(began, 1):
        (tmp_path / f"broker-{number}").mkdir()
        text = start.replace("id=1]", f"id={number}]").replace(ID, topic_id)
        (tmp_path / f"broker-{number}" / "server.log").write_text(text)
    found = losses(tmp_path / "alone", tmp_path / "broker-1", tmp_path / "broker-2")
    assert [row for row in found if row[3:] == (100, 180)] != []


def test_logs_tell_the_isr_finer_than_a_print_whose_time_is_off(prints, tmp_path):
    """A print of a minute later stood as a change of its own before the one that the log shows."""
    describe = prints("alone", "describe", at=T0 - timedelta(seconds=90)) / "alone-describe.txt"
    topic_id = re.search(r"orders\tTopicId: (\S+)", describe.read_text())[1]
    shrinks = partition("ISR updated to 1  and version updated to 1", "orders-0")
    log = leader(0, 0, "1,2", name="orders-0") + line(shrinks, ms=60_000)
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "server.log").write_text(log.replace(ID, topic_id))
    found, without = (
        replay(read_logs(folders, "c")).isr_changes.to_pylist()
        for folders in ([tmp_path / "broker-1", tmp_path / "alone"], [tmp_path / "broker-1"])
    )
    assert without != []
    assert [row for row in found if (row["topic"], row["partition"]) == ("orders", 0)] == without


def test_a_consumer_and_prints_tell_one_loss_once(prints, tmp_path):
    """It had read orders-0 up to 180."""
    app = tmp_path / "app"
    app.mkdir()
    (app / "billing.log").write_text(detection(offset=180).replace("orders-1", "orders-0"))
    found = losses(*(prints(step, *BOTH) for step in LATER), app)
    assert {row[3:] for row in found} == {(100, 180)}


def test_a_print_that_was_pasted_with_blanks_for_tabs_is_read_alike(prints, tmp_path):
    folder = prints("elected", "describe")
    pasted = tmp_path / "pasted.txt"
    pasted.write_text((folder / "elected-describe.txt").read_text().replace("\t", "    "))
    assert [row["isr"] for row in rows(pasted)] == [row["isr"] for row in rows(folder)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("\tTopic: orders\tPartition: 9\tLeader of it: 1", "1 lines of this print are not understood, the first: "),
        ("nobody:0:120", "1 offsets of which nothing says who leads"),
    ],
)
def test_a_line_of_a_print_that_is_not_read_is_said(line, said, prints, tmp_path):
    file = prints("elected", "describe") / "elected-describe.txt"
    file.write_text(f"{file.read_text()}{line}\n")
    summary = ingest_logs([file.parent], cluster="c", lake=str(tmp_path / "lake"))
    assert [said in words for words in summary.unread()] == [True]


@pytest.mark.parametrize("step", LATER)
def test_of_a_real_print_every_line_is_understood(step, prints, tmp_path):
    folder = prints(step, "describe", "offsets", "status", "replication")
    (folder / "command.txt").write_text(
        f"$ kafka-topics.sh --describe\n{(folder / f'{step}-describe.txt').read_text()}"
    )
    assert ingest_logs([folder], cluster="c", lake=str(tmp_path / "lake")).unread() == []


def test_a_damaged_print_is_left_out_and_said(prints, tmp_path):
    file = prints("elected", "describe") / "elected-describe.txt"
    whole = gzip.compress(file.read_bytes() * 50)
    file.unlink()
    (file.parent / "describe.txt.gz").write_bytes(whole[:-9])
    summary = ingest_logs([file.parent], cluster="c", lake=str(tmp_path / "lake"))
    assert (summary.events, len(summary.unread())) == (0, 1)


def test_a_file_that_is_printed_anew_is_read_again():
    """`--follow` lists it every five seconds."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "describe.txt"
        printed = Printed()
        for step in ("healthy", "alone"):
            file.write_text((RECORDED / f"{step}-describe.txt").read_text() + "\n" * (step == "alone"))
            assert printed.read([file], "c", T0).num_rows > 0
            assert printed.read([file], "c", T0) is None
