"""A watcher beside brokers that do what brokers do: leaders move, topics come and go, brokers hang."""

import socket
import threading
import time

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, BrokerVersionData

from generators.cluster import controllers
from generators.cluster.asking.decoded import MOST_BROKERS, TopicFilter
from generators.cluster.asking.problems import NotAnswering
from generators.cluster.asking.round import Pace
from generators.cluster.watch import watch
from generators.cluster.watcher import WatchOptions
from pipelines.lake.roles import RoleHeld, hold
from pipelines.replication.kafka_versions import reported_rules
from tests.cluster.fake_kafka import TOPIC_REFUSED, FakeCluster
from tests.cluster.watching import watching


@pytest.fixture
def cluster():
    with FakeCluster() as one:
        orders = one.topic("orders", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        for partition in orders.partitions:
            partition.write(100, 90)
        yield one


def samples(watcher, **wanted):
    return watcher.rows("topic", "partition", "leo", "hw", event_type="sample", **wanted)


def states_of(watcher, broker):
    """What was told of whether a broker answers, not of the controllers."""
    rows = watcher.rows("detail", event_type="broker_state", broker_id=broker)
    return [detail for detail in rows if not detail.startswith("quorum")]


def test_every_replica_is_asked_of_its_own_broker(cluster, tmp_path):
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(3)
    for broker in (1, 2, 3):
        led = broker - 1
        assert sorted(samples(watcher, broker_id=broker), key=lambda row: row[1]) == [
            ("orders", k, 100, 90 if k == led else None) for k in range(3)
        ]
    assert watcher.rows("source_id", event_type="progress", broker_id=2)[0] == "watch/main/broker-2"
    assert watcher.error is None


def test_numbers_are_contiguous_and_a_restart_is_another_epoch(cluster, tmp_path):
    for _ in range(2):
        with watching(cluster, tmp_path) as watcher:
            cluster.topics["orders"].partitions[0].write(150)
            watcher.rounds(1, 2)
            cluster.topics["orders"].partitions[0].write(160)
            watcher.rounds(1, 2)
    for source in ("watch/main/broker-1", "watch/main/broker-3"):
        for epoch in (0, 1):
            numbers = watcher.rows("source_seq", source_id=source, source_epoch=epoch)
            assert numbers == list(range(len(numbers)))
            assert len(numbers) > 5
            seqs = watcher.rows("seq", source_id=source, source_epoch=epoch, topic="orders", partition=0)
            assert seqs == list(range(len(seqs)))


def test_the_hw_is_asked_before_the_log_end(cluster, tmp_path):
    asked = []
    cluster.on_request = lambda broker, request: (
        asked.append(request.replica_id) if type(request).__name__ == "ListOffsetsRequest" and broker == 1 else None
    )
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(1, 2)
    assert asked[:4] == [-1, -2, -1, -2]


def test_a_leader_that_dies_and_the_one_that_follows(cluster, tmp_path):
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(2)
        partition = cluster.topics["orders"].partitions[0]
        cluster.stop(1)
        partition.elect(2, start=95, isr=[2, 3])
        watcher.until(lambda: watcher.rows("leo", event_type="leader", broker_id=2, partition=0), "the new term")
        cluster.start(1)
        watcher.until(lambda: watcher.rows("detail", event_type="lost", broker_id=1), "broker 1 again")
        watcher.rounds(1)
    assert watcher.rows("leo", "hw", "leader_epoch", event_type="leader", broker_id=2, partition=0) == [(95, -1, 1)]
    isrs = watcher.rows("leader_id", "leader_epoch", "isr", event_type="isr", partition=0)
    assert (2, 1, [2, 3]) in isrs
    (lost,) = watcher.rows("detail", event_type="lost", broker_id=1)
    assert "it refuses connections" in lost
    states = states_of(watcher, 1)
    assert states[0] == states[-1] == "answers"
    assert set(states[1:-1]) <= {"no_answer: refused", "no_answer: closed", "no_answer: refused, not listed"}
    assert states[-2] == "no_answer: refused, not listed", "another broker's metadata, answered later, lists it no more"
    assert states_of(watcher, 2) == ["answers"]


def test_a_refusal_is_a_row_of_its_round_and_one_slow_answer_is_none(cluster, tmp_path):
    with watching(cluster, tmp_path, interval_s=0.5) as watcher:
        watcher.rounds(2)
        cluster.brokers[2].delay_s = 0.7
        watcher.rounds(2, 1)
        cluster.brokers[2].delay_s = 0.0
        watcher.rounds(2, 1)
        assert states_of(watcher, 2) == ["answers"]
        cluster.stop(2)
        watcher.until(lambda: len(states_of(watcher, 2)) >= 4, "refusals")
    rounds = watcher.rows("ts", event_type="progress", broker_id=1)
    refused = [ts for ts, detail in watcher.rows("ts", "detail", event_type="broker_state", broker_id=2)
               if detail != "answers"]  # fmt: skip
    meanwhile = [ts for ts in rounds if refused[0] <= ts <= refused[-1]]
    assert abs(len(refused) - 1 - len(meanwhile)) <= 1


def test_an_answer_as_leader_of_a_broker_that_most_others_do_not_list_confirms_nothing(cluster, tmp_path):
    """A broker that is cut off from the controllers goes on answering as leader."""
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(1, 2)
        cluster.brokers[1].listed = False
        watcher.until(lambda: "answers, not listed" in states_of(watcher, 1))
        cluster.topics["orders"].partitions[0].write(300, 300)
        watcher.until(lambda: 300 in watcher.rows("leo", event_type="sample", broker_id=1, partition=0), "its log end")
    assert watcher.rows("leader_epoch", "hw", event_type="sample", broker_id=1, partition=0)[-1] == (None, None)


def test_a_broker_without_the_listener_that_is_asked_leads_on_and_is_not_down(cluster, tmp_path):
    """Metadata answer LISTENER_NOT_FOUND and leader -1 for it; a broker that is down has another leader, or error 5."""
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(2, 2)
        cluster.brokers[1].other_listener = True
        cluster.stop(1)
        cluster.brokers[1].up = True
        watcher.until(lambda: len(states_of(watcher, 1)) >= 4, "a broker that does not answer")
    assert watcher.rows("leader_id", "isr", event_type="isr", partition=0) == [(1, [1, 2, 3]), (None, [1, 2, 3])]
    assert not any("not listed" in state for state in states_of(watcher, 1))


def test_the_end_is_asked_of_the_last_epoch_of_which_a_hw_is_known(cluster, tmp_path):
    """HW 300 in epoch 0, epoch 1 from 120 up to 310, epoch 2 from 310: asked for epoch 1 it says 310, for 0 120."""
    end = "leo", "leader_epoch", "detail"
    partition = cluster.topics["orders"].partitions[0]
    with watching(cluster, tmp_path) as watcher:
        partition.write(300)
        watcher.until(lambda: 300 in watcher.rows("hw", event_type="sample", broker_id=1, partition=0), "its HW")
        partition.starts[1], partition.epoch = 120, 1
        partition.elect(2, start=310, isr=[2, 3])
        watcher.until(lambda: watcher.rows("leo", event_type="leader", broker_id=2, partition=0), "the new term")
        watcher.rounds(2)
        partition.elect(3, start=320)
        watcher.until(lambda: watcher.rows("leo", event_type="leader", broker_id=3, partition=0), "the next term")
    assert watcher.rows(*end, event_type="leader", broker_id=2, partition=0) == [(310, 2, "epochs=1:120 2:310")]
    assert watcher.rows(*end, event_type="leader", broker_id=3, partition=0) == [(320, 3, None)]
    with watching(cluster, tmp_path) as again:
        again.rounds(3)
    assert again.rows(*end, event_type="leader", broker_id=3, partition=0)[-1] == (320, 3, "epochs=1:120 2:310 3:320")


def test_a_leader_that_moves_between_metadata_and_offsets(cluster, tmp_path):
    partition = cluster.topics["orders"].partitions[0]
    moved = []

    def move(broker, request):
        if type(request).__name__ == "ListOffsetsRequest" and broker == 1 and len(moved) == 2:
            partition.elect(3, start=100)
        moved.append(broker) if type(request).__name__ == "ListOffsetsRequest" and broker == 1 else None

    cluster.on_request = move
    with watching(cluster, tmp_path) as watcher:
        watcher.until(lambda: watcher.rows("leo", event_type="leader", broker_id=3, partition=0), "the new term")
        watcher.rounds(1)
    assert [hw for *_, hw in samples(watcher, broker_id=1, partition=0)] == [90, None]
    assert not watcher.rows("detail", event_type="lost")


def test_a_broker_that_hangs_holds_up_nobody_and_is_a_gap_afterwards(cluster, tmp_path):
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(2)
        cluster.brokers[2].hung = True
        watcher.until(lambda: watcher.noted("broker 2 does not answer: it does not answer in time"))
        before = len(watcher.rows("ts", event_type="progress", broker_id=2))
        watcher.rounds(1, 3)
        watcher.rounds(3, 3)
        assert len(watcher.rows("ts", event_type="progress", broker_id=2)) == before
        cluster.brokers[2].hung = False
        watcher.rounds(2, 2)
    (lost,) = watcher.rows("detail", event_type="lost")
    assert lost.startswith("from ")
    assert "without an answer: it does not answer in time" in lost  # on a busy machine the watcher stands still, too
    assert watcher.noted("broker 2 answers again")
    numbers = watcher.rows("source_seq", broker_id=2)
    assert numbers == list(range(len(numbers)))


def test_a_broker_that_hangs_is_asked_again_at_once_and_then_as_often_as_others(cluster, tmp_path):
    """Its second missed answer counts: it does not wait for the next round."""
    with watching(cluster, tmp_path, interval_s=3.0, timeout_s=0.3) as watcher:
        watcher.until(lambda: states_of(watcher, 2) == ["answers"])
        cluster.brokers[2].hung = True
        watcher.until(lambda: len(states_of(watcher, 2)) == 4, "missed answers")
    first, second, third = watcher.rows("ts", detail="no_answer: timed out", broker_id=2)
    assert (second - first).total_seconds() < 1.5 < (third - second).total_seconds()


def test_a_slow_broker_has_fewer_rounds_and_no_gap(cluster, tmp_path):
    cluster.brokers[2].delay_s = 0.15
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(2, 3)
    assert not watcher.rows("detail", event_type="lost")
    fewer, more = (len(watcher.rows("ts", event_type="progress", broker_id=b)) for b in (2, 3))
    assert fewer < more
    assert max(watcher.rows("ts_error_ms", event_type="sample", broker_id=2)) >= 75


def test_topics_come_go_and_come_again(cluster, tmp_path):
    with watching(cluster, tmp_path) as watcher:
        first = cluster.topic("clicks", [1, 2])
        first.partitions[0].write(7)
        watcher.until(lambda: samples(watcher, topic="clicks", broker_id=2), "the new topic")
        del cluster.topics["clicks"]
        watcher.until(lambda: len(watcher.rows("ts", event_type="lost", topic="clicks")) == 2, "its end")
        again = cluster.topic("clicks", [1, 2])
        watcher.until(lambda: len(samples(watcher, topic="clicks", broker_id=2)) == 2, "the same name again")
    ids = watcher.rows("topic_id", event_type="sample", topic="clicks", broker_id=2)
    assert len(set(ids)) == 2
    assert first.topic_id != again.topic_id
    assert watcher.rows("seq", topic="clicks", partition=0, broker_id=2) == [0, 1, 2]


def test_a_partition_that_is_refused_is_lost_and_the_others_go_on(cluster, tmp_path):
    cluster.topics["orders"].partitions[1].errors[3] = TOPIC_REFUSED
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(3, 2)
    assert watcher.rows("partition", "detail", event_type="lost") == [(1, "not answered: TOPIC_AUTHORIZATION_FAILED")]
    assert watcher.noted("offsets of topic orders are refused: allow DESCRIBE on it; the others are watched")
    assert {partition for _, partition, *_ in samples(watcher, broker_id=3)} == {0, 2}


def test_topics_that_may_not_be_described_are_named_and_the_others_watched(cluster, tmp_path):
    cluster.topic("secret", [1], refused=True)
    names = TopicFilter(("orders", "secret", "nowhere"))
    with watching(cluster, tmp_path, topics=names) as watcher:
        watcher.rounds(1)
    assert watcher.noted("topic secret may not be described: allow DESCRIBE on it; the others are watched")
    assert watcher.noted("topic nowhere is not there: UNKNOWN_TOPIC_OR_PARTITION")


def test_settings_are_rows_and_without_the_right_it_is_said(cluster, tmp_path):
    cluster.topics["orders"].min_isr = 2
    with watching(cluster, tmp_path / "may") as watcher:
        watcher.rounds(1)
    assert watcher.rows("lag_max_ms", "min_isr", event_type="config", broker_id=2, topic=None, detail=None) == [
        (30000, 1)
    ]
    assert (("orders", 2)) in watcher.rows("topic", "min_isr", event_type="config")
    assert "rack=rack-3" in watcher.rows("detail", event_type="config", broker_id=3)
    cluster.describe_configs = False
    with watching(cluster, tmp_path / "may not") as watcher:
        watcher.rounds(1)
    assert watcher.noted("replica.lag.time.max.ms may not be read: allow DESCRIBE_CONFIGS on the cluster")
    assert watcher.noted("min.insync.replicas of 1 topics may not be read: allow DESCRIBE_CONFIGS on them")
    assert not watcher.rows("min_isr", event_type="config", detail=None)


def test_the_release_of_a_broker_is_told_at_its_first_answer_and_once_it_is_another(cluster, tmp_path):
    cluster.versions[1] = 4, 17
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(2, 2)
        cluster.stop(2)
        cluster.versions[0] = 3, 13
        watcher.until(lambda: watcher.noted("broker 2 does not answer"))
        cluster.start(2)
        watcher.until(lambda: watcher.noted("broker 2 answers again"))
        watcher.rounds(2, 2)
    told = [row for row in watcher.rows("broker_id", "detail", event_type="config") if "kafka=" in (row[1] or "")]
    assert sorted(told) == [(1, "kafka=3.9"), (2, "kafka=3.9"), (2, "kafka=4.1"), (3, "kafka=3.9")]


@pytest.mark.parametrize("requests", sorted(BROKER_API_VERSIONS.items())[4:], ids=str)
def test_releases_with_other_rules_know_other_requests(requests):
    release, known = requests
    told = BrokerVersionData(api_versions=known).broker_version_str
    rules = reported_rules(f"kafka={told}")
    assert rules is not None
    assert rules == reported_rules(f"kafka={'.'.join(map(str, release))}")


@pytest.mark.parametrize(
    ("topics", "watched"),
    [
        (TopicFilter(), {"orders"}),
        (TopicFilter(internal=True), {"orders", "__consumer_offsets"}),
        (TopicFilter(("o*", "c*")), {"orders"}),
        (TopicFilter(("__consumer_offsets",)), {"__consumer_offsets"}),
        (TopicFilter(exclude=("ord*",), internal=True), {"__consumer_offsets"}),
    ],
)
def test_which_topics_are_watched(cluster, tmp_path, topics, watched):
    cluster.topic("__consumer_offsets", [1], internal=True)
    with watching(cluster, tmp_path, topics=topics) as watcher:
        watcher.rounds(1)
    assert set(watcher.rows("topic", event_type="isr")) == watched


def test_a_wrong_answer_ends_the_connection_and_not_the_watcher(cluster, tmp_path):
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(3)
        cluster.brokers[3].garbage = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        watcher.until(lambda: watcher.noted("broker 3 does not answer: what answers there is no Kafka broker"))
        cluster.brokers[3].garbage = b""
        watcher.rounds(3)
    assert watcher.error is None


@pytest.mark.parametrize("count", [500, 5_000])
def test_brokers_that_are_only_listed_cost_no_threads(cluster, tmp_path, count):
    """5,000 invented ones made 5,019 threads."""
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(1)
        before = threading.active_count()
        cluster.invented = count
        if count > MOST_BROKERS:
            words = "its metadata are not believed: brokers has 5,003 entries, at most 2,000 are asked"
            watcher.until(lambda: watcher.noted(words))
        watcher.rounds(1, 3)
        assert threading.active_count() < before + 10


def test_the_broker_that_describes_hangs_and_another_does(cluster, tmp_path):
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(1)
        cluster.brokers[1].hung = True
        cluster.topics["orders"].partitions[1].isr = [2, 3]
        watcher.until(lambda: [2, 3] in watcher.rows("isr", event_type="isr", partition=1), "the ISR by another broker")
        cluster.brokers[1].hung = False


def test_a_broker_with_a_stale_isr_is_not_believed(cluster, tmp_path, monkeypatch):
    """Nor is there an expand and a shrink when it comes to describe, and again another one."""
    monkeypatch.setattr("generators.cluster.metadata_source.DESCRIBES_FOR_S", 0.5)  # it was passed over while busy
    cluster.topics["orders"].partitions[1].isr = [2, 3]
    cluster.brokers[2].stale_isr = {("orders", 1): [1, 2, 3]}
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(3)
        cluster.brokers[1].hung = True
        watcher.until(lambda: watcher.noted("metadata of broker 2 is older"), "the doubt")
        cluster.brokers[1].hung = False
        watcher.rounds(1, 3)
    assert set(map(tuple, watcher.rows("isr", event_type="isr", partition=1))) == {(2, 3)}


def test_a_describer_whose_metadata_stand_still_is_found_out(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("generators.cluster.metadata_source.DESCRIBES_FOR_S", 0.5)
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(1)
        cluster.brokers[1].stale_isr = {("orders", 1): [2, 3, 1]}
        cluster.topics["orders"].partitions[1].isr = [2, 3]
        watcher.until(lambda: [2, 3] in watcher.rows("isr", event_type="isr", partition=1), "the ISR by two others")
        watcher.rounds(3, 6)
    assert watcher.rows("isr", event_type="isr", partition=1) == [[1, 2, 3], [2, 3]]


def test_while_brokers_list_others_than_the_rest_each_tells_the_metadata_for_a_round(tmp_path):
    """Most of the brokers that answer may be those that are cut off from the controllers."""
    with FakeCluster(5) as cluster:
        partition = cluster.topic("orders", [1, 2, 3, 4, 5]).partitions[0]
        partition.write(100)
        with watching(cluster, tmp_path) as watcher:
            watcher.rounds(1, 2)
            cluster.cut_off(1, 2, 3)
            partition.elect(4, start=100, isr=[4, 5])
            watcher.until(lambda: (4, 1, [4, 5]) in watcher.rows("leader_id", "leader_epoch", "isr", event_type="isr"))
            watcher.rounds(4, 5)
        assert watcher.rows("leader_id", "leader_epoch", event_type="isr") == [(1, 0), (4, 1)]
        assert watcher.rows("leo", event_type="leader", broker_id=4) == [100]


def test_an_isr_that_only_one_broker_is_left_to_tell_is_believed(cluster, tmp_path):
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(1)
        for broker in (1, 3):
            cluster.stop(broker)
        cluster.topics["orders"].partitions[1].isr = [2]
        watcher.until(lambda: [2] in watcher.rows("isr", event_type="isr", partition=1), "the ISR")


def test_metadata_that_says_the_same_is_not_decoded_again(cluster, tmp_path, monkeypatch):
    from generators.cluster.asking import decoded

    described, calls = decoded.described, []
    monkeypatch.setattr(decoded, "described", lambda *given: calls.append(1) or described(*given))
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(1, 4)
        assert len(calls) == 2  # of the server that was named, and of the broker that describes
        cluster.topics["orders"].partitions[1].isr = [2, 3]
        watcher.until(lambda: [2, 3] in watcher.rows("isr", event_type="isr", partition=1), "the ISR")
        assert len(calls) == 3


def test_metadata_that_takes_longer_than_a_round_is_used_when_it_comes(cluster, tmp_path, monkeypatch):
    """Of a large cluster it takes seconds: the offsets are asked by the metadata of before."""
    monkeypatch.setattr("generators.cluster.watcher.METADATA_WAITED_S", 0.05)
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(1)
        for broker in cluster.brokers.values():
            broker.delay_s = 0.15
        cluster.topics["orders"].partitions[1].isr = [2, 3]
        watcher.until(lambda: [2, 3] in watcher.rows("isr", event_type="isr", partition=1), "the ISR")
        watcher.rounds(3, 2)
    assert not watcher.rows("detail", event_type="lost")


def test_a_rate_limit_makes_rounds_longer(cluster, tmp_path, monkeypatch):
    """Three partitions in three requests at four a second: the third is asked half a second after the first."""
    monkeypatch.setattr("generators.cluster.asking.plan.PARTITIONS_OF_A_REQUEST", 1)
    with watching(cluster, tmp_path, pace=Pace(4)) as watcher:
        watcher.rounds(1)
    first, *_, last = watcher.rows("ts", event_type="sample", broker_id=1)[:3]
    assert (last - first).total_seconds() >= 0.4


def test_a_lake_that_is_away_is_waited_for_and_what_has_no_room_is_a_gap(cluster, tmp_path):
    lake = tmp_path / "lake"
    with watching(cluster, lake, buffer_bytes=1500) as watcher:
        watcher.rounds(1)
        bronze = lake / "bronze"
        bronze.rename(lake / "away")
        bronze.write_text("a file in its place")
        watcher.until(lambda: watcher.noted("the lake cannot be written, rows are kept in memory meanwhile"))
        watcher.until(lambda: watcher.noted("there is no more room for rows in memory"))
        bronze.unlink()
        (lake / "away").rename(bronze)
        watcher.until(lambda: watcher.noted("the lake can be written again"))
        watcher.until(lambda: len(watcher.rows("detail", event_type="lost")) >= 3, "the gap")
        watcher.rounds(1)
    assert any("the lake was away" in detail for detail in watcher.rows("detail", event_type="lost"))
    for broker in (1, 2, 3):
        numbers = watcher.rows("source_seq", broker_id=broker)
        assert numbers == list(range(len(numbers)))


def test_one_watcher_a_cluster_and_lake(cluster, tmp_path):
    options = WatchOptions(bootstrap=(cluster.bootstrap(),), cluster="fake")
    with hold(str(tmp_path), "watch:fake"), pytest.raises(RoleHeld, match="watch:fake of lake"):
        watch(options, str(tmp_path), note=print)


def test_without_a_name_the_cluster_has_its_own_id(cluster, tmp_path):
    with watching(cluster, tmp_path, cluster="") as watcher:
        watcher.rounds(1)
    assert watcher.summary.cluster == "fake"


def test_stopping_while_a_broker_hangs_takes_seconds_and_keeps_what_was_read(cluster, tmp_path):
    with watching(cluster, tmp_path, timeout_s=60.0) as watcher:
        watcher.rounds(1)
        cluster.brokers[2].hung = True
        cluster.topics["orders"].partitions[0].write(200)
        time.sleep(0.5)
        watcher.stop()
    assert watcher.error is None
    assert ("orders", 0, 200, 200) in samples(watcher, broker_id=1)


def test_the_controllers_are_asked_of_another_broker_where_one_does_not_reach_them(cluster, tmp_path, monkeypatch):
    for seconds in ("EVERY_S", "FORWARDED_S", "AGAIN_S"):
        monkeypatch.setattr(controllers, seconds, 0.2)
    told = []

    def asked(broker, request):
        if type(request).__name__.startswith("DescribeQuorum"):
            told.append(broker)

    cluster.on_request = asked
    with watching(cluster, tmp_path) as watcher:

        def quorum(words):
            words = f"quorum: {words}"
            watcher.until(lambda: watcher.rows("ts", event_type="broker_state", detail=words), words)

        quorum("3 voters, 3 caught up")
        cluster.voters[3] = 60_000
        quorum("3 voters, 2 caught up, without 3, none to spare")
        voters, cluster.voters = cluster.voters, {}
        before = len(told)
        gone = "quorum: none is reached by broker"
        watcher.until(lambda: any(d.startswith(gone) for d in watcher.rows("detail", event_type="broker_state")), gone)
        assert len(set(told[before:])) > 1
        cluster.voters, cluster.describe_cluster = voters, False
        quorum("not looked at: no right (DESCRIBE on the cluster)")
    said = [one for one in watcher.rows("detail", event_type="broker_state") if one.startswith("quorum: 3 voters, 3")]
    assert len(said) == 1, "what stays the same is told once"


def test_a_broker_that_hosts_nothing_and_is_no_longer_registered_is_unregistered(cluster, tmp_path, monkeypatch):
    """It was the last to answer for ever, and its source silent: an unregistered broker's source has ended."""
    monkeypatch.setattr(controllers, "EVERY_S", 0.2)
    cluster.registered, cluster.versions[60] = {1, 2, 3}, (0, 2)
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(3, 2)
        for partition in cluster.topics["orders"].partitions:
            partition.replicas, partition.isr, partition.leader = [1, 2], [1, 2], 1
        cluster.stop(3)
        watcher.rounds(1, 2)
        cluster.registered = {1, 2}
        watcher.until(lambda: states_of(watcher, 3)[-1] == "unregistered", "that it is gone")
        watcher.rounds(1, 3)
    assert states_of(watcher, 3).count("unregistered") == 1


@pytest.mark.parametrize(
    ("voters", "words"),
    [
        ({1: True}, "1 voters, 1 caught up"),
        ({1: True, 2: True, 3: None}, "3 voters"),
        ({1: True, 2: True, 3: False, 4: True, 5: True}, "5 voters, 4 caught up, without 3"),
        ({1: True, 2: True, 3: False, 4: False, 5: True}, "5 voters, 3 caught up, without 3 4, none to spare"),
    ],
)
def test_a_quorum_that_the_next_failure_ends_has_none_to_spare(voters, words):
    assert controllers.describe_quorum(voters) == f"quorum: {words}"


def test_brokers_whose_advertised_addresses_do_not_work_are_named(cluster, tmp_path):
    cluster.advertised_host = "no.such.host.invalid"
    options = WatchOptions(bootstrap=(cluster.bootstrap(),), interval_s=0.3, timeout_s=1.0)
    with pytest.raises(NotAnswering, match=r"advertised.listeners.*no\.such\.host\.invalid:\d+: its name cannot be"):
        watch(options, str(tmp_path), note=print)


def test_brokers_that_all_come_back_at_other_addresses_are_found_by_the_bootstrap(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("generators.cluster.metadata_source.BOOTSTRAP_EVERY_S", 0.0)
    with socket.socket() as spare:
        spare.bind((cluster.host, 0))
        later = spare.getsockname()
    with watching(cluster, tmp_path, bootstrap=(cluster.bootstrap(), later)) as watcher:
        watcher.rounds(1)
        before = {cluster.bootstrap(broker) for broker in (1, 2, 3)}
        for broker in (1, 2, 3):
            cluster.stop(broker)
        watcher.until(lambda: len(watcher.rows("ts", event_type="broker_state", detail="no_answer: refused")) > 2)
        for broker, port in ((1, later[1]), (2, 0), (3, 0)):
            cluster.brokers[broker].port = port
            cluster.start(broker)
        watcher.rounds(2)
        watcher.rounds(3)
        watcher.rounds(1)
    assert watcher.error is None
    assert not before & {cluster.bootstrap(broker) for broker in (1, 2, 3)}


def test_brokers_of_another_cluster_are_not_believed(cluster, tmp_path):
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(1)
        cluster.cluster_id = "another"
        with pytest.raises(AssertionError, match="the cluster with id another now, not of fake"):
            watcher.until(lambda: False, within_s=10)


def test_a_replica_that_a_reassignment_adds_is_no_member_of_the_assignment_until_it_is_in_the_isr(cluster, tmp_path):
    audit = cluster.topic("audit", [1, 2], [2, 3]).partitions[0]
    audit.reassign(3)
    with watching(cluster, tmp_path) as watcher:

        def told():
            return [(isr, ar) for isr, ar in watcher.rows("isr", "replicas", topic="audit", partition=0) if ar]

        watcher.rounds(1, 2)
        assert set(map(str, told())) == {"([1, 2], [1, 2])"}
        assert watcher.rows("leo", event_type="sample", topic="audit", partition=0, broker_id=3) == [0]
        audit.isr = [1, 2, 3]
        watcher.until(lambda: told()[-1] == ([1, 2, 3], [1, 2, 3]), "the replica that joined")
        audit.reassign()
        cluster.topics["orders"].partitions[0].reassign(4)
        watcher.rounds(1, 2)
        assert set(map(str, watcher.rows("replicas", event_type="isr", topic="orders", partition=0))) == {"[1, 2, 3]"}


def test_a_round_whose_brokers_answer_one_after_the_other_is_complete(cluster, tmp_path):
    cluster.brokers[2].delay_s = 0.2  # of each of its requests
    with watching(cluster, tmp_path, interval_s=2.0) as watcher:
        watcher.rounds(2, 2)
    assert (watcher.summary.incomplete, watcher.rows("ts", event_type="lost")) == (0, [])


def test_without_the_right_to_ask_what_is_reassigned_all_replicas_count(cluster, tmp_path):
    cluster.describe_cluster = False
    cluster.topic("audit", [1, 2]).partitions[0].reassign(3)
    with watching(cluster, tmp_path) as watcher:
        watcher.rounds(1, 2)
    assert watcher.rows("replicas", event_type="isr", topic="audit") == [[1, 2, 3]]
