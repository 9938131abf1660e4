"""The report: one HTML file that says what `show` says, holds no script, and is written whole or not at all."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.report import render
from tests.unit.project.lakes import at, committed_at, drained, health, job_has_read, loss, reported, sound, write
from tests.web import staged
from tests.web.conftest import client_of

pytestmark = pytest.mark.long

EVIL = "<script>alert(1)</script>\x1b[2J\u202e"


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch):
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(85))


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")


def hwmark(*words):
    return CliRunner().invoke(app, list(words))


def report(lake, tmp_path, *words):
    out = tmp_path / "report.html"
    done = hwmark("report", "--lake", lake, "--out", str(out), *words)
    assert done.exit_code == 0, done.output
    return out.read_text()


def alert(**more):
    row = {"alert_id": "a1b2", "rule": "loss", "severity": "critical", "state": "firing", "subject": "clicks-0"}
    times = {"first_ts": at(30), "last_ts": at(31)}
    return row | times | {"summary": "prod: LOST: 180 offsets", "labels": [("cluster", "prod")]} | more


def incident(lake):
    """A loss at 30 s with its events, and an alert on it."""
    sound(lake, health("clicks", 0))
    evidence = '{"hw":{"broker":1,"offset":300},"start":{"broker":2,"epoch":1,"offset":120}}'
    write(lake, "hw_regressions", loss(ts=at(30), evidence=evidence))
    hw = {"kind": "advance", "topic": "clicks", "leader_id": 1, "isr": [1]}
    write(lake, "partition_hw", *(hw | {"ts": at(s), "hw": 10 * s, "leader_leo": 10 * s} for s in range(1, 31)))
    place = {"topic": "clicks", "level": 3, "broker_id": 2, "source_id": "broker-2/server.log"}
    started = {"event_type": "leader", "leader_id": 2, "leader_epoch": 1, "leo": 120, "hw": 30, "isr": [2]}
    write(lake, "replication_events", place | started | {"ts": at(30), "source_seq": 254})
    write(lake, "alerts", alert())
    job_has_read(lake)


def words_of(page):
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page)))


def test_on_an_alert_it_has_what_happened_the_evidence_and_what_to_type(lake, tmp_path):
    incident(lake)
    page = words_of(report(lake, tmp_path, "--alert", "a1b2"))
    for said in (
        "critical, firing: prod: LOST: 180 offsets",
        "180 offsets lost: unclean election of broker 2 after broker 1",
        "prod/clicks-0: offsets 120..299 (180) are gone, critical",
        "start.offset120",
        "broker-2/server.log, 0, 254",
        f"hwmark show hw --lake {lake} --cluster prod --topic clicks --partition 0",
        "lost (shaded): 120..299",
    ):
        assert said in page, said


def test_on_an_alert_it_has_the_chain_of_the_loss_and_what_was_sent(lake, tmp_path):
    incident(lake)
    assert "hwmark notify has recorded no delivery" in words_of(report(lake, tmp_path, "--alert", "a1b2"))
    row = {"channel": "chat", "alert_id": "a1b2", "state": "firing", "sent_at": at(40)}
    write(lake, "deliveries", row | {"outcome": "failed", "attempt": 1, "error": "HTTP 503"})
    page = words_of(report(lake, tmp_path, "--alert", "a1b2"))
    assert "failed: HTTP 503" in page
    chain = hwmark("show", "loss", "--lake", lake, "--since", "all").output.splitlines()[-10:]
    assert chain[2].endswith("elected: unclean election of broker 2 after broker 1, leader epoch 3")
    assert [line for line in chain if line.split("  ")[-1].strip() not in page] == []


def test_on_an_incident_it_says_what_the_page_says_of_it(lake, tmp_path):
    staged.write_lake(lake, "lost")
    page = words_of(report(lake, tmp_path, "--alert", "3f2a9c0d11aa22bb"))
    asked = words_of(client_of(lake, 0).get("/incident?incident_id=3f2a9c0d11aa22bb").text)
    for said in (
        "What now Note the ranges, and tell the owners of these topics.",
        "what 1 partition lost offsets (clicks-0) topics clicks 1",
        "offline, at most 1 under min ISR, at most 69 under-replicated, at most 69 at once, in each minute",
        "clicks-0 OK 4973..5152 proven",
        "oncall: firing, accepted",
    ):
        assert said.replace(" ", "") in page.replace(" ", ""), said
        assert said.replace(" ", "") in asked.replace(" ", ""), said
    assert page.count("unclean election of broker 2 after broker 1, leader epoch 6") == 2


def test_nothing_of_it_is_fetched_and_nothing_runs(lake, tmp_path):
    incident(lake)
    page = report(lake, tmp_path, "--alert", "a1b2")

    class Links(HTMLParser):
        found: tuple = ()

        def handle_starttag(self, tag, attributes):
            outward = [(n, v) for n, v in attributes if n in ("src", "href", "action", "style") or n.startswith("on")]
            outward = [(n, v) for n, v in outward if not v.startswith("#")]  # a shape of its own
            if tag in ("script", "link", "img", "iframe", "object") or outward:
                self.found += ((tag, *outward),)

    links = Links()
    links.feed(page)
    assert links.found == ()
    assert "default-src 'none'" in page


def test_names_that_others_chose_do_nothing(lake, tmp_path):
    sound(lake, health(EVIL, 0, cluster=EVIL))
    write(lake, "hw_regressions", loss(ts=at(5), topic=EVIL, cluster=EVIL, evidence=f'{{"a": "{EVIL[:25]}"}}'))
    write(lake, "alerts", alert(summary=EVIL, subject=EVIL, labels=[("cluster", EVIL)]))
    page = report(lake, tmp_path, "--since", "all")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not {"\x1b", "\u202e"} & set(page)


def test_a_cluster_that_was_not_judged_is_said(lake, tmp_path):
    reported(lake, 1, 2)
    committed_at(lake, 0, at(0))
    page = words_of(report(lake, tmp_path))
    assert "prod: NOT JUDGED: nothing of it is reconstructed" in page
    assert "Nothing is recorded of this period. That is not the same as nothing having happened" in page


def test_a_start_that_could_not_be_judged_is_said(lake, tmp_path):
    sound(lake, health("clicks", 0))
    missing = '{"missing": ["the start offset"]}'
    row = loss(ts=at(5), severity="info", evidence=missing, lost_from=None, lost_to=None) | {
        "class": "loss_not_excluded"
    }
    write(lake, "hw_regressions", row)
    assert "prod: loss not excluded: broker 2 began leading after broker 1" in words_of(report(lake, tmp_path))


def test_what_the_last_audit_of_disks_found_is_said(lake, tmp_path):
    incident(lake)
    found = {"audit_id": "a", "audited_at": at(50), "topic": "clicks", "broker_id": 1, "kind": "cut"}
    critical = found | {"severity": "critical", "detail": "following broker 2 it cuts 120..299"}
    write(lake, "audits", critical, found | {"severity": "info", "detail": "not stopped cleanly"})
    page = words_of(report(lake, tmp_path))
    assert "Disks of prod, audited" in page
    assert "critical: broker 1, clicks-0: following broker 2 it cuts 120..299" in page
    assert "not stopped cleanly" not in page
    write(lake, "audits", found | {"audited_at": at(60), "topic": "orders", "severity": "info", "detail": "sound"})
    assert "it cuts 120..299" in words_of(report(lake, tmp_path)), "the later audit was of another topic"
    write(lake, "audits", found | {"audited_at": at(60), "severity": "info", "detail": "no longer found"})
    assert "it cuts 120..299" not in words_of(report(lake, tmp_path)), "a later audit found no such thing"


def test_after_the_end_of_a_period_nothing_is_listed(lake, tmp_path):
    incident(lake)
    page = words_of(report(lake, tmp_path, "--since", at(0).isoformat(), "--until", at(20).isoformat()))
    assert "offsets lost" not in page
    assert "broker-2/server.log, 0, 254" not in page


def test_the_end_of_a_recording_is_said(lake, tmp_path):
    sound(lake, health("orders", 0, offline=True, leader_id=-1))
    drained(lake)
    job_has_read(lake)
    assert "prod/orders-0" not in words_of(report(lake, tmp_path))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--alert", "a1b3"], "has no incident or alert a1b3; did you mean a1b2?"),
        (["--alert", "a1b2", "--cluster", "prod"], "--alert a1b2 says what the report is on"),
        (["--since", "soon"], "--since soon is no time; say 15m"),
        (["--until", "later"], "--until later is no time; say 2026-11-21T09:20:00"),
        (["--since", "2026-09-02", "--until", "2026-09-01"], "--until 2026-09-01 is before --since 2026-09-02"),
        (["--cluster", "prd"], "knows no cluster prd; did you mean prod?"),
        (["--topic", "clik"], "knows no topic clik; did you mean clicks?"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(lake, tmp_path, words, says):
    incident(lake)
    out = tmp_path / "out" / "report.html"
    out.parent.mkdir()
    done = hwmark("report", "--lake", lake, "--out", str(out), *words)
    assert done.exit_code == 2
    assert says in done.output
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(("out", "says"), [("", "is a folder: name a file in it"), ("no/r.html", "there is no folder")])
def test_a_place_that_cannot_be_written_is_said_first(lake, tmp_path, out, says):
    incident(lake)
    done = hwmark("report", "--lake", lake, "--out", str(tmp_path / out))
    assert done.exit_code == 2
    assert says in done.output


def test_a_report_that_cannot_be_written_leaves_the_old_one(lake, tmp_path, monkeypatch):
    incident(lake)
    out = tmp_path / "report.html"
    out.write_text("old")
    monkeypatch.setattr(
        "os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device", str(out)))
    )
    done = hwmark("report", "--lake", lake, "--out", str(out))
    assert done.exit_code == 1
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "report.html"]


def test_a_report_goes_through_a_link(tmp_path):
    link = tmp_path / "latest.html"
    link.symlink_to(tmp_path / "report.html")
    render.write("<p>1</p>", link)
    assert link.is_symlink()
    assert (tmp_path / "report.html").read_text() == "<p>1</p>"


def test_a_report_into_a_pipe_leaves_it_one(tmp_path):
    """/dev/null became a file, for all processes of the host, where root wrote a report there."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_text)
        render.write("<p>1</p>", pipe)
        assert read.result() == "<p>1</p>"
    assert pipe.is_fifo()
