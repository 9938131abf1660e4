"""Lakes whose facts once depended on how they were read, each by its smallest rows."""

from __future__ import annotations

import pytest

from pipelines.replication import Reconstructor
from pipelines.replication.telemetry.coverage import coverage
from pipelines.streaming.source.drain import closing_row
from tests.properties.facts import RULES, differences, reconstruct
from tests.unit.replication.bronze import BASE_MS, Source, controller, events_of
from tests.unit.replication.watching import Watched, in_time


def assert_read_the_same(*parts: list[dict]) -> None:
    """One batch gives what these parts give, in one bucket and in three."""
    whole = reconstruct([[row for part in parts for row in part]])
    for buckets in (1, 3, 8):
        assert differences(whole, reconstruct(parts, buckets, restart=True)) == {}


def test_lost_lines_before_a_start_begin_no_term():
    """In one batch with the start they stood in the lane that it made: a loss of 5..8, in two none."""
    log = Source().event(0, "lost", detail="7 lines").leader(10, 1, 5, 8, [1, 2, 3])
    assert_read_the_same(log.rows[:1], log.rows[1:])


@pytest.mark.parametrize("event_type", ["lost", "sample", "election", "truncate"])
def test_what_no_leader_alone_has_begins_no_term(event_type):
    log = Source().event(0, event_type, replica_id=1, leo=5, leader_id=2, leader_epoch=0)
    log.leader(10, 1, 5, 5, [1, 2, 3]).append(20, 9).fetch(30, 2, 9)
    assert_read_the_same(log.rows[:1], log.rows[1:])


def test_a_topic_id_that_samples_are_the_first_to_name_has_its_name():
    """IndexError, where the kernel had made rows of another partition in that batch."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 9).fetch(20, 2, 9).fetch(21, 3, 9).progress(3000)
    watcher = Watched(2).on(topic="other", topic_id="new-id", partition=0)
    watcher.leads(100, 0, 5, 5).leads(1000, 0, 9, 9).round(1100)
    assert_read_the_same(log.rows, watcher.rows)


def test_a_gap_of_a_source_counts_the_same_in_every_bucket():
    """The bucket that owns the source need not have a partition of it, and did not know whose it is."""
    source = controller().skip(2).election(0, 2, 1, isr=[2], partition_epoch=1)
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).progress(20_000)
    assert_read_the_same(source.rows, log.rows)


def test_a_row_of_a_time_that_nothing_has_is_not_late():
    """It was in a batch with a source that is late, of whichever cluster."""
    other = Source(cluster="other").progress(20_000).progress(40_000)
    new = Source("broker-2/replication.log", cluster="other").progress(40_000)
    log = Source().hw(0, 2).hw(1, 3).progress(1000)
    log.rows[1]["ts"] = -1_000_000
    assert_read_the_same(other.rows, [*new.rows, *log.rows])


def test_a_partition_moves_in_the_gauges_of_brokers_when_it_is_decided_that_it_did():
    """Between two events: in a batch with the second it was counted there, else not at all."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3], partition_epoch=0).progress(1000)
    quorum = controller().election(2000, 2, 1, isr=[2, 3], partition_epoch=1).progress(20_000)
    first = [*log.rows, *quorum.rows]
    quorum.election(21_000, 3, 2, isr=[3], partition_epoch=2).progress(40_000)
    assert_read_the_same(first, quorum.rows[2:])


def test_a_bucket_whose_only_rows_name_no_cluster_sets_them_aside():
    """IndexError in `SourcedRows`: nulls alone have no dictionary."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3])
    nobody = Source("broker-2/replication.log").on(partition=1).leader(0, 0, 0, 0, [1, 2, 3])
    nobody.rows[0]["cluster"] = None
    assert_read_the_same([*log.rows, *nobody.rows])


def test_samples_yield_to_a_log_from_its_first_row_of_the_partition_on():
    """What the batch read of that log further decided it: a HW that only the watcher has was lost in one batch."""
    log, watcher = Source().progress(3000).progress(8000), Watched(1)
    watcher.progress(3000).leads(8000, 0, 0, 0, isr=[1, 2, 3]).round(8002)
    first = [*log.rows, *watcher.rows]
    log.progress(11_000).leader(11_000, 0, 0, 0, [1, 2, 3])
    watcher.progress(11_000)
    assert_read_the_same(first, [*log.rows[2:], *watcher.rows[3:]])


def test_a_sampled_hw_is_checked_against_the_term_that_its_log_was_in_then():
    log, watcher = Source().leader(0, 0, 0, 0, [1, 2, 3]).progress(5000), Watched(1)
    watcher.progress(1000).leads(4000, 0, 9, 9, isr=[1, 2, 3]).round(4002).progress(14_000)
    log.progress(14_000)
    first = [*log.rows, *watcher.rows]
    watcher.progress(30_000)
    assert_read_the_same(first, [*log.follower(20_000, 1, 0, 0, 2).progress(30_000).rows[3:], *watcher.rows[4:]])


def test_a_clock_is_compared_by_records_of_which_every_cut_has_as_much():
    """A leader that stood still for longer than a batch keeps records: compared in one batch, and not in two."""
    quorum, log = controller(), Source().leader(0, 0, 0, 0, [1, 2], partition_epoch=0, replicas=[1, 2])
    quorum.election(0, 1, 0, isr=[1, 2], partition_epoch=0)
    for second in range(1, 64):
        quorum.progress(second * 1000)
        log.append(second * 1000, second).fetch(second * 1000 + 1, 2, second, second).hw(second * 1000 + 1, second)
    first = [*log.rows, *quorum.rows]
    before = len(log.rows), len(quorum.rows)
    quorum.broker_state(64_000, 2, "fenced", 1).isr(64_000, [1], 1, "controller", leader_id=1, leader_epoch=0)
    quorum.broker_state(65_500, 2, "unfenced", 1).progress(80_000)
    log.append(63_900, 70).isr(66_500, [1], 1, "metadata", replicas=[1, 2]).hw(66_500, 70).progress(80_000)
    assert_read_the_same(first, [*log.rows[before[0] :], *quorum.rows[before[1] :]])


def test_the_broker_of_a_series_is_that_of_its_least_number():
    """Rows of several brokers in one source, which no writer of ours makes: which came first decided."""
    log = Source().event(0, "isr_rejected", broker_id=-1).leader(0, 0, 0, 0, [1, 2, 3]).append(1, 5)
    log.event(2, "append", broker_id=3, leader_leo=7)
    assert differences(reconstruct([log.rows]), reconstruct([log.rows[::-1]])) == {}


def test_the_time_of_a_row_without_a_usable_number_moves_no_clock():
    """-1 stood before 0 in one run of numbers, whose largest time was that row's."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(200, 3).fetch(3000, 2, 0, 3).append(3228, 6)
    log.rows[3]["source_seq"] = -1
    assert_read_the_same(log.rows[:2], log.rows[2:])
    assert coverage(events_of(log.rows)).equals(coverage(events_of(log.rows[:3])))


def test_of_two_rows_with_one_number_the_earlier_is_read_first_whichever_came_first():
    """The later one waited, and kept the other waiting, where it had come first."""
    watcher = Watched(1).leads(1000, 0, 5, 5).leads(9000, 0, 7, 7).progress(1000)
    other = Watched(2).progress(1000)
    watcher.rows[1]["seq"] = 0
    rest = [watcher.rows[0], watcher.rows[2], *other.rows]
    first, second = [*rest, watcher.rows[1]], [watcher.rows[1], *rest]
    assert differences(reconstruct([first]), reconstruct([second])) == {}


def test_a_row_that_another_of_its_number_and_time_stands_for_waits_for_nobody():
    """Behind that one it was left waiting, and was a repeat of it by the time that it was read."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).leader(0, 0, 0, 8, [1, 2, 3])
    log.rows[1] |= {"seq": 0, "source_seq": 0}
    assert differences(reconstruct([log.rows]), reconstruct([log.rows[::-1]])) == {}


def cut_at(ms: int, *sources: Source) -> tuple[list[dict], list[dict]]:
    """The rows up to a time, and those after it: each source tells by both ends that it has told all."""
    rows = [row for source in sources for row in source.progress(30_000).rows]
    until = (BASE_MS + ms) * 1000
    return [row for row in rows if row["ts"] <= until], [row for row in rows if row["ts"] > until]


def successor(broker: int, epoch_isr: list[int], leo: int, hw: int, unclean: bool = False) -> tuple[Source, Source]:
    """The next leader, from 10 s on, and the controller, who both tell of this beside the first leader."""
    quorum, log = controller(), Source(f"broker-{broker}/replication.log").progress(1)
    for other in (1, 2, 3):
        quorum.broker_state(0, other, "started", 1).broker_state(0, other, "unfenced", 1)
    quorum.election(0, 1, 0, isr=[1, 2, 3], partition_epoch=0)
    quorum.election(10_000, broker, 1, isr=epoch_isr, partition_epoch=1, unclean=unclean)
    return log.leader(10_000, 1, leo, hw, epoch_isr, partition_epoch=1), quorum


def test_a_hw_that_is_reported_just_after_the_next_start_is_judged_counts():
    """Critical in one batch, where it had been reported by the end of it; not known to be lost in two."""
    new, quorum = successor(2, [2, 3], 3, 3)
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 5).fetch(10_100, 2, 5, 5).fetch(10_100, 3, 5, 5)
    for source in (log, new, quorum):
        source.progress(10_180)
    assert_read_the_same(*cut_at(10_190, log.hw(10_200, 5), new, quorum))


def test_who_fetches_from_a_deposed_leader_later_did_not_take_part_before():
    new, quorum = successor(3, [3], 9, 0, unclean=True)
    log = Source().leader(0, 0, 0, 0, [1, 2]).append(10, 9).fetch(20, 2, 9, 9).hw(20, 9)
    for source in (log, new, quorum):
        source.progress(12_000)
    assert_read_the_same(*cut_at(12_500, log.fetch(13_000, 3, 9, 9), new, quorum))


def test_how_far_a_leaders_log_went_is_known_as_it_ends():
    """The most that may be lost was the LEO at the end of the batch in which its successor was judged."""
    new, quorum = successor(2, [2, 3], 3, 3)
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 5).fetch(20, 2, 5, 5).fetch(20, 3, 5, 5).hw(20, 5)
    log.append(300, 9).fetch(320, 2, 9, 9).fetch(320, 3, 9, 9)
    for source in (log, new, quorum):
        source.progress(12_000)
    assert_read_the_same(*cut_at(12_500, log.append(13_000, 20).follower(14_000, 1, 3, 3, 2), new, quorum))


def test_who_fetched_from_a_leader_later_is_not_known_earlier_though_its_term_is_over():
    new, quorum = successor(3, [3], 9, 0, unclean=True)
    log = Source().leader(0, 0, 0, 0, [1, 2]).append(10, 9).fetch(20, 2, 9, 9).hw(20, 9)
    for source in (log, new, quorum):
        source.progress(12_000)
    log.fetch(13_000, 3, 9, 9).follower(14_000, 1, 3, 3, 2)
    assert_read_the_same(*cut_at(12_500, log, new, quorum))


@pytest.mark.parametrize("over", [False, True])
def test_a_report_that_may_be_cut_off_counts_though_a_larger_one_follows(over):
    new, quorum = successor(2, [2, 3], 3, 3)
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 5).fetch(20, 2, 3, 5).fetch(20, 3, 3, 5).hw(20, 3)
    log.hw(9000, 4)
    for source in (log, new, quorum):
        source.progress(12_000)
    log.hw(13_000, 5)
    if over:
        log.follower(14_000, 1, 3, 3, 2)
    assert_read_the_same(*cut_at(12_500, log, new, quorum))


@pytest.mark.parametrize("over", [False, True])
def test_reports_above_what_was_computed_count_as_far_as_they_went_by_then(over):
    new, quorum = successor(2, [2, 3], 3, 3)
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 9).fetch(20, 2, 3, 9).fetch(20, 3, 3, 9).hw(20, 3)
    for hw in (5, 6):
        log.event(9000 + hw, "hw", replica_id=1, leader_id=1, hw=hw, hw_before=hw - 1)
    for source in (log, new, quorum):
        source.progress(12_000)
    log.event(13_000, "hw", replica_id=1, leader_id=1, hw=7, hw_before=6)
    if over:
        log.follower(14_000, 1, 3, 3, 2)
    assert_read_the_same(*cut_at(12_500, log, new, quorum))


def test_who_is_read_first_in_a_batch_does_not_open_a_clock_earlier():
    """202611260222: the others of that batch had told nothing yet, and went on for the grace by their first rows."""
    log, *others = (Source(f"broker-{broker}/replication.log").progress(1000) for broker in (1, 2, 3))
    first = [*log.progress(71_000).rows, *others[0].rows, *others[1].rows]
    assert_read_the_same(first, [*others[0].progress(471_000).rows[1:], *others[1].progress(471_006).rows[1:]])


def test_the_earliest_row_measures_the_clocks_of_the_others_whoever_has_it():
    """202611270653: one batch began with the source that comes first by name, 400 s ahead."""
    assert_read_the_same(Source("broker-3/replication.log").progress(0).rows, Source().progress(400_000).rows)


def test_a_clock_is_found_wrong_once_though_a_number_is_missing_before_it():
    log, other = Source().progress(0).skip().progress(3_600_000), Source("broker-2/replication.log").progress(0)
    first = [*log.rows, *other.rows]
    parts = [first, *([row] for row in other.progress(6000).progress(7000).progress(20_000).rows[1:])]
    found = reconstruct(parts)["telemetry_gaps"]
    assert [count for row, count in found.items() if "'clock'" in row] == [1]


def test_a_gap_before_rows_of_which_none_has_a_time_is_told_of_no_time():
    """202611260659: the newest of the cluster by then, while all that is known of it lies in quarantine."""
    log, nobody = Source().progress(1000), Source("broker-2/replication.log").skip().append(0, 3)
    nobody.rows[0]["ts"] = -1_000_000
    assert_read_the_same([*nobody.rows, *log.rows], log.progress(3000).rows[1:])


@pytest.mark.parametrize("ts", [-1_000_000, 10_413_792_000_000_000])
def test_a_row_that_is_set_aside_for_its_time_moves_no_clock(ts):
    """One of the year 2300 put every replica out of sync until then, and all that its leader told after it as well."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 5).append(15, 6).fetch(20, 2, 5, 5).fetch(20, 3, 5, 5)
    log.rows[2]["ts"] = ts
    found = reconstruct([log.append(1000, 9).fetch(1100, 2, 9, 9).fetch(1100, 3, 9, 9).progress(5000).rows])
    assert len(found["quarantine"]) == 1
    assert not found["replica_sync"]


def test_the_last_number_of_an_incarnation_is_that_of_its_last_row():
    """202611260938: it stood behind a hole yet, in one batch with the next incarnation."""
    log, new = Source().skip(2).progress(3000).progress(9000), Source(source_epoch=1).progress(9300)
    assert_read_the_same(log.rows, new.rows)


def test_a_row_of_the_moment_up_to_which_all_is_decided_is_not_late():
    """202611272564: what is due then is decided after it."""
    log, other = (Source(f"broker-{broker}/replication.log").progress(0) for broker in (1, 2))
    log.skip().progress(9520)
    other.progress(9520)
    last = {"broker-1/replication.log": (0, 2), "broker-2/replication.log": (0, 1)}
    closing = dict.fromkeys(log.rows[0]) | closing_row("c", log.rows[1]["ts"], 0, last)
    first = [*log.progress(9520).rows, *other.rows, closing]
    assert_read_the_same(first, other.event(9520, "config", True, detail="kafka=4.1.1").progress(20_000).rows[2:])


def test_a_row_of_the_moment_in_which_a_term_begins_makes_no_term_of_its_own():
    """202611261874: both have one start, by which the first was found until the second had ended, too."""
    log, new, third = (Source(f"broker-{broker}/replication.log") for broker in (1, 2, 3))
    log.fetch(0, 2, 0, 0).follower(4001, 1, 0, 0, 2).progress(6000)
    new.on(partition=1).fetch(0, 3, 0, 0).on(partition=0).fetch(4000, 1, 0, 0)
    new.leader(4000, 1, 0, 0, [2, 3]).progress(5000).leader(6000, 1, 0, 0, [2, 3], min_isr=1)
    third.on(partition=2).leader(0, 0, 0, 0, [1, 2, 3]).on(partition=0).follower(4003, 1, 0, 0, 2).progress(6000)
    assert_read_the_same(*cut_at(5500, log, new, third, controller().progress(0).progress(5000).progress(6000)))


def test_rows_behind_a_hole_and_a_jump_of_the_clock_after_them_are_read_to_an_end():
    """Each look at the rows behind the hole took back the doubt about the jump, and the next raised it, for ever."""
    log, other = (
        Source().leader(0, 0, 0, 0, [1, 2, 3]).progress(1000),
        Source("broker-2/replication.log").progress(1000),
    )
    log.skip(1).progress(2000).progress(4_000_000).progress(4_001_000)
    assert_read_the_same(log.rows[:2], [*log.rows[2:], *other.progress(1500).rows])


def test_a_row_in_quarantine_recreates_no_topic():
    """Behind a hole its topic id was taken for that of another topic, and what was committed was forgotten."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 5).fetch(20, 2, 5, 5).fetch(20, 3, 5, 5).skip()
    log.event(30, "append", leader_leo=-5, topic_id="second-id")
    found = reconstruct([log.fetch(100, 2, 5, 5).progress(20_000).rows])
    assert len(found["quarantine"]) == 1
    assert not any("topic_recreated" in row for row in found["hw_regressions"])


def test_a_time_that_goes_back_may_be_that_of_a_hw_which_a_judged_term_had():
    """It goes back behind no deadline: what is out of sync or held back is told once a source has told up to then."""
    new, quorum = successor(2, [2, 3], 3, 3)
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 9).fetch(20, 2, 5, 9).fetch(4000, 3, 3, 9).hw(4000, 3)
    for source in (log, new, quorum):
        source.progress(12_000)
    first = [*log.rows, *new.rows, *quorum.rows]
    later = log.progress(13_000).fetch(9000, 3, 5, 9).hw(9000, 5).rows[len(log.rows) - 3 :]
    for source in (log, new, quorum):
        source.progress(30_000)
    assert_read_the_same(first, [*later, log.rows[-1], new.rows[-1], quorum.rows[-1]])


def test_a_log_that_comes_late_tells_what_its_leader_had_committed():
    """Copied from a dead broker once its successor had been judged by what was there, it was late rows, and no loss."""
    new, quorum = successor(2, [2, 3], 3, 3)
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 9).fetch(20, 2, 5, 9).fetch(20, 3, 3, 9).hw(20, 3)
    new.progress(60_000), quorum.progress(60_000)
    first, known = [*log.rows, *new.rows, *quorum.rows], len(log.rows)
    later = log.fetch(9000, 3, 5, 9).hw(9000, 5).progress(9500).rows[known:]
    whole, found = reconstruct([[*first, *later]]), reconstruct([first, later])
    assert found["hw_regressions"] == whole["hw_regressions"]
    assert any("'committed_loss'" in row for row in found["hw_regressions"])


def test_rows_of_an_earlier_epoch_say_nothing_of_a_later_term():
    """The log that came late had the HWs of epoch 0, which in epoch 2 were reports that moved back: critical."""
    other, log = Source("broker-1/state-change.log"), Source()
    other.leader(0, 0, 0, 0, [1]).follower(10_000, 1, 90, 0, -1).leader(11_000, 2, 90, 90, [1]).progress(30_000)
    log.leader(0, 0, 0, 0, [1])
    for hw in (30, 60, 90):
        log.event(100 + hw, "append", leader_leo=hw, leader_id=1, leader_epoch=0)
        log.event(100 + hw, "hw", hw=hw, hw_before=hw - 30, replica_id=1, leader_id=1, leader_epoch=0)
    found = reconstruct([other.rows, log.progress(40_000).rows])["hw_regressions"]
    assert not any("'hw_moved_back'" in row for row in found)


def test_a_row_that_is_set_aside_and_repeated_is_in_quarantine_once():
    """202611274707: the repeat waited behind the row that counts, and was set aside again with it."""
    log, *others = (Source(f"broker-{broker}/replication.log") for broker in (1, 2, 3))
    log.fetch(0, 2, 0).fetch(0, 2, 0, detail="log_epoch=1").fetch(0, 2, 0)
    for row in log.rows:
        row |= {"seq": 0, "source_seq": 0}
    first = list(log.rows)
    for source in others:
        source.progress(3000).progress(6000)
    log.rows.clear()
    log.progress(6000)
    assert_read_the_same(first, [*others[0].rows[:1], *others[1].rows[:1]], [*log.rows, *others[0].rows[1:]])


def test_a_refused_row_without_a_broker_that_is_repeated_is_in_quarantine_once():
    """202611273187: it takes no number of its partition, by which the repeat was looked for."""
    log, other = Source("broker-1/replication.log"), Source("broker-2/replication.log")
    row = log.append(0, 1).rows[-1]
    row["broker_id"] = None
    assert_read_the_same([row, *other.fetch(0, 1, 0).rows], [dict(row), *other.fetch(10, 1, 0).rows[1:]])


@pytest.mark.parametrize("told", [False, True])
def test_a_hw_behind_a_time_of_which_no_log_tells_may_be_one_of_a_later_term(told):
    """Two windows of one log, under two names: the HW of a later term, which lay between them, was lost, proven."""
    new, quorum = successor(3, [3], 60, 60)
    log, later = Source("broker-2/morning.log"), Source("broker-2/evening.log")
    log.leader(0, 0, 0, 0, [1, 2, 3]).append(10, 60).fetch(20, 1, 60, 60).fetch(20, 3, 60, 60).hw(20, 60)
    log.progress(30_000 if told else 5000)
    later.follower(25_000, 3, 470, 470, 1)
    quorum.broker_state(10_001, 2, "fenced")  # or it may have followed the next leader without a word
    found = reconstruct([[*log.rows, *new.progress(30_000).rows, *quorum.progress(30_000).rows, *later.rows]])
    assert any("'critical'" in row for row in found["hw_regressions"]) == told


def test_an_isr_that_a_reader_tells_first_after_it_came_back_counts_in_the_term():
    """202611270539: it was of no lane, and in one batch with the first row that shows the broker leading of that."""
    log, again = Source().append(0, 1), Source(source_epoch=1).isr(26, [1, 3], 1)
    found = reconstruct([log.rows, again.rows, again.hw(321, 0).rows[1:]])
    assert_read_the_same([*log.rows, *again.rows[:1]], again.rows[1:])
    assert any("('isr', [1, 3])" in row and "('kind', 'advance')" in row for row in found["partition_hw"])


@pytest.mark.parametrize("broker", [2, 3])
def test_rows_before_the_first_that_shows_its_broker_leading_end_no_term(broker):
    """202611274606: broker 2 followed, in the log of which broker 3, who led, was named later."""
    log, other = Source("broker-3/replication.log").leader(5, 1, 0, 0, [1, 3]), Source("broker-2/replication.log")
    other.follower(7, 1, 0, 0, 3).event(70_005, "isr_proposed", broker_id=broker, isr=[1, 2])
    first = [*log.rows, *other.rows[:1]]
    assert_read_the_same(first, [other.rows[1], *log.on(topic="orders").leader(70_005, 0, 0, 0, [3]).rows[1:]])


def test_one_number_on_two_partitions_is_that_of_two_rows_in_quarantine_too():
    """202611278833: the second was taken for a repeat of the first."""
    one, other = Source().on(partition=1).event(0, "follower"), Source().event(0, "follower")
    assert_read_the_same(one.rows, other.rows)
    assert_read_the_same(one.rows, [*one.rows, *other.rows], other.rows)


def test_a_row_of_the_moment_up_to_which_others_are_decided_is_not_late():
    """202611277235: a watcher's first row, of a broker whose log had told of that moment before."""
    log, watcher = Source().leader(300, 0, 0, 0, [1, 2, 3]).progress(70_606), Watched(3)
    others = [
        Source("broker-2/replication.log").progress(0).progress(71_401),
        controller().progress(0).progress(71_401),
    ]
    first = [*log.rows, *(row for source in others for row in source.rows)]
    assert_read_the_same(first, watcher.seen(70_606, 1, 0, isr=[1, 2, 3], partition_epoch=1).rows)


def test_a_row_of_the_moment_of_the_first_one_behind_a_gap_stands_before_it():
    """202611280046: its report was exact where it was read before the gap was known, else nothing but a witness."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).hw(1, 0).skip().append(1, 0).progress(6001)
    assert_read_the_same(log.rows[:3], log.rows[3:])


def test_a_row_that_names_the_drain_as_its_source_and_closes_nothing_moves_no_clock():
    """202611300799: in one batch it stood before the closing row, whose time is earlier."""
    log = Source("broker-2/replication.log").fetch(23_500, 3, 0)
    closing = dict.fromkeys(log.rows[0]) | closing_row("c", log.rows[0]["ts"], 0, {"broker-2/replication.log": (0, 0)})
    log.leader(23_500, 1, 0, 0, [2]).skip().hw(31_524, 7)
    wrong = Source().event(31_500, "isr_proposed", isr=[1, 2], source_id="hwmark/drain", source_seq=10)
    assert_read_the_same([log.rows[0], closing], [*log.rows[1:], *wrong.rows])


def test_a_row_of_somebody_else_that_names_the_drain_as_its_source_closes_nothing():
    """202611288847, …8371: a `progress` row that closes no row by name closed all that had come with it."""
    log, other = (
        controller().broker_state(3000, 2, "fenced", 1).election(3080, 2, 1, isr=[1, 2]),
        Source().progress(3020),
    )
    wrong = Source("broker-2/replication.log").event(3020, "progress", True, source_id="hwmark/drain", covers=["isr"])
    assert_read_the_same([log.rows[1], *other.rows, *wrong.rows], log.rows[:1])


def incarnations(until: int, *, goes_on: int) -> tuple[Source, Source]:
    """A log that is told once more, as a later incarnation, from 3 s on; the first goes on up to a time."""
    log, copy = Source().leader(0, 0, 0, 0, [1, 2, 3]), Source(source_epoch=1)
    for ms in range(1000, goes_on + 1, 1000):
        log.progress(ms)
    for ms in range(3000, until + 1, 1000):
        copy.progress(ms)
    return log, copy


@pytest.mark.parametrize("cut", [2000, 3000, 5000, 9000, 30_000, 71_000, 90_000])
def test_an_incarnation_ends_when_it_does_and_not_when_a_later_one_begins(cut):
    """Its last number was that of the last row which had come with the first row of the later one."""
    log, copy = incarnations(100_000, goes_on=9000)
    parts = [[row for row in (*log.rows, *copy.rows) if (row["ts"] <= (BASE_MS + cut) * 1000) == early]
             for early in (True, False)]  # fmt: skip
    assert_read_the_same(*parts)
    (found,) = reconstruct([[*log.rows, *copy.rows]])["telemetry_gaps"]
    assert "('kind', 'reset')" in found
    assert "('seq_to', 9)" in found


@pytest.mark.parametrize("cut", [9000, 40_000, 90_000, 150_000])
def test_an_incarnation_that_goes_on_after_a_silence_ends_twice(cut):
    """Two writers of a quiet log, one beside the other: each end is told, whenever it is read."""
    log, copy = incarnations(260_000, goes_on=5000)
    for ms in range(140_000, 145_000, 1000):
        log.progress(ms)
    parts = [[row for row in (*log.rows, *copy.rows) if (row["ts"] <= (BASE_MS + cut) * 1000) == early]
             for early in (True, False)]  # fmt: skip
    assert_read_the_same(*parts)
    found = reconstruct([[*log.rows, *copy.rows]])["telemetry_gaps"]
    assert [number for number in (5, 10) for row in found if f"('seq_to', {number})" in row] == [5, 10]


def test_a_hole_of_an_incarnation_that_has_ended_is_given_up_as_others_go_on():
    log, copy = Source().leader(0, 0, 0, 0, [1, 2, 3]).skip().progress(2000), Source(source_epoch=1)
    for ms in range(3000, 90_000, 1000):
        copy.progress(ms)
    reconstructor = Reconstructor(RULES)
    found = reconstructor.update(events_of([*log.rows, *copy.rows])).telemetry_gaps.to_pylist()
    assert [(row["kind"], row["seq_from"], row["seq_to"]) for row in found] == [("gap", 1, 1), ("reset", 2, 2)]


# What docs/architecture.md names as not kept.


def test_a_first_term_begins_by_the_settings_told_so_far():
    """202611261537: to wait for sources without rows would leave a new cluster without a present for the grace."""
    log, other = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 5).progress(1000), Source("broker-2/replication.log")
    rest = [*other.config(0, lag_max_ms=30).progress(5000).rows, *Source().skip(3).progress(5000).rows]
    found = differences(reconstruct([[*log.rows, *rest]]), reconstruct([log.rows, rest]))
    assert set(found) == {"replica_sync"}


def test_a_row_without_a_type_that_waits_behind_a_hole_goes_to_quarantine():
    """A batch of such rows alone ended the job, at each restart anew."""
    log = Source().skip(1).append(10, 5)
    log.rows[0]["event_type"] = None
    assert_read_the_same(log.rows, Source("broker-2/replication.log").progress(1000).rows)


@pytest.mark.parametrize("told_ms", [9_000, 30_000, 75_000])
def test_a_log_that_is_silent_for_longer_than_the_grace_shows_what_it_tells_of_that_time(told_ms):
    """Its next row comes a batch later than the watcher's: by then the sample stands as a row of its own."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3], partition_epoch=0)
    watcher, other = Watched(1).leads(1905, 0, 0, 0).progress(told_ms - 3000), Watched(2).progress(told_ms)
    first = [*log.rows, *watcher.rows[:1]]
    assert_read_the_same(first, [*watcher.rows[1:], *other.rows], log.progress(told_ms).rows[1:])


def test_rows_behind_a_hole_go_on_in_however_many_batches_they_came():
    """What was sampled between the two stood for itself where they were read one after the other."""
    log = Source().config(0, min_isr=2).leader(0, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3], partition_epoch=0)
    log.skip().progress(20_000).progress(23_000)
    watcher, other = Watched(1).leads(1000, 0, 0, 0).leads(21_500, 0, 0, 0, isr=[1]), Watched(2).progress(1000)
    first = [*log.rows[:2], watcher.rows[0], other.rows[0]]
    for ms in range(22_000, 120_000, 1000):
        watcher.progress(ms), other.progress(ms)
    assert_read_the_same(first, log.rows[2:3], [log.rows[3], *watcher.rows[1:], *other.rows[1:]])


def test_lines_that_were_not_understood_say_nothing_of_a_deadline_before_them():
    """Where no row of the partition came between, a replica that lagged by then was out of sync by a log of level 0."""
    log, other = Source().leader(0, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3]), Source("broker-2/replication.log")
    for ms in range(1000, 13_000, 1000):
        log.progress(ms), other.progress(ms)
    first, known = [*log.rows, *other.rows], (len(log.rows), len(other.rows))
    log.lost(13_000, "not understood: 7 lines")
    for ms in range(14_000, 40_000, 1000):
        log.progress(ms), other.progress(ms)
    assert_read_the_same(first, [*log.rows[known[0] :], *other.rows[known[1] :]])


def test_a_row_without_a_time_that_is_accepted_is_not_the_earliest():
    """331150066: its source, 400 s ahead, was the first of one batch, by which the others were measured."""
    log, watcher = Source().leader(0, 0, 0, 0, [1, 2, 3]).fetch(400_000, 2, 0), Watched(1).began(0, 0, 0)
    log.rows[0]["ts"] = -1_000_000
    assert_read_the_same([log.rows[0], *watcher.rows], log.rows[1:])


def test_samples_wait_for_those_of_a_watchers_source_that_wait_behind_a_hole():
    """They were read ahead of the leader's, which then named all as holding the HW, and not the leader alone."""
    leader = Watched(1).progress(3000).skip(2).progress(4000).leads(4000, 0, 0, 0).seen(4305, 1, 0, [1, 3])
    two, three = (Watched(b).progress(3000).progress(4000).follows(4001, 0).seen(4305, 1, 0, [1, 3]) for b in (2, 3))
    first = [row for source in (leader, two, three) for row in source.rows]
    ends = {source.broker: source.progress(9800).rows[-1] for source in (leader, two, three)}
    assert_read_the_same(first, [ends[3]], [ends[1], ends[2]])


@pytest.mark.parametrize("ends_ms", [None, 110_000])
def test_lines_that_are_not_understood_later_say_nothing_of_samples_before_them(ends_ms):
    """In one batch the log was of level 0 by then, and HWs that it tells stood for themselves as samples, too."""
    log, other = Source().leader(0, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3]), Source("broker-2/replication.log")
    log.append(10, 9).fetch(20, 2, 9, 9).fetch(20, 3, 9, 9).hw(20, 9)
    watcher = Watched(1).leads(10, 0, 0, 0).leads(2000, 0, 9, 9)
    for ms in range(3000, 140_000, 1000):
        for source in (log, other, watcher):
            source.progress(ms)
        if ms == 100_000:
            log.lost(ms, "not understood: 7 lines")
        if ms == ends_ms:
            log.follower(ms, 1, 9, 9, 2)
    rows = [row for source in (log, other, watcher) for row in source.rows]
    assert_read_the_same(*([row for row in rows if (row["ts"] <= (BASE_MS + 50_000) * 1000) == early]
                           for early in (True, False)))  # fmt: skip


def test_a_hw_that_a_log_tells_later_contradicts_no_sample_before_it():
    """In one batch a log that was read from mid-term on had it at the time of the sample."""
    led = {"leader_id": 1, "leader_epoch": 0}
    log, other = Source().event(0, "append", leader_leo=5, **led), Source("broker-2/replication.log")
    watcher = Watched(1).leads(2000, 0, 12, 12)
    for ms in range(3000, 140_000, 1000):
        for source in (other, watcher):
            source.progress(ms)
        late = ms == 100_000
        log.event(ms, "hw", hw=9, replica_id=1, **led) if late else log.event(ms, "append", leader_leo=12, **led)
    rows = [row for source in (log, other, watcher) for row in source.rows]
    assert_read_the_same(*([row for row in rows if (row["ts"] <= (BASE_MS + 50_000) * 1000) == early]
                           for early in (True, False)))  # fmt: skip


def test_a_log_that_is_read_anew_goes_on_where_it_tells_nothing_of_a_partition_yet():
    """In two batches what was sampled then stood for itself: that incarnation had not told of the partition."""
    log, again = Source().leader(0, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3]), Source(source_epoch=1)
    log.append(10, 9).fetch(20, 2, 9, 9).fetch(20, 3, 9, 9).hw(20, 9)
    other, watcher = Source("broker-2/replication.log"), Watched(1).leads(20_000, 0, 12, 12)
    for ms in range(1000, 150_000, 1000):
        for source in (again, other, watcher):
            source.progress(ms)
        if ms == 100_000:
            again.append(ms, 12)
    rows = [row for source in (log, again, other, watcher) for row in in_time(source)]
    assert_read_the_same(*([row for row in rows if (row["ts"] <= (BASE_MS + 90_000) * 1000) == early]
                           for early in (True, False)))  # fmt: skip


def test_a_log_that_tells_of_a_partition_later_says_nothing_of_samples_before():
    """Another file of the leader, whose own lacks a row then: in one batch it went on in place of that one."""
    log, later = Source().leader(0, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3]), Source("broker-1/server.log")
    log.append(10, 9).fetch(20, 2, 9, 9).fetch(20, 3, 9, 9).hw(20, 9)
    other, watcher = Source("broker-2/replication.log"), Watched(1).leads(20_000, 0, 12, 12)
    for ms in range(1000, 150_000, 1000):
        if ms == 21_000:
            log.skip()
        for source in (log, later, other, watcher):
            source.progress(ms)
        if ms == 100_000:
            later.append(ms, 12)
    rows = [row for source in (log, later, other, watcher) for row in in_time(source)]
    assert_read_the_same(*([row for row in rows if (row["ts"] <= (BASE_MS + 90_000) * 1000) == early]
                           for early in (True, False)))  # fmt: skip


@pytest.mark.parametrize("unfit", [{"broker_id": -1, "replica_id": -1}, {"broker_id": -1}, {"event_type": None}])
def test_a_watchers_row_that_is_unfit_beside_a_logs_start_ends_no_batch(unfit):
    """One that names no broker, nor ISR and replicas; and one without a type."""
    log = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 5).progress(3000)
    watcher = Watched(1).event(0, "sample", replica_id=1, leo=5).progress(3000)
    watcher.rows[0] |= unfit
    assert_read_the_same([log.rows[0], watcher.rows[0]], [*log.rows[1:], watcher.rows[1]])


def test_a_sample_of_the_moment_up_to_which_all_is_read_waits_for_settings_of_that_moment():
    """3811280537: a newcomer had told min ISR then, and the sample was read by what had been told before."""
    leader = Watched(2).began(5, 1, 0, isr=[2, 3]).leads(23_311, 1, 0, 0, isr=[2, 3])
    other, newcomer = controller().progress(0).progress(23_311), Watched(1).config(23_311, min_isr=3)
    first = [*leader.rows, *other.rows]
    assert_read_the_same(first, [*newcomer.rows, *leader.seen(44_336, 2, 1, partition_epoch=2).rows[2:]])


def test_a_change_of_the_moment_up_to_which_all_is_read_waits_for_others_of_that_moment():
    """In one batch the row of broker 1 stands first; in two it came last, and the ISR was the one that it tells."""
    log, other = Source().leader(0, 0, 0, 0, [1, 2, 3]).progress(7000), Source("broker-2/replication.log").progress(0)
    other.progress(7000).event(7000, "isr", leader_id=1, isr=[1, 2])
    first = [*log.rows, *other.rows]
    log.event(7000, "isr", leader_id=1, isr=[1, 3]).progress(20_000)
    assert_read_the_same(first, [*log.rows[2:], *other.progress(20_000).rows[3:]])


@pytest.mark.parametrize("ts", [-1_000_000, 10_413_792_000_000_000])
def test_a_row_that_is_set_aside_for_its_time_waits_for_the_numbers_before_it(ts):
    """3811283857: they were taken for lost as it came, and rows that were in time for late ones."""
    log = Source().progress(0).leader(10, 0, 0, 0, [1, 2, 3]).append(20, 5).progress(30)
    log.rows[2]["ts"] = ts
    assert_read_the_same([log.rows[0], log.rows[2]], [log.rows[1], log.rows[3]])


def test_a_row_of_the_moment_up_to_which_all_is_read_waits_for_settings_of_that_moment():
    """The log of a leader, too: its ISR was under min ISR then in one batch, and the HW stood still."""
    log, other = Source().leader(0, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3]), Source("broker-2/replication.log")
    log.isr(1000, [1, 2], 1, "metadata").append(7000, 5).fetch(7000, 2, 5)
    other.progress(0).progress(7000)
    first = [*log.rows, *other.rows]
    other.config(7000, min_isr=3).progress(20_000)
    assert_read_the_same(first, [*other.rows[2:], *log.append(8000, 6).fetch(8000, 2, 6).progress(20_000).rows[4:]])


def test_a_gap_of_a_source_pauses_each_broker_that_the_source_names_there():
    """3811283419, …7441: the broker of its first series alone, which not every bucket has."""
    log = Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).append(100, 5).fetch(300, 2, 5)
    wrong = Source("broker-2/replication.log").on(partition=1).follower(0, 0, 0, 0, 3).skip()
    wrong.on(partition=0).event(200, "rumour", broker_id=1)
    assert_read_the_same([*log.progress(20_000).rows, *wrong.progress(20_000).rows])


def test_of_two_samples_with_one_number_both_are_read_at_the_time_of_the_one_that_counts():
    """3811285901: the other one waited for its own time, and was a repeat of the first by then."""
    watcher, other, third = Watched(1).leads(1000, 0, 5, 5).leads(3000, 0, 7, 7), Watched(2), controller().progress(0)
    watcher.rows[1] |= {"seq": 0, "source_seq": 0}
    first = [*watcher.rows, *other.progress(0).progress(2000).rows, *third.progress(6500).rows]
    assert_read_the_same(first, [*other.progress(20_000).rows[2:], *third.progress(20_000).rows[2:]])


def test_a_kind_of_evidence_that_begins_at_the_last_moment_told_has_a_stretch():
    """3811283898: what had been written up to then was taken for all of it."""
    log = Source().event(1000, "progress", True, covers=["terms"])
    first = list(log.rows)
    assert_read_the_same(first, log.event(1000, "progress", True, covers=["terms", "isr"]).rows[1:])


def test_a_stretch_of_rows_with_a_wrong_clock_is_told_where_it_begins():
    """3811282337: each part of it that came by itself had a row of its own."""
    log, other = Source().leader(0, 0, 0, 0, [1, 2]), Source("broker-2/replication.log").progress(0).progress(30_000)
    other.progress(45_000)
    log.progress(200_000).progress(200_100).progress(200_400)
    parts = [log.rows[0], *other.rows[:2]], [log.rows[1], other.rows[2]], [*log.rows[2:]]
    assert_read_the_same(*parts, log.progress(45_000).rows[4:])


def test_a_gap_of_one_log_of_a_broker_pauses_its_partitions_in_every_bucket():
    """A bucket without a partition of that log did not know whose it is, and the HW there advanced over the gap."""
    log = Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).append(100, 5).fetch(300, 2, 5)
    other = Source("broker-1/server.log").on(partition=1).leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).skip()
    other.append(200, 3)
    assert_read_the_same([*log.progress(20_000).rows, *other.progress(20_000).rows])


def test_a_gap_of_a_log_that_has_told_of_no_partition_yet_pauses_those_of_its_broker():
    """In one batch with a later row of a partition it did, in two it did not."""
    log = Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).append(100, 5).fetch(300, 2, 5).progress(20_000)
    other = Source("broker-1/server.log").progress(0)
    other.number({"topic": None, "partition": -1})
    other.progress(200).progress(20_000)
    first = [*log.rows, *other.rows]
    other.on(partition=1).leader(30_000, 0, 0, 0, [1, 2], replicas=[1, 2]).progress(40_000)
    assert_read_the_same(first, [*log.progress(40_000).rows[4:], *other.rows[3:]])


def _clocks_apart(*reported_ms: int) -> tuple[Source, Source]:
    """A controller that records a change of the ISR each 10 s from 20 s on, and a leader that reports them then."""
    quorum, log = controller(), Source().leader(0, 0, 0, 0, [1, 2, 3], partition_epoch=0)
    quorum.election(0, 1, 0, isr=[1, 2, 3], partition_epoch=0)
    for epoch, ms in enumerate(reported_ms, 1):
        isr = [[1, 2], [1, 2, 3]][epoch % 2]
        quorum.isr(10_000 + 10_000 * epoch, isr, epoch, "controller", leader_id=1, leader_epoch=0)
        log.isr(ms, isr, epoch, "metadata")
    return quorum, log


def test_a_clock_is_wrong_from_the_first_report_on_that_shows_it():
    """The row had the time and the difference of the last one in its batch."""
    quorum, log = _clocks_apart(12_000, 20_000, 31_000)
    assert_read_the_same([*quorum.rows[:2], *log.rows[:2]], [*quorum.rows[2:], *log.rows[2:]])


def test_a_clock_that_another_log_shows_to_be_right_in_the_same_batch_is_right_again():
    """In one batch a later row that showed it was compared first, and the doubt of a loss never ended."""
    quorum, log = _clocks_apart(12_000)
    again = Source(source_epoch=1).leader(40_000, 0, 0, 0, [1, 2], partition_epoch=1)
    quorum.isr(60_000, [1, 2, 3], 2, "controller", leader_id=1, leader_epoch=0)
    again.isr(60_100, [1, 2, 3], 2, "metadata").progress(80_000)
    first = [*quorum.rows[:2], *log.rows]
    parts = first, [*quorum.progress(80_000).rows[2:], *again.rows]
    whole, cut = Reconstructor(RULES), Reconstructor(RULES)
    whole.update(events_of([row for part in parts for row in part]))
    for part in parts:
        cut.update(events_of(part))
    assert whole.state.wrong_clocks == cut.state.wrong_clocks == {}


def test_a_later_incarnation_that_is_read_first_ends_a_term_that_an_earlier_one_tells():
    """4001288360: its rows were read before the other's showed that its broker leads, and its term went on."""
    log, again = Source("broker-2/replication.log"), Source("broker-2/replication.log", source_epoch=1)
    others = [Source(f"broker-{b}/replication.log").progress(200).progress(3210) for b in (1, 3)]
    log.progress(200), again.follower(212, 2, 0, 0, 1)
    first = [*log.rows, *again.rows, *(row for other in others for row in other.rows)]
    log.leader(205, 1, 0, 0, [2, 3], replicas=[1, 2, 3]).progress(3210), again.progress(3210)
    assert_read_the_same(first, [*log.rows[1:], *again.rows[1:]])


def test_lines_of_one_moment_that_two_writers_tell_wait_for_each_other():
    """4001281212: what one of them read of the moment came before lines that the other did not understand."""
    log, again = Source().leader(0, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3]), Source(source_epoch=1)
    others = [Source(f"broker-{b}/replication.log").progress(3000) for b in (2, 3)]
    again.fetch(3000, 2, 0, 0)
    first = [*log.rows, *again.rows, *(row for other in others for row in other.rows)]
    log.fetch(3000, 2, 0, 0).lost(3000, "not understood: 7 lines").append(3000, 3)
    again.lost(3000, "not understood: 7 lines").append(3000, 3).fetch(3000, 2, 0, 0)
    assert_read_the_same(first, [*log.rows[1:], *again.rows[1:]])


def test_a_setting_of_the_very_moment_at_which_a_term_begins_counts_for_it():
    """4011288292: all active sources had told that moment, and the `leader` row was read before the setting came."""
    log, quorum = Source().leader(0, 0, 0, 0, [1, 2, 3]), controller().progress(1000)
    log.config(0, "clicks", lag_max_ms=1).progress(1000)
    assert_read_the_same([*log.rows[:1], *quorum.rows], log.rows[1:])


def test_a_clock_that_was_wrong_as_a_drain_closed_its_history_is_judged_anew_behind_it():
    """The fetch counted at the last time that was believed where whoever shows that it was right came a batch later."""
    log, other = Source("broker-3/replication.log"), Source("broker-2/replication.log").progress(0)
    log.leader(70_000, 0, 5, 0, [1, 3], replicas=[1, 3]).fetch(70_000, 1, 5, 5).progress(73_000)
    closing = dict.fromkeys(log.rows[0]) | closing_row(
        "c", log.rows[0]["ts"], 0, {"broker-3/replication.log": (0, 0), "broker-2/replication.log": (0, 0)}
    )
    parts = other.rows[:], [*log.rows[:2], closing], [*log.rows[2:], *other.progress(73_000).rows[1:]]
    assert_read_the_same(*parts)


def test_a_stretch_of_coverage_ends_with_its_latest_row_where_a_sources_clock_went_back():
    """Read at once it ended at the time of its last row, before that of its first."""
    log = Source().progress(1000).progress(1400).progress(1200)
    assert_read_the_same(log.rows[:2], log.rows[2:])


def test_behind_a_gap_no_hw_is_of_a_deposed_leaders_term_though_the_gap_is_forgotten():
    """4322292922: the batch after a drain was empty and forgot the gap; the next one read a critical loss."""
    old, new = Source(), Source("broker-3/replication.log")
    old.fetch(0, 2, 0).event(6, "follower", leader_id=3, leader_epoch=1, leo=0, hw=0).hw(7, 1)
    del old.rows[1]
    new.leader(5, 1, 0, 0, [1, 3], leader_id=3, partition_epoch=1)
    quorum = controller().election(0, 3, 1, isr=[1, 3], partition_epoch=1)
    last = {"broker-1/replication.log": (0, 2), "broker-3/replication.log": (0, 0), quorum.rows[0]["source_id"]: (0, 0)}
    closing = dict.fromkeys(new.rows[0]) | closing_row("c", old.rows[-1]["ts"], 0, last)
    first = [*old.rows, *new.rows, *quorum.rows, closing]
    behind = old.on(topic="orders", topic_id="orders-id").leader(70_305, 1, 0, 0, [1, 2]).rows[-1:]
    behind += new.on(topic="orders", topic_id="orders-id").follower(70_308, 1, 0, 0, 1).rows[-1:]
    assert_read_the_same(first, [], behind)
