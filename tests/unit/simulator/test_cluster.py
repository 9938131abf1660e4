"""The cluster that runs by itself: fetches, ISR changes, failures."""

from dataclasses import replace
from itertools import pairwise

import pytest

from generators.simulator.cluster.leader_requests import Produced
from generators.simulator.cluster.log import Batch
from generators.simulator.cluster.settings import MS, Clock, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import SimulationEvent
from generators.simulator.cluster.versions import VERSIONS

FAST = Settings(lag_max_ms=6_000, version=VERSIONS["4.0"])


class Cluster(Simulation):
    """Remembers what happened; `load` appends to orders-0 all the time."""

    def __init__(self, settings: Settings = FAST) -> None:
        self.reported: list[SimulationEvent] = []
        self.answers: list[Produced] = []
        self.acks = 1
        super().__init__(settings, [self])
        self.start()

    def observe(self, event: SimulationEvent) -> None:
        if event not in self.reported[-1:]:
            self.reported.append(event)
        for observer in self.observers:
            if observer is not self:
                observer.observe(event)

    def load(self, every_ms: int = 200, count: int = 3) -> "Cluster":
        self.produce("orders", 0, count, self.acks, done=self.answers.append)
        self.event_queue.after(every_ms * MS, self.load, every_ms, count)
        return self

    def of(self, *kinds: str, broker: int | None = None) -> list[SimulationEvent]:
        return [h for h in self.reported if h.kind in kinds and broker in (None, h.broker)]

    @property
    def isrs(self) -> list[tuple[int, ...] | None]:
        """The ISRs that the controller put on record, in order."""
        return [h.isr for h in self.of("isr") if h.source == "controller"]


def test_one_seed_is_one_history() -> None:
    def history(seed: int) -> list[SimulationEvent]:
        cluster = Cluster(replace(FAST, seed=seed)).load()
        cluster.kill(1)
        cluster.run(15)
        return cluster.reported

    assert history(5) == history(5)
    assert history(5) != history(6)


def test_a_parked_fetch_is_answered_when_records_come_and_the_next_one_counts_them() -> None:
    cluster = Cluster()
    cluster.run(2)
    cluster.produce("orders", 0, 1)
    cluster.run(0.1)
    rise = next(h for h in cluster.of("hw", broker=1) if h.hw == 1)
    assert rise.at - cluster.of("append")[0].at < 20 * MS


def test_an_idle_follower_learns_of_the_high_watermark_up_to_half_a_second_late() -> None:
    cluster = Cluster()
    cluster.run(2)
    cluster.produce("orders", 0, 1)
    cluster.run(2)
    led, followed = (next(h for h in cluster.of("hw", broker=b) if h.hw == 1) for b in (1, 2))
    assert 400 * MS < followed.at - led.at <= 510 * MS


def test_a_fetch_comes_before_the_high_watermark_that_it_moves() -> None:
    cluster = Cluster().load()
    cluster.run(1)
    reported = cluster.of("fetch", "hw", "append", broker=1)
    risen = [(before, h) for before, h in pairwise(reported) if h.kind == "hw"]
    assert risen
    assert all(before.kind == "fetch" and before.at == h.at for before, h in risen)


def test_a_frozen_follower_leaves_the_isr_between_one_and_one_and_a_half_lags_and_comes_back() -> None:
    cluster = Cluster(replace(FAST, session_timeout_ms=60_000)).load()
    cluster.run(3)
    frozen = cluster.event_queue.now
    cluster.freeze(3)
    cluster.run(12)
    (shrink,) = cluster.of("isr_proposed")
    assert shrink.isr == (1, 2)
    parked = 500 * MS
    assert 6_000 * MS - parked < shrink.at - frozen <= 9_000 * MS + parked
    cluster.thaw(3)
    cluster.run(3)
    assert cluster.isrs == [(1, 2), (1, 2, 3)]


def test_a_broker_without_heartbeats_for_a_session_is_fenced_and_another_leads() -> None:
    cluster = Cluster().load()
    cluster.run(1)
    cluster.kill(1)
    cluster.run(13)
    (fenced,) = (h for h in cluster.of("broker_state") if h.detail == "fenced")
    led = cluster.of("leader")[-1]
    assert (fenced.replica, led.broker, led.leader_epoch, led.isr) == (1, 2, 1, (2, 3))


def test_a_leader_back_before_it_is_fenced_goes_on_in_its_epoch_with_the_checkpointed_high_watermark() -> None:
    resumed = []
    for seed in range(20):
        cluster = Cluster(replace(FAST, seed=seed)).load()
        cluster.run(7)
        cluster.kill(1)
        cluster.restart(1)
        cluster.run(14)
        resumed += [(h, cluster) for h in cluster.of("leader") if h.broker == 1 and h.leader_epoch == 0][1:]
    assert resumed
    for start, cluster in resumed:
        before = max(h.hw for h in cluster.of("hw", broker=1) if h.at < start.at)
        assert start.hw < before <= start.leo


def test_a_controlled_shutdown_hands_over_before_it_ends() -> None:
    cluster = Cluster().load()
    cluster.run(1)
    cluster.stop(1)
    cluster.run(0.5)
    assert not cluster.brokers[1].running
    states = [h.detail for h in cluster.of("broker_state") if h.replica == 1]
    assert states[-2:] == ["controlled_shutdown", "fenced"]
    assert cluster.leader("orders", 0) == 2
    stopped = cluster.replica("orders", 0, 1)
    assert stopped.checkpointed == stopped.hw


def test_power_loss_takes_what_was_not_flushed_and_a_kill_does_not() -> None:
    left = {}
    for fault in ("kill", "power_off"):
        cluster = Cluster(replace(FAST, flush_ms=2_000)).load()
        cluster.run(5)
        getattr(cluster, fault)(2)
        left[fault] = cluster.replica("orders", 0, 2).log.leo
    assert left["power_off"] < left["kill"]


def test_a_lost_disk_is_filled_again_from_the_leader() -> None:
    cluster = Cluster().load()
    cluster.run(2)
    with pytest.raises(ValueError, match="broker 3 is running"):
        cluster.lose_disk(3)
    cluster.kill(3)
    cluster.lose_disk(3)
    cluster.run(12)
    cluster.restart(3)
    cluster.run(5)
    assert cluster.replica("orders", 0, 3).log.parts_from(cluster.replica("orders", 0, 1).log, below=100) == 100
    assert cluster.isrs[-1] == (1, 2, 3)


def test_two_brokers_cut_off_from_each_other_lose_only_each_other() -> None:
    cluster = Cluster().load()
    cluster.run(2)
    cluster.cut(1, 3)
    cluster.run(12)
    assert cluster.registration("orders", 0).isr == (1, 2)
    cluster.heal(1, 3)
    cluster.run(3)
    assert cluster.registration("orders", 0).isr == (1, 2, 3)


def test_a_throttled_follower_falls_out_though_it_fetches() -> None:
    cluster = Cluster().load(every_ms=100, count=50)
    cluster.run(2)
    cluster.throttle(3, 1)
    cluster.run(12)
    assert cluster.registration("orders", 0).isr == (1, 2)
    assert len([h for h in cluster.of("fetch") if h.replica == 3 and h.at > cluster.event_queue.now - 5_000 * MS]) > 3


def test_under_min_isr_acks_all_is_refused_and_the_high_watermark_stands_still() -> None:
    cluster = Cluster(replace(FAST, topics=(Topic("orders", min_isr=2, replication_factor=2),), brokers=(1, 2)))
    cluster.load()
    cluster.run(2)
    cluster.kill(2)
    cluster.run(12)
    still = max(h.hw for h in cluster.of("hw", broker=1))
    cluster.produce("orders", 0, 1, acks=-1, done=cluster.answers.append)
    cluster.run(1)
    assert Produced("NOT_ENOUGH_REPLICAS") in cluster.answers
    assert max(h.hw for h in cluster.of("hw", broker=1)) == still
    assert cluster.replica("orders", 0, 1).log.leo > still + 10


def test_before_3_7_the_high_watermark_goes_on_under_min_isr() -> None:
    topic = Topic("orders", min_isr=2, replication_factor=2)
    cluster = Cluster(replace(FAST, topics=(topic,), brokers=(1, 2), version=VERSIONS["3.6"])).load()
    cluster.run(1)
    cluster.kill(2)
    cluster.run(12)
    replica = cluster.replica("orders", 0, 1)
    assert replica.hw == replica.log.leo


def test_acks_all_waits_for_every_member_of_the_isr() -> None:
    cluster = Cluster()
    cluster.acks = -1
    cluster.load()
    cluster.run(2)
    cluster.freeze(2)
    cluster.run(0.01)
    reported = len(cluster.answers)
    cluster.run(3)
    assert len(cluster.answers) <= reported + 1
    cluster.thaw(2)
    cluster.run(1)
    assert len(cluster.answers) > reported + 10
    assert {a.error for a in cluster.answers} == {None}


def test_a_refused_isr_change_is_undone_and_asked_for_again() -> None:
    cluster = Cluster(replace(FAST, session_timeout_ms=60_000)).load()
    cluster.refuse_alter_partitions(1.0)
    cluster.freeze(3)
    cluster.run(50)
    assert cluster.isrs == []
    assert cluster.of("isr_rejected")
    cluster.refuse_alter_partitions(0.0)
    cluster.run(10)
    assert cluster.isrs == [(1, 2)]


def test_an_unclean_election_buys_availability_with_committed_records() -> None:
    cluster = Cluster(replace(FAST, topics=(Topic("orders", unclean=True, replication_factor=2),), brokers=(1, 2)))
    cluster.load()
    cluster.run(1)
    cluster.kill(2)
    cluster.run(12)
    committed = cluster.replica("orders", 0, 1).hw
    cluster.kill(1)
    cluster.run(12)
    assert cluster.leader("orders", 0) is None
    cluster.restart(2)
    cluster.run(5)
    led = cluster.of("leader")[-1]
    assert (led.broker, led.unclean, led.isr) == (2, True, (2,))
    assert led.leo < committed


def test_a_deposed_leader_cuts_what_only_it_has() -> None:
    cluster = Cluster(replace(FAST, session_timeout_ms=3_000)).load()
    cluster.run(1)
    cluster.freeze(2)
    cluster.freeze(3)
    cluster.run(0.5)
    ahead = cluster.replica("orders", 0, 1).log.leo
    cluster.kill(1)
    cluster.thaw(2)
    cluster.thaw(3)
    cluster.run(6)
    start = cluster.of("leader")[-1]
    assert start.leo < ahead
    cluster.restart(1)
    cluster.run(4)
    (cut,) = cluster.of("truncate")
    assert (cut.broker, cut.leo) == (1, start.leo)
    logs = [cluster.replica("orders", 0, b).log for b in (1, 2)]
    assert logs[0].parts_from(logs[1], below=start.leo + 5) == start.leo + 5


def test_a_reassignment_ends_when_all_of_the_target_are_in_sync() -> None:
    cluster = Cluster(replace(FAST, brokers=(1, 2, 3, 4))).load()
    cluster.run(2)
    cluster.reassign("orders", 0, (4, 2, 3))
    assert cluster.registration("orders", 0).adding == (4,)
    cluster.run(5)
    done = cluster.registration("orders", 0)
    assert (done.replicas, set(done.isr), done.adding, done.removing) == ((4, 2, 3), {2, 3, 4}, (), ())
    assert done.leader == 4
    assert ("orders", 0) not in cluster.brokers[1].replicas


def test_a_topic_created_again_starts_with_a_new_id_and_an_empty_log() -> None:
    cluster = Cluster().load()
    cluster.run(2)
    first = cluster.registration("orders", 0).topic_id
    cluster.delete_topic("orders")
    cluster.run(1)
    assert all(not b.replicas for b in cluster.brokers.values())
    cluster.create_topic(Topic("orders"))
    cluster.run(1)
    start = cluster.of("leader")[-1]
    assert start.topic_id != first
    assert start.leo == 0


def test_retention_moves_the_log_start_of_leader_and_followers() -> None:
    cluster = Cluster().load()
    cluster.run(3)
    cluster.retain("orders", 0, 20)
    cluster.run(1)
    assert {cluster.replica("orders", 0, b).log.start for b in (1, 2, 3)} == {20}


def test_a_follower_behind_the_leaders_log_start_starts_again_there() -> None:
    cluster = Cluster().load()
    cluster.run(2)
    cluster.kill(3)
    cluster.run(12)
    cluster.retain("orders", 0, 150)
    cluster.restart(3)
    cluster.run(5)
    assert cluster.replica("orders", 0, 3).log.start == 150
    assert cluster.isrs[-1] == (1, 2, 3)


def test_clocks_are_wrong_by_skew_drift_and_jumps() -> None:
    cluster = Cluster(replace(FAST, clocks={1: Clock(skew_us=-5_000_000, drift_ppm=100.0)})).load()
    cluster.run(10)
    assert {(h.ts - h.at) // MS for h in cluster.of("append")} <= set(range(-5_001, -4_998))
    cluster.jump_clock(1, 60_000_000)
    cluster.run(1)
    assert cluster.of("append")[-1].ts - cluster.event_queue.now > 54_000_000


def test_a_zombie_leader_takes_records_that_are_gone_when_it_learns_of_its_successor() -> None:
    cluster = Cluster().load()
    cluster.run(1)
    cluster.freeze(1)
    cluster.run(20)
    assert cluster.leader("orders", 0) == 2
    cluster.thaw(1)
    cluster.run(3)
    logs = {b: cluster.replica("orders", 0, b).log for b in (1, 2, 3)}
    assert logs[1].parts_from(logs[2], below=50) == 50
    assert cluster.registration("orders", 0).isr[-1] == 1


def test_a_version_before_leader_epochs_cuts_at_its_own_high_watermark() -> None:
    cluster = Cluster(replace(FAST, version=VERSIONS["0.10"])).load()
    cluster.run(1.05)
    cluster.kill(1)
    cluster.run(13)
    cuts = {h.broker: h.leo for h in cluster.of("truncate")}
    followed = {h.broker: h.hw for h in cluster.of("follower") if h.leader == 2}
    assert cuts == {b: hw for b, hw in followed.items() if b in cuts}


def test_an_upgraded_broker_behaves_so_from_its_next_start() -> None:
    cluster = Cluster(replace(FAST, version=VERSIONS["3.6"]))
    cluster.upgrade(2, VERSIONS["4.0"])
    assert not cluster.brokers[2].version.strict_min_isr
    cluster.stop(2)
    cluster.run(1)
    cluster.restart(2)
    assert cluster.brokers[2].version.strict_min_isr


def test_with_eligible_leader_replicas_an_unclean_restart_is_trusted_with_nothing() -> None:
    settings = replace(FAST, version=VERSIONS["4.1"], topics=(Topic("orders", min_isr=2, replication_factor=2),))
    cluster = Cluster(replace(settings, brokers=(1, 2))).load()
    cluster.run(1)
    cluster.kill(2)
    cluster.run(12)
    assert cluster.registration("orders", 0).eligible == (2,)
    cluster.restart(2)
    cluster.run(0.1)
    assert 2 not in cluster.registration("orders", 0).eligible


def test_requests_to_one_broker_arrive_in_the_order_they_were_sent() -> None:
    cluster = Cluster(replace(FAST, network_us=(200, 50_000)))
    batches = [Batch(values=(str(n),)) for n in range(20)]
    for batch in batches:
        cluster.produce("orders", 0, 1, batch=batch, done=cluster.answers.append)
    cluster.run(1)
    assert [run.batch for run in cluster.replica("orders", 0, 1).log.runs] == batches
    assert [answer.first for answer in cluster.answers] == list(range(20))


def test_a_client_whose_connection_breaks_asks_again_who_leads() -> None:
    cluster = Cluster()
    cluster.produce("orders", 0, 1, acks=0)
    cluster.run(1)
    cluster.kill(1)
    cluster.run(13)
    cluster.produce("orders", 0, 1, acks=0)
    cluster.run(1)
    assert cluster.replica("orders", 0, 2).log.leo == 2


def test_a_follower_of_the_new_topic_gets_nothing_of_the_old_one() -> None:
    """Created again at once: a leader that does not know it yet is asked with the new topic's id (KIP-516)."""
    for seed in range(20):
        cluster = Cluster(replace(FAST, seed=seed, metadata_us=(500, 400_000))).load(every_ms=20)
        cluster.run(2)
        cluster.delete_topic("orders")
        cluster.create_topic(Topic("orders"))
        old = cluster.next_term()
        cluster.run(3)
        for broker in (1, 2, 3):
            assert all(run.term > old for run in cluster.replica("orders", 0, broker).log.runs)
        assert not cluster.of("truncate")


def test_an_isr_asked_for_the_old_topic_is_not_that_of_the_new_one() -> None:
    """Both are at leader epoch 0 and partition epoch 0; AlterPartition names the topic's id (KIP-841)."""
    cluster = Cluster(replace(FAST, controller_us=(100_000, 100_000), session_timeout_ms=60_000)).load()
    cluster.freeze(3)
    while not cluster.of("isr_proposed"):
        cluster.run(0.01)
    cluster.delete_topic("orders")
    cluster.create_topic(Topic("orders"))
    cluster.run(1)
    assert cluster.registration("orders", 0).isr == (1, 2, 3)


def test_a_leader_that_goes_on_after_a_freeze_checks_its_isr_before_it_reads_what_came_meanwhile() -> None:
    """As recorded of SIGSTOP and SIGCONT: with LEOs equal nobody is dropped, though 14 s have gone by unheard."""
    cluster = Cluster(replace(FAST, session_timeout_ms=30_000))
    cluster.acks = -1
    cluster.load()
    cluster.run(5)
    cluster.freeze(1)
    cluster.run(14)
    cluster.thaw(1)
    cluster.run(10)
    assert cluster.isrs == []
    assert cluster.replica("orders", 0, 1).hw > 50
