"""`hwmark check` tells each name once what the lake got, whoever evaluated it, and what it could not check."""

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from pipelines.alerting import reading
from pipelines.alerting.evaluate import evaluate
from pipelines.alerting.lookup import read_states
from pipelines.alerting.outbox import latest
from pipelines.cli import app
from pipelines.commands import clock
from pipelines.lake.lake import Lake
from pipelines.lake.roles import hold
from pipelines.streaming.unfinished import RECORD as REMOVAL
from pipelines.streaming.unfinished import Removal
from schemas import alerts, hw_regressions, incidents, notes, quality_results, replica_sync
from schemas import tables as declared
from tests.unit.project.lakes import at, committed_at, drained, health, job_has_read, loss, reported, sound, write

pytestmark = pytest.mark.long

ALERT, CHECK = "--fail-on-alert", "--fail-on-check"


@pytest.fixture
def lake(tmp_path):
    """Judged and ended: no source is silent, whatever the wall clock says."""
    path = str(tmp_path / "lake")
    sound(path, health("orders", 0))
    drained(path)
    return path


@pytest.fixture
def told(lake, monkeypatch):
    """What `check` prints and ends with at so many seconds after NOON."""

    def check(seconds, *options):
        monkeypatch.setattr(clock, "now", lambda: at(seconds))
        monkeypatch.setattr("pipelines.quality.check.WAIT_S", 0)
        done = CliRunner().invoke(app, ["check", "--lake", lake, *options])
        return done.exit_code, done.output

    return check


def frozen(lake, seconds, kind="freeze"):
    write(lake, "partition_hw", {"ts": at(seconds), "kind": kind, "isr": [1], "frozen": kind == "freeze"})


def present(lake, seconds):
    write(lake, "brokers", {"cluster": "prod", "broker_id": 1, "ts": at(seconds)})


def test_what_fired_and_was_over_between_two_checks_is_told_once_to_each_name(lake, told):
    present(lake, 60)
    assert told(60, ALERT)[0] == 0
    frozen(lake, 100)
    frozen(lake, 700, "thaw")
    present(lake, 500)
    evaluate(lake, now=at(500))
    present(lake, 900)
    evaluate(lake, now=at(900))
    status, text = told(1000, ALERT)
    assert status == 3
    assert "RESOLVED critical under_min_isr: prod: UNDER MIN ISR: " in text
    assert text.count(" (fired and was over: 10 min)") == 1
    assert told(1010, ALERT)[0] == 0
    assert told(1020, ALERT, "--name", "weekly")[0] == 3
    assert told(1030, ALERT, "--now", "--name", "other")[0] == 0


def test_no_alert_is_said_to_fire_of_nothing_but_what_is_judged(lake, told):
    job_has_made_tables(lake)
    removal = {"cluster": "prod", "before": None, "again": True}
    Lake(lake).write_durably(REMOVAL, json.dumps(removal).encode())
    assert "No alert is firing of what is judged." in told(70, ALERT)[1].splitlines()


def test_what_holds_and_is_not_told_yet_is_pending(lake, told):
    """OFFLINE and "No alert is firing" stood in one output, and nothing said why."""
    frozen(lake, 100)
    present(lake, 200)
    reported(lake, 1, to=100)
    job_has_read(lake)
    lines = told(200, ALERT)[1].splitlines()
    pending = "1 partition pending since 2026-09-01 12:01:40 UTC, told from 2026-09-01 12:06:40 UTC on"
    line = f"PENDING critical under_min_isr: prod: {pending}"
    assert line in lines[lines.index("No alert is firing.") :]
    assert f"{line}, once telemetry of then is read" in told(86_400)[1].splitlines()
    drained(lake, to=200)
    assert "PENDING" not in told(86_410)[1], "nothing of a closed recording will ever be told"


def test_what_fires_stands_first_and_the_gravest_before_all(lake, told):
    frozen(lake, 10)
    fails(lake)
    write(lake, "hw_regressions", loss(ts=at(30)))
    present(lake, 600)
    told(600)
    frozen(lake, 700, "thaw")
    present(lake, 900)
    lines = [line for line in told(900)[1].splitlines() if line.startswith(("FIRING", "RESOLVED"))]
    assert [line.split()[:3] for line in lines] == [
        ["FIRING", "critical", "loss:"],
        ["FIRING", "warning", "gap:"],
        ["RESOLVED", "critical", "under_min_isr:"],
    ]


def test_the_present_alone_tells_nobody(lake, told):
    write(lake, "hw_regressions", loss(ts=at(30)))
    assert told(60, ALERT, "--now")[0] == 3
    status, text = told(70 + 86_400, ALERT, "--now")
    assert (status, "loss" in text.splitlines()[-1]) == (0, False), "what is over is not of now"
    assert told(80 + 86_400, ALERT)[0] == 3, "it fired before, and is told to that name for the first time"
    assert told(90 + 86_400, ALERT)[0] == 0


def test_the_least_severity_that_ends_with_3(lake, told):
    write(lake, "hw_regressions", loss(ts=at(30), severity="info", **{"class": "loss_not_excluded"}))
    assert told(60, f"{ALERT}=info")[0] == 3
    assert told(60, ALERT)[0] == told(60, f"{ALERT}=critical")[0] == 0
    status, text = told(60, f"{ALERT}=fatal")
    assert (status, text) == (2, "hwmark: --fail-on-alert=fatal is no severity; say info, warning or critical\n")


@pytest.mark.parametrize("written", [90, 40], ids=["later", "by a clock that is behind"])
def test_a_note_ends_what_was_told_before_it_whatever_the_clock_of_its_host(lake, told, monkeypatch, written):
    write(lake, "hw_regressions", loss(ts=at(30)))
    assert told(60, ALERT)[0] == 3
    monkeypatch.setattr(clock, "now", lambda: at(written))
    noted = CliRunner().invoke(app, ["note", "--cluster", "prod", "--handled", "sent again", "--lake", lake])
    assert (noted.exit_code, noted.output) == (0, "noted for prod: the next evaluation ends what it is about\n")
    status, text = told(100, ALERT)
    assert (status, "HANDLED critical loss: prod: " in text) == (0, True)


@pytest.mark.parametrize("before", [False, True], ids=["the first loss", "one after another loss"])
def test_a_note_that_is_written_while_an_evaluation_goes_on_handles_nothing_that_this_one_tells(
    lake, told, monkeypatch, before
):
    """It was later than the rows that nobody could have read: they are dated to when the evaluation began."""
    if before:
        write(lake, "hw_regressions", loss(ts=at(-900), topic="orders", regression_id="r0"))
        assert told(40, ALERT)[0] == 3
    write(lake, "hw_regressions", loss(ts=at(30)))

    def read_slowly(*given):
        found = reading.read(*given)
        monkeypatch.setattr(clock, "now", lambda: at(65))
        CliRunner().invoke(app, ["note", "--cluster", "prod", "--handled", "sent again", "--lake", lake])
        monkeypatch.setattr("pipelines.alerting.evaluate.read", reading.read)
        return found

    monkeypatch.setattr("pipelines.alerting.evaluate.read", read_slowly)
    assert told(60, ALERT)[0] == 3
    told(100, ALERT)
    ends = {state.subject[-20:]: state.labels.get("end") for state in latest(read_states(Lake(lake))).values()}
    assert ends == {"2026-09-01T12:00:30Z": None} | ({"2026-09-01T11:45:00Z": "handled"} if before else {})


def test_a_status_is_explained_by_the_lines_above_it(lake, told, monkeypatch):
    """Status 3 with HANDLED lines alone, and status 4 beside "0 failed"."""
    write(lake, "hw_regressions", loss(ts=at(30)))
    assert told(60, ALERT)[0] == 3
    monkeypatch.setattr(clock, "now", lambda: at(70))
    CliRunner().invoke(app, ["note", "--cluster", "prod", "--handled", "sent again", "--lake", lake])
    assert told(80, ALERT)[0] == 0
    status, text = told(90, ALERT, CHECK, "--name", "weekly")
    assert (status, "; handled: sent again (fired and was over)" in text) == (3, True)
    (counts,) = [line for line in text.splitlines() if " expectations, " in line]
    assert counts.endswith(" failed since the last check")


def test_what_was_over_before_anybody_looked_is_one_line(lake, told):
    frozen(lake, -900)
    frozen(lake, -100, "thaw")
    present(lake, 60)
    status, text = told(60, ALERT)
    assert status == 0
    assert "1 alert had fired and ended before anybody looked: `hwmark show alerts`" in text
    assert "before anybody looked" not in told(70)[1]


def fails(lake):
    write(lake, "telemetry_gaps", {"kind": "gap", "source_id": "s", "series": "source"})


@pytest.mark.parametrize("cut", ["held", "full"])
def test_a_failed_expectation_is_told_by_the_next_check_where_this_one_could_not(lake, told, cut, monkeypatch):
    fails(lake)
    if cut == "held":
        monkeypatch.setattr("pipelines.alerting.evaluate.hold", _held)
    else:
        monkeypatch.setattr("pipelines.alerting.evaluate.take_step", _full)
    assert told(60)[0] == {"held": 75, "full": 1}[cut]
    assert told(60, CHECK)[0] == 4
    monkeypatch.undo()
    monkeypatch.setattr(clock, "now", lambda: at(70))
    again = CliRunner().invoke(app, ["check", "--lake", lake, CHECK])
    assert again.exit_code == 4
    assert "FAILED silver/telemetry_gaps no_gaps  1 of 1 new row, judged at 2026-09-01 12:01:00 UTC" in again.output
    monkeypatch.setattr(clock, "now", lambda: at(80))
    after = CliRunner().invoke(app, ["check", "--lake", lake])
    assert "no_gaps  1 of 1 new row" not in after.output


def _held(lake, role, options=None, *, wait_s=0):
    from pipelines.lake.roles import RoleHeld

    raise RoleHeld(role, lake, "process 1")


def _full(*_given):
    raise OSError(28, "No space left on device", "lake")


def test_results_that_found_no_room_end_no_alert(lake, told, monkeypatch):
    fails(lake)
    write(lake, "hw_regressions", loss(ts=at(30)))

    append = Lake.append

    def full(lake, table, rows):
        if table is quality_results.TABLE:
            raise OSError(28, "No space left on device", "lake")
        append(lake, table, rows)

    monkeypatch.setattr(Lake, "append", full)
    status, text = told(60, ALERT, CHECK)
    assert (status, "FIRING critical loss" in text) == (3, True)
    assert "FAILED silver/telemetry_gaps no_gaps" in text
    status, text = told(70)
    assert (status, text.splitlines()[-1]) == (
        1,
        "hwmark: no space left on device: lake: free some space and run it again",
    )


def test_what_fires_is_told_though_the_disk_is_full(lake, told, monkeypatch):
    write(lake, "hw_regressions", loss(ts=at(30)))
    monkeypatch.setattr("pipelines.alerting.evaluate.take_step", _full)
    for _ in range(2):
        status, text = told(60, ALERT)
        assert (status, "FIRING critical loss" in text) == (3, True)
        assert text.splitlines()[-1] == "hwmark: no space left on device: lake: free some space and run it again"
    assert told(60)[0] == 1


def test_an_expectation_that_raises_has_failed_and_ends_nothing_else(lake, told, monkeypatch):
    fails(lake)
    write(lake, "hw_regressions", loss(ts=at(30)))
    monkeypatch.setattr("pipelines.quality.validation.Library.judge", lambda *given: 1 / 0)
    status, text = told(60, ALERT, CHECK)
    assert (status, "FIRING critical loss" in text) == (3, True)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "FAILED silver/telemetry_gaps no_gaps could not be judged: division by zero" in lines


def job_has_made_tables(lake):
    for name, table in declared().items():
        if name not in ("quality_results", "alerts", "deliveries", "notes") and not Lake(lake).has_table(table):
            Lake(lake).create(table)
    record = json.loads(Lake(lake).files().open_input_stream("_run/query.json").read())
    Lake(lake).write_durably("_run/query.json", json.dumps(record | {"rules": {}}).encode())


def test_a_table_that_is_gone_with_the_records_of_the_job_withdraws_nothing(lake, told):
    """Only the record of the last evaluation knew that the job had made it."""
    job_has_made_tables(lake)
    write(lake, "hw_regressions", loss(ts=at(30)))
    assert "FIRING critical loss" in told(60, ALERT)[1]
    for gone in ("_run", hw_regressions.TABLE.path):
        shutil.rmtree(f"{lake}/{gone}")
    _, text = told(70, ALERT, CHECK)
    assert "FAILED silver/hw_regressions table_is_there" in text
    assert "WITHDRAWN" not in text
    assert "no loss" not in text


def test_a_missing_table_is_a_failed_expectation_and_not_judged(lake, told):
    job_has_made_tables(lake)
    assert told(60, ALERT)[0] == 0
    shutil.rmtree(f"{lake}/{replica_sync.TABLE.path}")
    status, text = told(70, CHECK)
    assert (status, "FAILED silver/replica_sync table_is_there" in text) == (4, True)
    shutil.rmtree(f"{lake}/{hw_regressions.TABLE.path}")
    status, text = told(80, ALERT)
    assert status == 3
    (said,) = (line for line in text.splitlines() if line.startswith("FIRING critical job_behind: prod: NOT JUDGED: "))
    assert "NOT JUDGED: silver/hw_regressions is missing: restore it" in said
    assert "no loss is known" not in text


def test_while_silver_is_made_anew_nothing_is_judged_and_what_fires_goes_on(lake, told):
    job_has_made_tables(lake)
    write(lake, "hw_regressions", loss(ts=at(30)))
    assert told(60, ALERT)[0] == 3
    Lake(lake).write_durably("_run/rebuild.json", json.dumps({"query_id": "q", "to": 5}).encode())
    shutil.rmtree(f"{lake}/{hw_regressions.TABLE.path}")
    write(lake, "hw_regressions", loss(ts=at(10), cluster="other"))
    status, text = told(70, ALERT)
    assert (status, text.splitlines()[0].startswith("prod: NOT JUDGED: silver is being made anew")) == (3, True)
    assert [line.count("not known since") for line in text.splitlines() if " critical loss: prod" in line] == [1]
    assert "no loss is known" not in text


def test_a_rebuild_of_one_cluster_that_was_cut_off_is_told_once_it_is_late(lake, told):
    """The verdict said LOST and NOT JUDGED, and the status was 0 for months."""
    job_has_made_tables(lake)
    write(lake, "hw_regressions", loss(ts=at(30)))
    Lake(lake).write_durably("_forget.json", json.dumps({"cluster": "prod", "before": None, "again": True}).encode())
    assert told(60, ALERT)[0] == 0
    status, text = told(60 + 301, ALERT)
    assert (status, "FIRING critical job_behind: prod: NOT JUDGED: " in text) == (3, True), text


def test_a_rebuild_of_one_cluster_names_a_command_that_can_be_typed(tmp_path):
    """It named `hwmark run --rebuild --cluster prod`, which needs --once."""
    words = Removal("prod", again=True).words.split()
    done = CliRunner().invoke(app, [*words[1:], "--lake", f"{tmp_path}/none"])
    assert (done.exit_code, "there is no lake" in done.output) == (2, True), done.output


def test_a_note_that_says_nothing_or_is_of_another_cluster_is_refused(lake, told):
    """It ended the incident, and was filed under the wrong cluster."""
    for cluster in ("prod", "other"):
        write(lake, "hw_regressions", loss(ts=at(30), cluster=cluster, regression_id=cluster))
    assert told(60, ALERT)[0] == 3
    (alert,) = (s.alert_id for s in read_states(Lake(lake)) if s.labels["cluster"] == "other")
    for words, said in ((["done", "--incident", alert], "is of cluster other, not prod"), ([" "], 'the text is ""')):
        done = CliRunner().invoke(app, ["note", "--cluster", "prod", "--handled", *words, "--lake", lake])
        assert (done.exit_code, said in done.output) == (2, True), done.output
    assert not Lake(lake).has_table(notes.TABLE)


def test_while_one_cluster_is_made_anew_it_alone_is_not_judged_and_the_command_is_named(lake, told):
    job_has_made_tables(lake)
    removal = {"cluster": "prod", "before": None, "again": True}
    Lake(lake).write_durably(REMOVAL, json.dumps(removal).encode())
    write(lake, "hw_regressions", loss(ts=at(10), cluster="other"))
    text = told(70, ALERT)[1]
    command = "`hwmark run --once --rebuild --cluster prod`"
    assert text.startswith(f"prod: NOT JUDGED: silver is being made anew from bronze by {command}")
    assert "other: NOT JUDGED" not in text


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_an_hour_off_is_said(lake, hours, monkeypatch):
    from datetime import UTC, datetime

    from pipelines.streaming.checkpoint.offsets import remember_interval

    now = datetime.now(UTC)
    write(lake, "brokers", {"cluster": "prod", "broker_id": 1, "ts": now})
    remember_interval(Lake(lake), 10.0)
    said = []
    for off in (0, hours):
        monkeypatch.setattr(clock, "now", lambda off=off: now + timedelta(hours=off))
        lines = CliRunner().invoke(app, ["check", "--lake", lake]).output.splitlines()
        said += [line for line in lines if "clock of this host" in line]
    assert len(said) == 1
    assert ("this host is 59 min behind" if hours < 0 else "written for 1 h") in said[0]


@pytest.mark.parametrize("closed", [False, True])
def test_a_clock_that_is_ahead_is_said_after_run_once_unless_a_drain_has_closed_all(lake, closed, monkeypatch):
    """Cron runs `run --once`, which leaves no interval behind."""
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    write(lake, "brokers", {"cluster": "prod", "broker_id": 1, "ts": now})
    row = {"cluster": "prod", "source_epoch": 0, "source_seq": 0, "seq": 0, "ts": now, "broker_id": 1, "level": 3}
    row |= {"event_type": "progress", "partition": -1, "topic": None}
    rows = [row | {"source_id": "broker-1/server.log"}, row | {"source_id": "hwmark/drain", "detail": "closed"}]
    write(lake, "replication_events", *rows[: 1 + closed])
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(hours=1))
    for name in ("alerts", "partition_hw", "notes"):
        lines = CliRunner().invoke(app, ["check", "--lake", lake]).output.splitlines()
        assert any("or the clock is ahead" in line for line in lines) is not closed
        write(lake, name)  # as check and the job on this host do, by the clock that is ahead
        table = declared()[name].path
        committed_at(lake, DeltaTable(f"{lake}/{table}").version(), now + timedelta(hours=1), table)


def test_only_a_check_that_was_printed_has_told(lake, told, monkeypatch):
    write(lake, "hw_regressions", loss(ts=at(30)))
    with hold(lake, "check"):
        assert told(60, ALERT)[0] == 3
    assert told(70 + 86_400, ALERT)[0] == 3, "it fired since, and is over by now"


def test_what_fires_is_in_the_status_though_nobody_can_record_that_it_was_told(lake, told, monkeypatch):
    """The folder may be another user's, who checked before: it ended with 1, as where nothing could be judged."""
    write(lake, "hw_regressions", loss(ts=at(30)))

    def refuse(*_):
        raise PermissionError(13, "Permission denied", "_alerts/told/check.json")

    monkeypatch.setattr("pipelines.alerting.step.set_told", refuse)
    status, text = told(60, ALERT)
    assert (status, "FIRING critical loss" in text) == (3, True)
    assert "_alerts/told" in text.splitlines()[-1]


def test_the_tables_of_what_was_told_are_these(lake, told):
    write(lake, "hw_regressions", loss(ts=at(30)))
    told(60)
    record = json.loads(Lake(lake).files().open_input_stream("_alerts/told/check.json").read())
    assert {name: datetime.fromisoformat(moment) for name, moment in record.items()} == {
        "alerts": at(60), "results": at(60),
    }  # fmt: skip
    assert Lake(lake).has_table(alerts.TABLE)
    assert Lake(lake).has_table(quality_results.TABLE)


PAGE = {
    ("0", ""): ("fires", "fails"),
    ("0", ALERT): ("info", "fails"),
    ("0", CHECK): ("fires",),
    ("1", f"{ALERT} {CHECK}"): ("broken",),
    ("2", "--lake nowhere"): (),
    ("3", f"{ALERT} {CHECK}"): ("fires", "fails"),
    ("4", CHECK): ("fires", "fails"),
    ("75", f"{ALERT} {CHECK}"): ("fires", "held"),
}
"""By status and options of the page what the lake has."""


@pytest.mark.parametrize(("status", "options"), PAGE)
def test_the_page_of_exit_statuses_says_what_was_not_checked(lake, told, status, options, monkeypatch):
    page = Path("docs/exit-statuses.md").read_text().partition("## What `hwmark check` has not checked")[2]
    assert f"| {status} " in page
    has = PAGE[status, options]
    if "fires" in has:
        write(lake, "hw_regressions", loss(ts=at(30)))
    if "info" in has:
        write(lake, "hw_regressions", loss(ts=at(30), severity="info", **{"class": "loss_not_excluded"}))
    if "fails" in has:
        write(lake, "quarantine", {"reasons": ["leo is missing"]})
    if "broken" in has:
        monkeypatch.setattr("pipelines.commands.jobs.verdicts", lambda settings, now: 1 / 0)
    if "held" in has:
        monkeypatch.setattr("pipelines.alerting.evaluate.hold", _held)
    judged = quarantine_suite() if "fails" in has else []
    monkeypatch.setattr("pipelines.quality.check.standard_suites", lambda: judged)
    ended, text = told(60, *options.split())
    assert ended == int(status)
    if status in ("0", "3", "4"):
        assert (" critical loss: " in text) == ("fires" in has), "it is printed, whatever the status says"
        assert ("FAILED bronze/quarantine" in text) == ("fails" in has)
    record = Path(lake, "_alerts/told/check.json")
    assert record.exists() == (status in ("0", "3", "4")), "otherwise nothing counts as told"


def test_where_nobody_reads_nothing_counts_as_told(lake, told, monkeypatch):
    write(lake, "hw_regressions", loss(ts=at(30)))

    def gone(*_given, **_more):
        raise BrokenPipeError

    with monkeypatch.context() as patched:
        patched.setattr("pipelines.commands.exits._nobody_reads", lambda: True)
        patched.setattr("pipelines.commands.progress.alert_line", gone)
        assert told(60, ALERT)[0] == 141
    assert not Path(lake, "_alerts/told/check.json").exists()
    assert told(70, ALERT)[0] == 3


def test_only_ingest_ends_with_65():
    commands = Path("pipelines/commands")
    using = {path.name for path in commands.rglob("*.py") if "NOT_UNDERSTOOD" in path.read_text()}
    assert using == {"exits.py", "ingest.py", "ingest_disk.py"}


def test_the_page_says_of_every_status_what_was_not_checked():
    import re

    from pipelines.commands.exits import STATUSES

    page = Path("docs/exit-statuses.md").read_text().partition("## What `hwmark check` has not checked")[2]
    assert {int(status) for status in re.findall(r"^\| (\d+) ", page.partition("\n## ")[0], re.MULTILINE)} == set(
        STATUSES
    )


def quarantine_suite():
    from pipelines.quality.suites import standard_suites
    from schemas import quarantine

    return [suite for suite in standard_suites() if suite.table is quarantine.TABLE]


def test_an_error_of_the_suites_is_said_though_an_alert_fires(lake, told, monkeypatch):
    write(lake, "hw_regressions", loss(ts=at(30)))
    monkeypatch.setattr("pipelines.commands.jobs.check", lambda settings, now, say: 1 / 0)
    status, text = told(60, ALERT, CHECK)
    assert (status, text.splitlines()[-1].startswith("hwmark: ZeroDivisionError")) == (3, True)
    assert told(70, ALERT, CHECK)[0] == 3


def test_a_suite_that_names_what_is_not_there_keeps_no_alert_from_being_told(lake, told, monkeypatch):
    from pipelines.errors import UsageError

    def refuse(settings, now, say):
        raise UsageError("check.suites names column x")

    monkeypatch.setattr("pipelines.commands.jobs.check", refuse)
    assert told(50, ALERT, CHECK)[0] == 2
    write(lake, "hw_regressions", loss(ts=at(30)))
    status, text = told(60, ALERT, CHECK)
    assert (status, "FIRING critical loss" in text, "names column x" in text) == (3, True, True)
    assert "No expectation was judged." in text.splitlines()


@pytest.mark.parametrize("name", ["alerts", "incidents", "quality_results"])
@pytest.mark.parametrize("beside", [False, True], ids=["a check finds it", "another evaluation made it anew"])
@pytest.mark.sampled(2)
def test_that_what_was_told_is_gone_is_a_failed_expectation(lake, told, name, beside, monkeypatch):
    monkeypatch.setattr("pipelines.quality.check.standard_suites", list)
    write(lake, "hw_regressions", loss(ts=at(30)))
    assert told(60, ALERT)[0] == 3
    assert "table_is_there" not in told(80, CHECK)[1]
    shutil.rmtree(f"{lake}/ops/{name}")
    for seconds in (85, 86) if beside else ():
        evaluate(lake, now=at(seconds))
    status, text = told(90, CHECK)
    assert (status, f"FAILED ops/{name} table_is_there" in text) == (4, True)
    for seconds in (100, 110):
        assert "FAILED" not in told(seconds, CHECK)[1], "it was made anew, and that was told"


@pytest.mark.parametrize("by", [-7200, 7200], ids=["its clock is behind", "its clock is ahead"])
@pytest.mark.parametrize("name", ["alerts", "incidents"])
@pytest.mark.sampled(3)
def test_that_what_was_told_is_gone_is_said_once_whatever_the_clock_of_who_made_it_anew(
    lake, told, name, by, monkeypatch
):
    """One whose clock is behind made it anew, and an earlier time that it was gone was taken for this one."""
    monkeypatch.setattr("pipelines.quality.check.standard_suites", list)
    write(lake, "hw_regressions", loss(ts=at(30)))
    told(60)
    told(70)  # which finds the tables of the first
    shutil.rmtree(f"{lake}/ops/{name}")
    assert f"FAILED ops/{name} table_is_there" in told(90, CHECK)[1]
    shutil.rmtree(f"{lake}/ops/{name}")
    evaluate(lake, now=at(100 + by))
    status, text = told(110, CHECK)
    assert (status, f"FAILED ops/{name} table_is_there" in text) == (4, True)
    for seconds in (120, 130):
        assert "FAILED" not in told(seconds, CHECK)[1]


def test_what_a_table_made_anew_by_a_clock_that_is_behind_gets_is_told(lake, told):
    write(lake, "hw_regressions", loss(ts=at(30)))
    present(lake, 60)
    told(60)
    shutil.rmtree(f"{lake}/ops/alerts")
    frozen(lake, 100)
    frozen(lake, 700, "thaw")
    present(lake, 900)
    evaluate(lake, now=at(900 - 7200))
    status, text = told(1000, ALERT)
    assert (status, "(fired and was over: 10 min)" in text) == (3, True)
    rows = Lake(lake).read("incidents", incidents.ARROW).to_pylist()
    last = {row["incident_id"]: row for row in sorted(rows, key=lambda row: row["written_at"])}
    firing = [one for row in last.values() for one in row["firing"]]
    assert [
        row["alert_id"] for row in Lake(lake).read("alerts", alerts.ARROW).to_pylist() if row["rule"] == "loss"
    ] == firing


def test_incidents_made_anew_by_a_clock_that_is_behind_are_those_that_were(lake, told):
    write(lake, "hw_regressions", loss(ts=at(30)))
    frozen(lake, 10)
    present(lake, 600)
    told(600)
    before = {row["incident_id"] for row in Lake(lake).read("incidents", incidents.ARROW).to_pylist()}
    shutil.rmtree(f"{lake}/ops/incidents")
    evaluate(lake, now=at(700 - 7200))
    assert {row["incident_id"] for row in Lake(lake).read("incidents", incidents.ARROW).to_pylist()} == before


def test_notes_made_anew_before_anybody_evaluated_are_said_to_be_gone(lake, told, monkeypatch):
    monkeypatch.setattr("pipelines.quality.check.standard_suites", list)
    write(lake, "notes", {"text": "a", "written_at": at(30), "handled": False})
    told(60)
    shutil.rmtree(f"{lake}/ops/notes")
    write(lake, "notes", {"text": "b", "written_at": at(70), "handled": False})
    status, text = told(90, CHECK)
    assert (status, "ops/notes was made anew" in text) == (4, True)
    assert "FAILED" not in told(100, CHECK)[1]


def test_a_record_that_is_damaged_is_said_once(lake, told, caplog):
    told(60)
    Path(lake, "_alerts/step.json").write_text("{")
    told(70)
    assert [one for one in caplog.messages if "step.json is damaged" in one][1:] == []
    assert "step.json is damaged" in caplog.text


def test_a_check_without_a_name_is_refused(lake, told):
    status, text = told(60, "--name", "")
    assert (status, "--name is" in text) == (2, True)


@pytest.mark.parametrize(("failed", "expected"), [(True, 4), (False, 1)])
def test_a_failed_expectation_is_in_the_status_beside_an_error(lake, told, monkeypatch, failed, expected):
    monkeypatch.setattr("pipelines.quality.check.standard_suites", quarantine_suite if failed else list)
    write(lake, "quarantine", {"reasons": ["leo is missing"]})
    monkeypatch.setattr("pipelines.commands.jobs.verdicts", lambda settings, now: 1 / 0)
    status, text = told(60, CHECK)
    assert (status, "hwmark: ZeroDivisionError" in text) == (expected, True)
    assert not Path(lake, "_alerts/told/check.json").exists(), "nothing counts as told"


def test_alerts_are_told_though_another_process_checks(lake, told):
    write(lake, "hw_regressions", loss(ts=at(30)))
    with hold(lake, "check"):
        status, text = told(60, ALERT)
        assert (status, "FIRING critical loss" in text, "check" in text.splitlines()[-1]) == (3, True, True)
        assert told(60, CHECK)[0] == 75


@pytest.mark.parametrize("stage", ["verdicts", "check", "alerts", "_tell", "set_told"])
@pytest.mark.sampled(2)
def test_of_two_checks_of_one_name_at_once_each_tells_all_and_the_next_nothing(lake, told, stage, monkeypatch):
    """The other one runs whole before this stage of the first."""
    from pipelines.alerting import step
    from pipelines.commands import check, jobs

    present(lake, 60)
    told(60)
    frozen(lake, 100)
    frozen(lake, 700, "thaw")
    fails(lake)
    present(lake, 900)
    place = {"_tell": check, "set_told": step}.get(stage, jobs)
    act, outputs = getattr(place, stage), list[str]()

    def after_another(*given, **more):
        if not outputs:
            outputs.append("")
            outputs[0] = told(900, ALERT, CHECK)[1]
        return act(*given, **more)

    monkeypatch.setattr(place, stage, after_another)
    outputs.append(told(900, ALERT, CHECK)[1])
    for output in outputs:
        lines = ["(fired and was over: 10 min)", "FAILED silver/telemetry_gaps no_gaps 1 of 1 new row"]
        assert [line in " ".join(output.split()) for line in lines] == [True, True]
    text = told(910, CHECK)[1]
    assert ("under min" in text, "1 of 1 new row" in text) == (False, False)


def test_a_row_that_came_while_a_check_told_is_told_by_the_next(lake, told, monkeypatch):
    from pipelines.commands import check

    present(lake, 60)
    reaches = check.reaches

    def meanwhile(*given):
        write(lake, "hw_regressions", loss(ts=at(30)))
        evaluate(lake, now=at(61))
        return reaches(*given)

    with monkeypatch.context() as patched:
        patched.setattr(check, "reaches", meanwhile)
        assert told(60, ALERT)[0] == 0
    assert told(70 + 86_400, ALERT)[0] == 3, "it fired since, and is over by now"


def test_what_another_process_tells_after_the_evaluation_of_a_check_has_a_line(lake, told, monkeypatch):
    """It was in the status alone, and counted as told."""
    from pipelines.commands import jobs

    present(lake, 60)
    alerts_now = jobs.alerts

    def and_then(settings, now):
        found = alerts_now(settings, now)
        write(lake, "hw_regressions", loss(ts=at(30)))
        evaluate(lake, now=at(61))
        return found

    monkeypatch.setattr(jobs, "alerts", and_then)
    status, text = told(60, ALERT)
    assert (status, text.count("FIRING critical loss: prod: LOST")) == (3, 1)


def test_gold_that_cannot_be_read_ends_no_alert(lake, told):

    write(lake, "hw_regressions", loss(ts=at(30)))
    for file in Path(f"{lake}/gold/partition_health").glob("*.parquet"):
        file.unlink()
    status, text = told(60, ALERT)
    assert (status, "FIRING critical loss" in text) == (3, True)
    assert "gold/partition_health cannot be read" in text


def test_where_ops_alerts_cannot_be_read_expectations_that_failed_are_said(lake, told):
    assert told(60, "--name", "earlier")[0] == 0
    write(lake, "hw_regressions", loss(ts=at(30)))
    evaluate(lake, now=at(70))
    assert told(70, CHECK, "--name", "earlier")[0] == 4
    for file in (Path(lake) / alerts.TABLE.path).glob("*.parquet"):
        file.write_bytes(file.read_bytes()[:50])
    assert told(80, CHECK)[0] == 4
    status, text = told(80, ALERT, CHECK)
    assert (status, "FIRING critical loss" in text) == (3, True)
    assert "FAILED silver/hw_regressions no_unclean_loss" in text, "told to another name only"
    said = [line for line in text.splitlines() if line.startswith("hwmark: ")]
    assert said, text
    assert [line for line in said if "is damaged or half-written: " not in line] == []


@pytest.mark.parametrize("content", ["10", ""])
@pytest.mark.parametrize("record", ["query.json", "interval.json", "rebuild.json", "q/offsets/0"])
@pytest.mark.sampled(3)
def test_a_record_of_the_job_that_is_damaged_ends_no_check_and_is_in_its_status(lake, told, record, content):
    job_has_made_tables(lake)
    write(lake, "hw_regressions", loss(ts=at(30)))
    Path(lake, "_run", record).write_text(content)
    status, text = told(60, ALERT)
    rule = "job_behind" if record == "rebuild.json" else "loss"
    assert (status, f"FIRING critical {rule}" in text) == (3, True), text
    assert [line for line in text.splitlines() if line.startswith("hwmark: ")] == []
    status, text = told(70, CHECK)
    assert (status, f"FAILED _run/{record} record_is_whole" in text) == (4, True), text
    assert f"_run/{record} is damaged (" in text


def test_a_record_of_what_was_told_that_is_damaged_is_a_failed_expectation_once(lake, told):
    job_has_made_tables(lake)
    told(60)
    for path in ("_alerts/step.json", "_alerts/told/check.json"):
        Path(lake, path).write_text("{")
    status, text = told(70, CHECK)
    assert (status, text.count(" record_is_whole")) == (4, 4), "a line each, and the last line names both"
    assert text.count(": nothing to do, its writer makes it anew") == 2
    status, text = told(80, CHECK)
    assert status == 0, text


def test_a_table_that_goes_after_the_records_of_the_job_withdraws_nothing(lake, told):
    job_has_made_tables(lake)
    write(lake, "hw_regressions", loss(ts=at(30)))
    assert "FIRING critical loss" in told(60, ALERT)[1]
    shutil.rmtree(f"{lake}/_run")
    told(70)
    shutil.rmtree(f"{lake}/{hw_regressions.TABLE.path}")
    status, text = told(80, ALERT)
    assert (status, "WITHDRAWN" in text, "no loss" in text) == (3, False, False)


def test_sources_of_which_no_report_is_kept_are_not_fresh(lake, told):
    DeltaTable(f"{lake}/bronze/replication_events").delete()
    job_has_read(lake)
    status, text = told(70, CHECK)
    (said,) = (line for line in text.splitlines() if " sources_fresh " in line)
    assert (status, said.startswith("FAILED"), '"cluster": "prod"' in said) == (4, True, True)


def test_rules_that_are_off_are_said(lake, told, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text("[loss]\nenabled = false\n[gap]\nenabled = false\n")
    (tmp_path / "hwmark.toml").write_text(f'[alerts]\nrules_file = "{rules}"\n')
    text = told(60, "--config", str(tmp_path / "hwmark.toml"))[1]
    assert f"Alert rules that are off in {rules}: loss, gap\n" in text
    assert "that are off" not in told(60)[1]


def test_a_loss_has_no_duration(lake, told):
    write(lake, "hw_regressions", loss(ts=at(30)))
    evaluate(lake, now=at(60))
    assert " (fired and was over)" in told(70 + 86_400, ALERT)[1]


def test_what_could_not_be_judged_is_said_no_more_once_it_was_though_it_failed(lake, told, monkeypatch):
    fails(lake)
    monkeypatch.setattr("pipelines.quality.validation.Library.judge", lambda *given: 1 / 0)
    told(60, "--name", "other")
    monkeypatch.undo()
    monkeypatch.setattr(clock, "now", lambda: at(70))
    text = CliRunner().invoke(app, ["check", "--lake", lake]).output
    assert "no_gaps                     1 of 1 new row" in text
    assert "no_gaps  could not be judged" not in text


def test_a_missing_table_has_one_advice(lake, told):
    job_has_made_tables(lake)
    told(60)
    shutil.rmtree(f"{lake}/{hw_regressions.TABLE.path}")
    text = told(70)[1]
    advice = "silver/hw_regressions is missing: restore it, or start anew with `hwmark run --rebuild`"
    of_it = [line for line in text.splitlines() if "hw_regressions" in line and "expectations" not in line]
    assert [line for line in of_it if advice not in line] == []
    assert len(of_it) > 3


def test_a_table_that_alerts_need_and_cannot_read_is_in_the_verdict_until_it_can_be_read(lake, told):
    job_has_made_tables(lake)
    write(lake, "replica_sync", {"ts": at(30), "replica_id": 2, "state": "in_sync", "leader_epoch": 1})
    files = {file: file.read_bytes() for file in Path(lake, replica_sync.TABLE.path).glob("*.parquet")}
    for file in files:
        file.write_bytes(b"garbage" * 10)
    assert "FIRING critical job_behind" in told(60)[1]
    said = "prod: NOT JUDGED: silver/replica_sync cannot be read: restore it"
    assert any(line.startswith(said) for line in told(70)[1].splitlines())
    for file, content in files.items():
        file.write_bytes(content)
    assert not any(line.startswith(said) for line in told(80)[1].splitlines())


def test_that_somebody_evaluates_with_other_settings_is_said(lake, told, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text("[gap]\nresolve_after_s = 60\n[loss]\nenabled = false\n")
    assert "other settings" not in told(60)[1]
    evaluate(lake, rules_file=rules, now=at(70))
    assert "Alerts were evaluated last with other settings of gap: " in told(80)[1]
    assert "other settings" not in told(90)[1]
