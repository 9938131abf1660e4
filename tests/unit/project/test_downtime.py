"""`hwmark downtime`, `note` and `show incidents`: what people plan and say, and what they see of incidents."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from pipelines.alerting.evaluate import evaluate
from pipelines.alerting.lookup import read_downtimes, read_incidents, read_states
from pipelines.alerting.outbox import in_order
from pipelines.cli import app
from pipelines.commands import clock
from pipelines.lake.lake import Lake
from pipelines.settings import load
from tests.unit.notify.notified import ago, fresh, frozen, lost
from tests.unit.project import lakes


def hwmark(*words):
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture
def lake(tmp_path):
    """Cluster prod has brokers 1 and 2, of racks a and b."""
    place = str(tmp_path / "lake")
    fresh(place)
    rows = [{"cluster": "prod", "broker_id": n, "rack": rack, "ts": ago(0)} for n, rack in ((1, "a"), (2, "b"))]
    lakes.write(place, "brokers", *rows)
    return place


def test_a_window_is_opened_listed_and_ended(lake):
    done = hwmark("downtime", "--cluster", "prod", "--broker", 2, "--for", "2h", "--reason", "kernel", "--lake", lake)
    assert done.exit_code == 0, done.output
    (window,) = read_downtimes(Lake(lake))
    assert (window.brokers, window.until - window.begins, window.reason) == ((2,), timedelta(hours=2), "kernel")
    assert done.output.startswith(f"{window.downtime_id}: broker 2 of prod may be away until ")
    listed = hwmark("downtime", "list", "--lake", lake).output
    assert all(word in listed for word in (window.downtime_id, "open", "kernel"))
    assert hwmark("downtime", "end", window.downtime_id, "--lake", lake).output == f"{window.downtime_id}: ended\n"
    (window,) = read_downtimes(Lake(lake))
    assert window.until <= clock.now()
    assert "ended" in hwmark("downtime", "list", "--lake", lake).output
    again = hwmark("downtime", "end", window.downtime_id, "--lake", lake)
    assert (again.exit_code, "already" in again.output) == (2, True)


def test_a_rack_is_its_brokers(lake):
    assert hwmark("downtime", "--cluster", "prod", "--rack", "b", "--lake", lake).exit_code == 0
    assert hwmark("downtime", "--cluster", "prod", "--all", "--lake", lake).exit_code == 0
    assert [(one.brokers, one.rack) for one in read_downtimes(Lake(lake))] == [((2,), "b"), (None, None)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cluster", "prod"], "needs --cluster NAME, and --broker N, --rack R or --all"),
        (["--broker", "2"], "needs --cluster NAME"),
        (["--cluster", "prod", "--broker", "2", "--all"], "needs --cluster NAME"),
        (["--cluster", "prod", "--broker", "9"], "prod has no broker 9; it has 1, 2"),
        (["--cluster", "prod", "--rack", "c"], "prod has no rack 'c'"),
        (["--cluster", "prd", "--all"], "prod"),
        (["--cluster", "prod", "--all", "--for", "soon"], "--for is 'soon'"),
        (["--cluster", "prod", "--all", "--for", "0"], "--for is '0'"),
        (["end", "4f1c"], "has no downtime 4f1c"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_written(lake, words, said):
    done = hwmark("downtime", *words, "--lake", lake)
    assert done.exit_code == 2
    assert said in done.output
    assert read_downtimes(Lake(lake)) == []


def test_incidents_are_shown_and_a_note_handles_the_loss_in_one_and_ends_no_outage(lake):
    frozen(lake)
    lost(lake, 30, topic="orders", partition=0)
    evaluate(lake)
    shown = json.loads(hwmark("show", "incidents", "--format", "json", "--lake", lake).output)
    assert [(row["state"], row["severity"], row["cluster"]) for row in shown] == [("open", "critical", "prod")]
    assert "LOST prod: " in hwmark("show", "incidents", "--lake", lake).output
    for partition, count in ((0, 1), (1, 0)):
        about = "--topic", "orders", "--partition", partition
        found = hwmark("show", "incidents", *about, "--format", "json", "--lake", lake).output
        assert len(json.loads(found)) == count, about
    name = shown[0]["incident_id"]
    done = hwmark("note", "--cluster", "prod", "--incident", name, "--handled", "sent again", "--lake", lake)
    assert done.exit_code == 0, done.output
    evaluate(lake)
    states = {one.rule: one.firing for one in in_order(read_states(Lake(lake)))}
    assert states == {"under_min_isr": True, "loss": False}
    last = read_incidents(Lake(lake))[-1]
    assert (last.incident_id, len(last.firing), last.state) == (name, 1, "open")
    assert "prod: LOST, handled: " in hwmark("show", "verdict", "--lake", lake).output


def test_a_yes_of_the_gate_opens_a_downtime_and_a_no_none(lake):
    from pipelines.commands.gate import command
    from pipelines.gate.facts import Facts

    settings = load(flags={"lake": {"path": lake}})
    facts = Facts("prod", frozenset({2}), (), ago(0), "gold", controllers_apart=True)
    for given in (facts, replace(facts, stale="nothing was read")):
        command.gate(
            lambda given=given: given, command.Printing(), 0, opens=lambda f: command.open_downtime(settings, f, 900)
        )
    assert [one.brokers for one in read_downtimes(Lake(lake))] == [(2,)]
    refused = hwmark("gate", "--broker", 2, "--bootstrap", "localhost:1", "--downtime", "15m")
    assert (refused.exit_code, "--downtime is written into a lake" in refused.output) == (2, True)


def test_the_help_of_downtime_has_its_examples():
    said = hwmark("downtime", "--help").output
    assert 'hwmark downtime --cluster prod --broker 2 --for 2h --reason "kernel 6.12" --lake lake' in said
