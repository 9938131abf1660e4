"""A consumer sees what is below the HW, and repeats or skips records when it dies between two of its steps."""

from __future__ import annotations

from generators.simulator.clients.consumer import Consumer, Record, records
from generators.simulator.cluster.log import Batch, ReplicaLog, Run
from generators.simulator.cluster.replica import Replica


class Led:
    """A partition led by broker 1 (or nobody), with one value per record."""

    def __init__(self, values="abcdefghi", hw=6, batch=1):
        self.now_leads = 1
        log = ReplicaLog()
        for at in range(0, len(values), batch):
            part = tuple(values[at : at + batch])
            log.append(len(part), epoch=0, term=1, batch=Batch(values=part))
        self.held = Replica("orders", 0, "id", log, hw)

    def leader(self, topic, partition):
        return self.now_leads

    def replica(self, topic, partition, broker):
        assert broker == self.now_leads
        return self.held


def values(found):
    return "".join(record.value for record in found)


def test_a_consumer_sees_nothing_at_or_above_the_high_watermark():
    led = Led()
    consumer = Consumer(led, "orders", 0)
    assert consumer.poll() == [Record(n, "abcdef"[n]) for n in range(6)]
    assert consumer.poll() == []
    led.held.hw = 8
    assert values(consumer.poll()) == "gh"


def test_a_poll_gives_no_more_than_asked_for_even_within_a_batch():
    consumer = Consumer(Led(batch=4), "orders", 0)
    assert [values(consumer.poll(most=2)) for _ in range(3)] == ["ab", "cd", "ef"]


def test_a_consumer_waits_while_nobody_leads():
    led = Led()
    consumer = Consumer(led, "orders", 0)
    led.now_leads = None
    assert consumer.poll() == []
    led.now_leads = 1
    assert values(consumer.poll()) == "abcdef"


def test_a_position_above_the_high_watermark_but_in_the_log_waits():
    led = Led(hw=9)
    consumer = Consumer(led, "orders", 0)
    consumer.poll()
    led.held.hw = 6
    assert (consumer.poll(), consumer.position) == ([], 9)


def test_a_position_that_retention_has_deleted_is_reset():
    led = Led()
    led.held.log.advance_start(2)
    assert values(Consumer(led, "orders", 0).poll()) == "cdef"


def test_a_position_past_the_log_of_a_new_leader_is_reset():
    led = Led(hw=9)
    consumer = Consumer(led, "orders", 0)
    consumer.poll()
    led.held.truncate(4)
    assert values(consumer.poll()) == "abcd"


def test_committing_after_processing_repeats():
    consumer = Consumer(Led(), "orders", 0)
    consumer.step(2)
    consumer.step(2, dies=True)
    consumer.step()
    assert values(consumer.processed) == "abcdcdef"


def test_committing_before_processing_skips():
    consumer = Consumer(Led(), "orders", 0, commits_first=True)
    consumer.step(2)
    consumer.step(2, dies=True)
    consumer.step()
    assert values(consumer.processed) == "abef"


def test_a_restart_begins_at_the_last_commit():
    consumer = Consumer(Led(), "orders", 0)
    consumer.step(2)
    consumer.poll(2)
    consumer.restart()
    assert (consumer.position, consumer.committed) == (2, 2)


def test_records_of_a_run_that_begins_within_its_batch_have_its_last_values():
    assert list(records([Run(12, 14, 0, 1, Batch(values=("a", "b", "c")))])) == [Record(12, "b"), Record(13, "c")]


def test_records_without_a_batch_have_no_value():
    assert list(records([Run(3, 5, 0, 1)])) == [Record(3, None), Record(4, None)]
