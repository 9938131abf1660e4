"""A batch that takes many times its interval says how far it is."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from py4j import protocol

from pipelines.commands.progress import slow_line
from pipelines.lake.lake import Lake
from pipelines.lake.roles import Held
from pipelines.streaming import follow as following
from pipelines.streaming import idle
from pipelines.streaming.follow import Batch, JvmEnded, follow, is_cut_off
from pipelines.streaming.job import follow_to_end
from tests.unit.streaming.checkpoints import planned


class Query:
    """A streaming query whose first batch does not end."""

    status = {"message": "Processing new data", "isTriggerActive": True}  # noqa: RUF012
    isActive = True
    _jsq = SimpleNamespace(lastProgress=lambda: None)

    def awaitTermination(self, seconds):
        self.isActive = self.isActive and seconds is not None

    def exception(self):
        return None


@pytest.fixture
def stages(monkeypatch):
    """Two stages run; the later one has five tasks, two of them done."""
    from pyspark.sql import SparkSession

    found = {
        3: SimpleNamespace(stageId=3, numTasks=9, numCompletedTasks=9),
        4: SimpleNamespace(stageId=4, numTasks=5, numCompletedTasks=2),
        5: None,  # it ended between the two questions
    }
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(found), getStageInfo=found.get)
    session = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    monkeypatch.setattr(SparkSession, "getActiveSession", staticmethod(lambda: session))
    return found


def got(tmp_path, slow_s, **begun):
    """What is printed of the batch in flight until it was printed twice, or not for some polls."""
    running, lines, polls = Query(), [], iter(range(3))

    def on_slow(batch):
        lines.append(batch)
        running.isActive = len(lines) < 2

    class Poll(Held):
        def check(self):
            if next(polls, None) is None:
                running.isActive = False

    planned(tmp_path, 0, {"snapshot": 0, "version": 1, "index": 0, "events": 4_000_000}, **begun)
    follow(running, Lake(str(tmp_path), {}), None, lambda: False, Poll(), on_slow, slow_s)
    return lines


def test_a_slow_batch_is_told_of_again_and_again(tmp_path, stages):
    began = datetime.now(UTC) - timedelta(seconds=90)
    first, second = got(tmp_path, 0.0, done=False, at=began)
    assert (first.batch_id, first.events, first.message) == (0, 4_000_000, "Processing new data")
    assert (first.stage, first.tasks, first.tasks_done) == (4, 5, 2)
    assert 90 <= first.seconds <= second.seconds
    assert slow_line(first).startswith("batch 0 of 4,000,000 events takes ")
    assert slow_line(first).endswith(" s so far: Processing new data; 2 of 5 tasks of stage 4 done")


def test_a_batch_before_its_first_stage_says_what_spark_does(tmp_path, stages):
    stages.clear()
    first, _ = got(tmp_path, 0.0, done=False, at=datetime.now(UTC))
    assert slow_line(first).endswith(" s so far: Processing new data")


def test_a_batch_that_began_just_now_is_not_slow(tmp_path, stages):
    """The query was idle for long before it."""
    assert got(tmp_path, 0.0, done=False, at=datetime.now(UTC) + timedelta(hours=1)) == []


def test_a_query_that_waits_for_data_is_not_slow(tmp_path, stages):
    assert got(tmp_path, 0.0, done=True, at=datetime.now(UTC) - timedelta(hours=1)) == []


def test_what_is_kept_up_is_looked_after_while_the_query_runs(tmp_path):
    running, looks = Query(), []

    def upkeep():
        looks.append(running.isActive)
        running.isActive = len(looks) < 3

    follow(running, Lake(str(tmp_path), {}), None, lambda: False, Held(), slow_s=3600, upkeep=upkeep)
    assert looks == [True] * 3


def test_a_batch_whose_record_for_metrics_cannot_be_written_ends_no_run(tmp_path, monkeypatch, caplog):
    """The job ended with the store's error, though nothing that it makes depends on that file."""
    running, batch = Query(), Batch(7, 3, 1.0, 3.0, 0)
    running.isActive, told = False, []

    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(following, "_progress", lambda *_: [{}])
    monkeypatch.setattr(following, "_batch", lambda *_: batch)
    monkeypatch.setattr(Lake, "write_durably", fail)
    summary = follow(running, Lake(str(tmp_path), {}), told.append, lambda: False, Held())
    assert (told, summary.batches, summary.events) == ([batch], 1, 3)
    assert "no space left on device" in caplog.text


def test_a_jvm_that_ended_during_a_call_is_told_from_a_call_that_failed():
    """As py4j words each, without a JVM: `answer` is what came over the connection."""

    def raised(answer):
        with pytest.raises(protocol.Py4JError) as error:
            protocol.get_return_value(answer, SimpleNamespace(deque=[]), "o118", "lastProgress")
        return error.value

    assert is_cut_off(raised(protocol.ERROR))
    assert is_cut_off(raised(""))
    assert is_cut_off(protocol.Py4JNetworkError("Answer from Java side is empty"))
    assert is_cut_off(ConnectionRefusedError())
    trace = "An error occurred while calling o118.lastProgress. Trace:\npy4j.Py4JException: Method does not exist"
    assert not is_cut_off(protocol.Py4JError(trace))
    java = SimpleNamespace(_target_id="o119", _gateway_client=None)
    assert not is_cut_off(protocol.Py4JJavaError("An error occurred while calling o118.awaitTermination.\n", java))
    assert not is_cut_off(ValueError())


@pytest.mark.parametrize("during", ["the start", "a batch"])
def test_a_jvm_that_ends_ends_the_run_with_that_reason(during):
    """py4j has no type of its own for a call that was cut off half-way."""

    def cut_off(*_):
        raise protocol.Py4JError("An error occurred while calling o118.status")

    begin, follow_one = (cut_off, None) if during == "the start" else (lambda: None, cut_off)
    with pytest.raises(JvmEnded):
        follow_to_end(begin, follow_one, str)


def test_whether_nothing_is_new_is_looked_at_once_a_second(monkeypatch):
    """Each look lists the checkpoint, which may be on an object store."""
    clock, looks = [0.0], []
    monkeypatch.setattr(idle, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(idle, "newest", lambda _: (7, 0))
    monkeypatch.setattr(idle, "nothing_new", lambda *_: looks.append(clock[0]) or len(looks) == 2)
    ends, found = idle.at_end(None, None), []
    for clock[0] in (0.5, 1.0, 1.5, 2.0):
        found.append(ends())
    assert (found, looks) == ([False, False, False, True], [1.0, 2.0])
