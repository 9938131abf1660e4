"""A producer: what it sends again, in which order, and under which numbers."""

from __future__ import annotations

from itertools import count, pairwise

import pytest

from generators.simulator.clients.producer import Producer, ProducerSettings
from generators.simulator.cluster.event_queue import EventQueue
from generators.simulator.cluster.leader_requests import Produced
from generators.simulator.cluster.log import ReplicaLog
from generators.simulator.cluster.producer_state import Duplicate, ProducerStates, Rejected
from generators.simulator.cluster.settings import MS, Settings

PLAIN = ProducerSettings(idempotence=False)
IDEMPOTENT = ProducerSettings()


class Leader:
    """One broker that leads everything and takes a ms for each request; `fates` has the outcome of each in turn.

    `request lost`, `answer lost`: before or after it was stored; an error's name: refused with it; else all is well.
    """

    def __init__(self, *fates):
        self.settings = Settings()
        self.event_queue = EventQueue(0)
        self.logs = {}
        self.requests = []
        self.fates = list(fates)

    def log(self, partition=0):
        return self.logs.setdefault(partition, ReplicaLog())

    def produce(self, topic, partition, count=1, acks=1, batch=None, done=None):
        fate = self.fates.pop(0) if self.fates else ""
        self.requests.append((self.event_queue.now // MS, batch))
        self.event_queue.after(MS, self._handle, fate, partition, count, batch, done or (lambda answer: None))

    def _handle(self, fate, partition, count, batch, done):
        if fate == "request lost":
            done(Produced("NETWORK_EXCEPTION"))
        elif fate not in ("", "answer lost"):
            done(Produced(fate))
        else:
            answer = self._append(self.log(partition), count, batch)
            done(Produced("NETWORK_EXCEPTION") if fate else answer)

    def _append(self, log, count, batch):
        known = ProducerStates.of(log).check(batch, count)
        if isinstance(known, Rejected):
            return Produced(known.error)
        if isinstance(known, Duplicate):
            return Produced(None, *known)
        return Produced(None, *log.append(count, 0, 1, batch))

    def stored(self, partition=0):
        return [value for run in self.log(partition).runs for value in run.batch.values]


def sending(settings, *fates, values="abc"):
    """One producer that sends each value as a batch of its own, all at once; everything has come to rest."""
    leader = Leader(*fates)
    producer = Producer(leader, "orders", count(1000), settings)
    sent = [producer.send(0, value) for value in values]
    leader.event_queue.drain()
    return leader, producer, sent


def test_acknowledged_at_the_offsets_the_leader_names():
    _, _, sent = sending(PLAIN)
    assert [s.answer for s in sent] == [Produced(None, n, n) for n in range(3)]


def test_acks_0_is_content_with_having_sent():
    leader, _, sent = sending(ProducerSettings(acks=0, idempotence=False), "", "request lost")
    assert all(s.acknowledged and s.attempts == 1 for s in sent)
    assert leader.stored() == ["a", "c"]


def test_a_lost_request_is_sent_again_and_stored_once():
    leader, _, sent = sending(PLAIN, "request lost", values="a")
    assert (leader.stored(), sent[0].attempts, sent[0].errors) == (["a"], 2, ["NETWORK_EXCEPTION"])


def test_a_lost_answer_makes_a_plain_producer_store_twice():
    leader, _, _ = sending(PLAIN, "answer lost", values="a")
    assert leader.stored() == ["a", "a"]


def test_a_lost_answer_makes_an_idempotent_producer_store_once():
    leader, _, sent = sending(IDEMPOTENT, "answer lost", values="a")
    assert leader.stored() == ["a"]
    assert sent[0].answer == Produced(None, 0, 0)


def test_without_retries_the_error_is_the_answer():
    settings = ProducerSettings(idempotence=False, retries=0)
    _, _, sent = sending(settings, "NOT_ENOUGH_REPLICAS", values="a")
    assert sent[0].answer == Produced("NOT_ENOUGH_REPLICAS")


def test_an_error_that_stays_is_not_retried():
    _, _, sent = sending(PLAIN, "MESSAGE_TOO_LARGE", values="a")
    assert (sent[0].answer, sent[0].attempts) == (Produced("MESSAGE_TOO_LARGE"), 1)


def test_pauses_double_up_to_their_bound():
    leader, _, _ = sending(PLAIN, *["request lost"] * 6, values="a")
    times = [at for at, _ in leader.requests]
    assert [b - a - 1 for a, b in pairwise(times)] == [100, 200, 400, 800, 1000, 1000]


def test_the_delivery_timeout_ends_the_retries():
    settings = ProducerSettings(idempotence=False, delivery_timeout_ms=500)
    leader, _, sent = sending(settings, *["request lost"] * 9, values="a")
    assert sent[0].answer == Produced("NETWORK_EXCEPTION")
    assert [at for at, _ in leader.requests] == [0, 101, 302]


def test_no_more_than_max_in_flight_at_once():
    leader, _, _ = sending(ProducerSettings(max_in_flight=2), values="abcde")
    assert [at for at, _ in leader.requests] == [0, 0, 1, 1, 2]


def test_partitions_do_not_wait_for_each_other():
    leader = Leader("request lost")
    producer = Producer(leader, "orders", count(1000))
    producer.send(0, "a")
    producer.send(1, "b")
    leader.event_queue.run(2 * MS)
    assert (leader.stored(0), leader.stored(1)) == ([], ["b"])


def test_several_in_flight_change_places_when_one_is_sent_again():
    leader, _, _ = sending(PLAIN, "request lost")
    assert leader.stored() == ["b", "c", "a"]


def test_one_in_flight_keeps_the_order():
    leader, _, _ = sending(ProducerSettings(idempotence=False, max_in_flight=1), "request lost")
    assert leader.stored() == ["a", "b", "c"]


def test_idempotence_keeps_the_order_with_several_in_flight():
    """c and d come out of order and wait for b."""
    leader, _, sent = sending(IDEMPOTENT, "", "request lost", values="abcd")
    assert leader.stored() == ["a", "b", "c", "d"]
    assert [s.attempts for s in sent] == [1, 2, 2, 2]


def test_a_first_batch_that_is_overtaken_never_gets_in():
    """A leader that knows nothing of a producer takes any number, and then none before it (KAFKA-14359)."""
    leader, producer, sent = sending(IDEMPOTENT, "request lost")
    assert leader.stored() == ["b", "c"]
    assert sent[0].answer == Produced("OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert leader.event_queue.now // MS == pytest.approx(IDEMPOTENT.delivery_timeout_ms, abs=1000)
    assert producer.epoch == 1


def test_idempotent_batches_are_numbered_by_record_and_partition():
    leader = Leader()
    producer = Producer(leader, "orders", count(1000))
    for partition, values in ((0, "ab"), (0, "cde"), (1, "f"), (0, "g")):
        producer.send(partition, *values)
    assert [(b.producer, b.producer_epoch, b.first_sequence) for _, b in leader.requests] == [
        (1000, 0, 0), (1000, 0, 2), (1000, 0, 0), (1000, 0, 5),
    ]  # fmt: skip


def test_a_plain_producer_has_no_numbers():
    leader, _, _ = sending(PLAIN, values="a")
    assert leader.requests[0][1][:3] == (-1, -1, -1)


def test_a_retry_carries_the_same_numbers():
    leader, _, _ = sending(IDEMPOTENT, "request lost", values="a")
    assert leader.requests[0][1] == leader.requests[1][1]


def test_a_restarted_producer_has_a_new_id_and_begins_at_0():
    leader, producer, _ = sending(IDEMPOTENT)
    producer.restart()
    producer.send(0, "d")
    assert leader.requests[-1][1][:3] == (1001, 0, 0)


def test_idempotence_does_not_reach_over_a_restart():
    """The process ends before the answer; the next one knows no better than to send the value again."""
    leader = Leader("answer lost")
    producer = Producer(leader, "orders", count(1000))
    producer.send(0, "a")
    producer.restart()
    producer.send(0, "a")
    leader.event_queue.drain()
    assert leader.stored() == ["a", "a"]


def test_a_restarted_producer_has_forgotten_what_it_was_to_send():
    leader = Leader("request lost")
    producer = Producer(leader, "orders", count(1000))
    sent = producer.send(0, "a")
    producer.restart()
    leader.event_queue.drain()
    assert (leader.stored(), sent.answer, len(leader.requests)) == ([], None, 1)


def test_after_a_failed_batch_numbers_begin_again_in_the_next_epoch():
    """Without that the leader would refuse all that follows as out of order."""
    leader, _, sent = sending(IDEMPOTENT, "", "MESSAGE_TOO_LARGE", values="abcd")
    assert leader.stored() == ["a", "c", "d"]
    assert [s.answer.error for s in sent] == [None, "MESSAGE_TOO_LARGE", None, None]
    assert [r.batch[:3] for r in leader.log().runs] == [(1000, 0, 0), (1000, 1, 0), (1000, 1, 1)]


def test_a_leader_that_lost_records_gets_a_new_epoch():
    """After an unclean election it expects a number that the producer has long passed."""
    leader, producer, _ = sending(IDEMPOTENT)
    leader.log().truncate(1)
    producer.send(0, "d")
    leader.event_queue.drain()
    assert leader.stored() == ["a", "d"]
    assert leader.log().runs[-1].batch[:3] == (1000, 1, 0)


def test_in_a_cluster_moved_by_a_script_it_retries_on_request():
    leader = Leader("request lost")
    leader.settings = Settings(automatic=False)
    producer = Producer(leader, "orders", count(1000))
    producer.send(0, "a")
    leader.event_queue.drain()
    assert leader.stored() == []
    producer.retry()
    leader.event_queue.drain()
    assert leader.stored() == ["a"]
