"""Every way of not knowing: what `show` and `check` say, what fires, and the exit statuses. Unknown is never fine."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands import jobs
from pipelines.lake.bronze import bronze
from pipelines.lake.lake import Lake
from pipelines.lake.records import write_record
from pipelines.quality.results import CheckSummary
from pipelines.streaming.checkpoint.offsets import remember_interval
from pipelines.streaming.unfinished import RECORD, Removal
from tests.unit.project.lakes import at, committed_at, drained, health, job_has_read, loss, reported, sound, write

pytestmark = pytest.mark.long

NOW = 900
"""Seconds after NOON on the wall clock."""
JUDGED = "prod: judged up to 2026-09-01 12:14:50 UTC, 10 s ago, at level 3 (full TRACE)"
FRESH = NOW - 10


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch):
    """It is NOW, and the quality suites, which need Spark, find nothing."""
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(NOW))
    monkeypatch.setattr(jobs, "check", lambda settings, now, say: CheckSummary(now, []))


def live(lake, *partitions, brokers=(1, 2, 3)):
    """A lake whose job and whose brokers are up to date; partitions as in `health`."""
    rows = partitions or [health("orders", n) for n in range(4)]
    write(lake, "partition_health", *({**row, "last_event_ts": row.get("seen", at(FRESH))} for row in rows))
    reported(lake, *brokers, to=FRESH)
    job_has_read(lake)
    committed_at(lake, 0, at(FRESH))


def never_run(lake):
    reported(lake, 1, 2, 3, to=FRESH)
    committed_at(lake, 0, at(NOW - 400))


def behind(lake, seconds):
    """Telemetry of which the job has not read what was committed so many seconds ago."""
    live(lake)
    reported(lake, 1, to=FRESH)
    committed_at(lake, 1, at(NOW - seconds))


def slow_job(lake):
    behind(lake, 1000)
    remember_interval(Lake(lake), 600)


def another_cluster(lake):
    """One file holds rows of both clusters: its statistics say a to prod, and not what lies between."""
    live(lake)
    row = {"event_type": "progress", "partition": -1, "topic": None, "ts": at(FRESH)}
    write(lake, "replication_events", *(row | {"cluster": name} for name in ("a", "k", "k", "prod")))
    committed_at(lake, 1, at(NOW - 60))


def silent_leader(lake, **partition):
    """Broker 1 stopped reporting 400 s ago; 2 leads a partition, too."""
    rows = [health("orders", n) | {"seen": at(NOW - 400)} | partition for n in range(3)]
    live(lake, *rows, health("orders", 3, leader_id=2), brokers=(2, 3))
    reported(lake, 1, to=NOW - 400)
    job_has_read(lake)


def others_speak(lake):
    """A controller took broker 3 out of the ISR a minute after the leader's last word."""
    silent_leader(lake, seen=at(NOW - 340), isr=[1, 2], osr=[3], under_replicated=True)


def all_silent(lake):
    live(lake, *(health("orders", n, offline=n == 0) for n in range(4)), brokers=())
    reported(lake, 1, 2, 3, to=NOW - 400)
    job_has_read(lake)


def leader_gone(lake, state="controlled_shutdown"):
    """Its reader goes on, and nobody was elected in its place, or the controllers' logs are not read."""
    live(lake, *(health("orders", n, seen=at(100)) for n in range(4)))
    write(lake, "brokers", {"broker_id": 1, "state": state, "state_ts": at(100)})


def leader_back(lake):
    leader_gone(lake, "started")


def gaps(lake):
    live(lake)
    write(lake, "telemetry_gaps", *({"kind": kind, "ts": at(5)} for kind in ("gap", "gap", "late", "clock", "reset")))


def being_forgotten(lake):
    live(lake)
    write_record(Lake(lake), RECORD, Removal("prod"))


def not_understood(lake):
    live(lake)
    detail = "not understood: Skipped the become-leader state change … PartitionRegistration(…)"
    gap = {"kind": "gap", "detail": detail, "source_id": "broker-2/server.log", "ts": at(5)}
    write(lake, "telemetry_gaps", gap, gap, {"kind": "gap", "detail": "7 lines", "ts": at(5)})


def level_0(lake):
    live(lake, *(health("orders", n, level=0) for n in range(2)))


def two_levels(lake):
    live(lake, health("orders", 0, level=2), health("orders", 1, level=0), health("orders", 2, level=0))


def isr_never_reported(lake):
    live(
        lake, health("orders", 0), health("orders", 1, isr=None, under_replicated=None), health("o", 0, leader_id=None)
    )


def replicas_never_named(lake):
    """By brokers' logs alone: of one partition a replica left the ISR, which is known of that one alone; the HW of
    another stands still, whoever else is assigned."""
    unnamed = {"ar_told": False, "under_replicated": None}
    left = unnamed | {"osr": [3], "isr": [1, 2], "under_replicated": True}
    held = unnamed | {"stalled_ms": 20_000, "holding_replicas": [2]}
    live(lake, health("orders", 0, **unnamed), health("orders", 1, **left), health("orders", 2, **held))


def nothing_told(lake):
    """All sources are silent, and of no partition but one was it told who leads it, or who is in sync."""
    untold = health("orders", 1, isr=None, under_replicated=None), health("orders", 2, leader_id=None)
    live(lake, health("orders", 0), *untold, brokers=())
    reported(lake, 1, to=NOW - 400)
    job_has_read(lake)


def nothing_told_ended(lake):
    live(lake, health("orders", 0, leader_id=None))
    drained(lake, to=FRESH)
    job_has_read(lake)


def ended(lake):
    live(lake, *(health("orders", n, offline=True, leader_id=-1) for n in range(4)))
    drained(lake, to=FRESH)
    job_has_read(lake)


def lost_before(lake):
    behind(lake, 1000)
    write(lake, "hw_regressions", loss(ts=at(5)))


@dataclass
class Case:
    lake: object
    says: list[str]
    never: tuple[str, ...] = ()
    fires: tuple[str, ...] = ()


NO_LOSS, NOT_EXCLUDED = "no loss is known", "a loss is not excluded"
FINE = (NO_LOSS, "all in sync", "OK: ")
CASES = {
    "nothing amiss": Case(live, [JUDGED, "prod: OK: 4 partitions, all in sync", f"prod: {NO_LOSS} from "]),
    "never run": Case(
        never_run,
        ["prod: NOT JUDGED: nothing of it is reconstructed, so neither its state nor its losses are known; "
         "3 events to read, the oldest for 6 min"],
        FINE, ("job_behind",),
    ),
    "run long ago, bronze unread": Case(
        lambda lake: behind(lake, 301),
        ["prod: NOT JUDGED: `hwmark run` has not read what bronze got since 2026-09-01 12:09:59 UTC; 1 event to read, "
         "the oldest for 5 min; judged up to 2026-09-01 12:14:50 UTC, at level 3 (full TRACE)",
         "prod: when last judged, 4 partitions were in sync",
         "prod: whether anything was lost after 2026-09-01 12:14:50 UTC is not judged; before that no loss was found"],
        FINE, ("job_behind",),
    ),
    "bronze unread for less than five minutes": Case(lambda lake: behind(lake, 299), [JUDGED, "prod: OK: "]),
    "bronze unread for less than three intervals": Case(slow_job, [JUDGED, "prod: OK: "]),
    "a loss before what is not judged": Case(
        lost_before, ["prod: NOT JUDGED: ", "prod: LOST: 180 offsets in 1 partition: ", "prod: whether anything"],
        FINE, ("job_behind", "loss"),
    ),
    "clusters of bronze that were never read": Case(
        another_cluster, ["a: NOT JUDGED: ", "k: NOT JUDGED: nothing of it is reconstructed", JUDGED],
    ),  # job_behind fires of none yet: Spark may be starting
    "a silent leader": Case(
        silent_leader,
        ["prod: UNKNOWN: broker 1 stopped reporting: how 3 of 4 partitions stand is not known; before, "
         "3 partitions were in sync",
         f"{JUDGED}; 1 source of broker 1 silent since 2026-09-01 12:08:20 UTC: broker-1/server.log"],
        ("all in sync", "under-replicated", "OK: "), ("stale_source",),
    ),
    "a silent leader of whom others speak": Case(
        others_speak,
        ["prod: AT RISK: broker 3 out of the ISR: 3 of 4 partitions have a replica less to count on"],
        ("UNKNOWN", "all in sync"), ("stale_source",),
    ),
    "every source silent": Case(
        all_silent,
        ["prod: UNKNOWN: no source reports any more, the last did at 2026-09-01 12:08:20 UTC; then 1 was offline, "
         "3 were in sync"],
        ("all in sync", "OK: "), ("offline", "stale_source"),
    ),
    "a leader that went down without a successor": Case(
        leader_gone, ["prod: UNKNOWN: broker 1 stopped reporting: how 4 of 4 partitions stand is not known"],
        ("all in sync", "OK: "),
    ),
    "a leader that is back": Case(leader_back, ["prod: OK: 4 partitions, all in sync"], ("UNKNOWN",)),
    "gaps": Case(
        gaps, [f"{JUDGED}; 2 gaps in its telemetry; 1 clock found wrong", f"prod: {NOT_EXCLUDED} from ",
               ": 2 gaps in its telemetry; 1 clock found wrong"],
        (NO_LOSS,), ("gap", "gap"),
    ),
    "lines not understood": Case(
        not_understood,
        [f"{JUDGED}; 1 gap in its telemetry",
         "prod: 2 lines of broker-2/server.log not understood, such as "
         '"Skipped the become-leader state change … PartitionRegistration(…)"'],
        (), ("gap",),
    ),
    "stock INFO": Case(
        level_0, ["10 s ago, at level 0 (stock INFO)", f"prod: {NO_LOSS} from ", "at level 0 (stock INFO)",
                  "prod: OK: 2 partitions, every replica in the ISR; at level 0 nothing shows who holds a HW back"],
        ("all in sync",),
    ),
    "several levels": Case(
        two_levels, ["at level 0 (stock INFO) for 2 partitions, level 2 (lean TRACE) for 1 partition"],
        ("all in sync",),
    ),
    "an ISR that was never reported": Case(
        isr_never_reported,
        ["prod: UNKNOWN: who leads 2 of 3 partitions, is in sync, or is missing, was never told: "
         "lay controller.log beside"],
        ("all in sync", "OK: "),
    ),
    "replicas that nobody named": Case(
        replicas_never_named,
        ["prod: AT RISK: broker 3 out of the ISR: 1 of 3 partitions has a replica less to count on",
         "prod: HELD BACK: broker 2 holds back 1 of 3 partitions, the longest for 20 s",
         "prod: UNKNOWN: who leads 1 of 3 partitions, is in sync, or is missing, was never told: "
         "lay controller.log beside"],
        ("all in sync", "OK: ", "every replica"),
    ),
    "what nobody told before all fell silent": Case(
        nothing_told,
        ["prod: UNKNOWN: no source reports any more, the last did at 2026-09-01 12:08:20 UTC; then 1 was in sync, "
         "2 were never reported on"],
        ("every replica", "OK: ", "in the ISR"), ("stale_source",),
    ),
    "what nobody told of a recording that has ended": Case(
        nothing_told_ended, ["prod: ended at 2026-09-01 12:14:50 UTC; then 1 partition was never reported on"],
        ("in sync", "OK: "),
    ),
    "a cluster that is being forgotten": Case(
        being_forgotten, ["prod: NOT JUDGED: its rows are being taken out by `hwmark forget --cluster prod`"],
        ("all in sync", "no loss is known"),
    ),
    "a recording that has ended": Case(
        ended, ["prod: judged up to its end at 2026-09-01 12:14:50 UTC, at level 3 (full TRACE)",
                "prod: ended at 2026-09-01 12:14:50 UTC; then 4 partitions were offline"],
        ("OFFLINE", "ago", "silent", "all in sync"),
    ),
}  # fmt: skip


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request, tmp_path):
    request.param.lake(str(tmp_path / "lake"))
    return request.param


def hwmark(tmp_path, *words):
    return CliRunner().invoke(app, [*words, "--lake", str(tmp_path / "lake")])


@pytest.mark.parametrize("view", ["verdict", "health", "regressions"])
@pytest.mark.sampled(3)
def test_show_says_what_is_not_known(case, view, tmp_path):
    done = hwmark(tmp_path, "show", view)
    assert done.exit_code == 0
    assert [words for words in case.says if words not in done.output] == []
    assert [words for words in case.never if words in done.output] == []


@pytest.mark.sampled(3)
def test_check_says_it_too_and_fires(case, tmp_path):
    done = hwmark(tmp_path, "check")
    assert done.exit_code == 0
    assert [words for words in case.says if words not in done.output] == []
    assert sorted(words.split()[2].rstrip(":") for words in done.output.splitlines() if words.startswith("FIRING")) == [
        *case.fires
    ]
    assert hwmark(tmp_path, "check", "--fail-on-alert").exit_code == (3 if case.fires else 0)


def test_a_lake_without_events_says_so(tmp_path):
    bronze(str(tmp_path / "lake"))
    done = hwmark(tmp_path, "show", "health")
    assert (done.exit_code, done.output) == (0, f"{tmp_path}/lake holds no events yet.\n")


def test_what_was_never_written_cannot_be_data(tmp_path):
    """An empty array would say that nothing was lost."""
    never_run(str(tmp_path / "lake"))
    for view in ("health", "regressions", "hw"):
        done = hwmark(tmp_path, "show", view, "--format", "json")
        assert done.exit_code == 2
        assert f"`hwmark run --once --lake {tmp_path}/lake` writes it" in done.output


def test_a_cluster_that_was_never_read_is_known(tmp_path):
    another_cluster(str(tmp_path / "lake"))
    done = hwmark(tmp_path, "show", "health", "--cluster", "k")
    assert done.exit_code == 0
    assert done.output.startswith("k: NOT JUDGED: ")
    for view in ("health", "verdict", "hw"):
        assert hwmark(tmp_path, "show", view, "--cluster", "q").exit_code == 2


def test_a_mistyped_cluster_of_a_lake_that_was_never_read_is_wrong_usage(tmp_path):
    never_run(str(tmp_path / "lake"))
    done = hwmark(tmp_path, "show", "verdict", "--cluster", "prd")
    assert done.exit_code == 2
    assert "knows no cluster prd; did you mean prod?" in done.output


def test_what_is_not_read_yet_may_have_an_unknown_topic(tmp_path):
    behind(str(tmp_path / "lake"), 1)
    done = hwmark(tmp_path, "show", "health", "--topic", "clicks")
    assert done.exit_code == 2
    assert done.output.endswith(
        "knows no topic clicks; known: orders; what `hwmark run` has not read yet may have it\n"
    )


def test_a_job_that_catches_up_ends_its_alert(tmp_path):
    lake = str(tmp_path / "lake")
    behind(lake, 1000)
    assert "FIRING critical job_behind: prod: NOT JUDGED: " in hwmark(tmp_path, "check").output
    job_has_read(lake)
    done = hwmark(tmp_path, "check", "--fail-on-alert")
    assert done.exit_code == 0
    assert "RESOLVED critical job_behind: prod: NOT JUDGED: " in done.output
    assert DeltaTable(f"{lake}/ops/alerts").version() == 2


def test_sound_lakes_of_other_tests_are_sound(tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(85))
    sound(str(tmp_path / "lake"), health("orders", 0))
    assert hwmark(tmp_path, "check", "--fail-on-alert").exit_code == 0
