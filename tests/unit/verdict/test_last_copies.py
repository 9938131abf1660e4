"""A broker that is away and has what is lost: its start would cut it."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.verdict.last_copies import copies_on, last_copies
from pipelines.verdict.loss_rows import steps
from schemas import brokers
from tests.unit.project import lakes

AT = datetime(2026, 11, 27, 9, 44, 50, tzinfo=UTC)


def loss(**values):
    given = {"cluster": "prod", "topic": "orders", "partition": 0, "ts": AT, "leader_id": 2, "leader_id_before": 1}
    return given | {"lost_from": 120, "lost_to": 300, "evidence": None} | values


def broker(broker_id=1, state="fenced", after_s=-1):
    return {"cluster": "prod", "broker_id": broker_id, "state": state, "state_ts": AT + timedelta(seconds=after_s)}


def texts(brokers, *losses):
    return [one.text("lake") for one in copies_on(brokers, losses or [loss()])]


@pytest.mark.parametrize("state", ["fenced", "down"])
def test_the_former_leader_that_is_down_has_what_is_lost(state):
    """`down` is what a watcher says of it."""
    assert texts([broker(state=state), broker(2, "answers")]) == [
        "broker 1 is down and has offsets 120..299 of orders-0: copy its log directory before you start it; or run "
        "`hwmark rescue --from DIR --topic orders --partition 0 --offsets 120..299 --out FILE`"
    ]


def test_one_that_was_back_since_may_have_cut_it():
    assert "broker 1 does not answer and may have offsets 120..299" in texts([broker(1, "no_answer", 600)])[0]


def test_several_partitions_are_rescued_at_once():
    (text,) = texts([broker()], *(loss(partition=k) for k in range(5)))
    assert "offsets 120..299 of orders-0, offsets 120..299 of orders-1, offsets 120..299 of orders-2 and 2 more" in text
    assert text.endswith("`hwmark rescue --from DIR --all --cluster prod --lake lake --out FOLDER`")


def test_a_follower_that_stored_a_higher_hw_has_it_too():
    evidence = '{"hw": {"by": "stored by broker 3"}}'
    assert [text[:16] for text in texts([broker(3)], loss(evidence=evidence))] == ["broker 3 is down"]


@pytest.mark.parametrize("state", ["answers", "stopping", "unknown", None])
def test_nothing_is_said_of_a_broker_that_is_not_away(state):
    assert texts([broker(1, state)]) == []


@pytest.mark.parametrize("evidence", [
    '{"broker": 3, "hw": [300, 120], "answered": {"epoch": 0, "end": 120}}', '{"hw": null}', "[]", '{"hw": {"by": 7}}',
    '{"withdrawn": true}', "", "not JSON",
])  # fmt: skip
def test_evidence_of_any_form_names_nobody_else(evidence):
    assert [text[:16] for text in texts([broker(1), broker(3)], loss(evidence=evidence))] == ["broker 1 is down"]


def test_nothing_is_said_of_the_leader_that_resumed_itself():
    assert texts([broker(1)], loss(leader_id=1)) == []


def test_it_is_read_from_the_lake_and_is_the_last_step_of_a_loss(tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    lakes.write(lake.root, "hw_regressions", lakes.loss(ts=AT, leader_id=2, leader_id_before=1))
    row = {field.name: 0 for field in brokers.ARROW if not field.nullable}
    row |= {"cluster": "prod", "broker_id": 1, "state": "fenced", "state_ts": AT}
    lake.append(brokers.TABLE, pa.Table.from_pylist([row], schema=brokers.ARROW))
    (copy,) = last_copies(lake, Filter("prod"))
    assert (copy.broker_id, copy.since_then) == (1, True)
    assert last_copies(lake, Filter("other")) == []
    (step,) = [step for step in steps(lake, copy.losses[0]) if step.name == "last copy"]
    assert step.text == copy.text(lake.root)
    assert "broker 1 is down and has offsets" in step.text
