"""Logs of consumers that find that what they had read is gone (KIP-320)."""

import pytest

from generators.brokerlogs.ingest import read_logs
from hwmark import replay
from tests.unit.brokerlogs.log_lines import events, leader, line

SUBSCRIPTIONS = "org.apache.kafka.clients.consumer.internals.SubscriptionState"
RESET = "resetting offset to the first offset known to diverge {}"
NO_POLICY = "(the end offset from the broker is EpochEndOffset({}partition=1, leaderEpoch=0, endOffset=100)), but no {}"


def position(offset, epoch, leader_epoch, leader="Optional[b2:9092 (id: 2 rack: null isFenced: false)]"):
    leads = f"LeaderAndEpoch{{leader={leader}, epoch={leader_epoch}}}"
    return f"FetchPosition{{offset={offset}, offsetEpoch=Optional[{epoch}], currentLeader={leads}}}"


def detection(offset=120, epoch=0, leader_epoch=1, words=None, ms=9000, group="billing", **of):
    words = words or RESET.format(position(100, 0, leader_epoch, **of))
    at = position(offset, epoch, leader_epoch, **of)
    text = f"Truncation detected for partition orders-1 at offset {at}, {words}"
    return line(f"[Consumer clientId=consumer-{group}-1, groupId={group}] {text}", SUBSCRIPTIONS, ms=ms)


@pytest.mark.parametrize(
    "words",
    [
        None,
        NO_POLICY.format("errorCode=0, ", "reset policy is set"),
        "(the end offset from the broker is OffsetAndMetadata{offset=100, leaderEpoch=0, metadata=''}), but no reset",
        "(the end offset from the broker is EpochEndOffset{error=NONE, leaderEpoch=0, endOffset=100}), but no reset",
    ],
    ids=["reset", "no policy", "no policy since 2.7", "before 2.7"],
)
@pytest.mark.parametrize("leader", ["Optional[b2:9092 (id: 2 rack: null)]", "b2:9092 (id: 2 rack: a)"])
def test_a_consumer_tells_up_to_where_it_had_read_and_where_the_leaders_log_ends_that_epoch(words, leader):
    (row,) = events(detection(words=words, leader=leader))
    said = {name: row[name] for name in ("event_type", "broker_id", "replica_id", "leo", "leader_epoch", "detail")}
    assert said == {
        "event_type": "truncate", "broker_id": -1, "replica_id": 2, "leo": 100, "leader_epoch": 1,
        "detail": "read=120 epoch=0 end=100",
    }  # fmt: skip


def test_a_consumer_whose_position_is_of_the_epoch_of_the_leader_tells_of_no_cut():
    """The topic may have been deleted and made anew: its epochs begin at 0 again."""
    assert events(detection(leader_epoch=0)) == []


def test_a_consumers_line_of_an_unknown_wording_is_not_passed_over():
    (row,) = events(line("[Consumer clientId=a, groupId=b] Truncation detected for partition orders-1", SUBSCRIPTIONS))
    assert row["event_type"] == "lost"


def losses(folder, *consumers):
    """Classes, proofs and ranges, where broker 2 leads in epoch 1 and nothing tells of epoch 0."""
    began = leader(150, 150, "2", epoch=1).replace("Broker id=1", "Broker id=2")
    logs = {"broker-2/server": began} | {f"host-{n}/app": said for n, said in enumerate(consumers)}
    for name, said in logs.items():
        file = folder / f"{name}.log"
        file.parent.mkdir()
        file.write_text(said)
    found = replay(read_logs([folder], "c")).hw_regressions.to_pylist()
    return [(row["class"], row["proof"], row["lost_from"], row["lost_to"]) for row in found]


def test_what_a_consumer_had_read_beyond_the_end_that_the_leader_answers_is_lost_at_least(tmp_path):
    assert losses(tmp_path, detection()) == [("hw_moved_back", "bounded", 100, 120)]


def test_of_several_consumers_the_one_that_had_read_furthest_tells_the_loss(tmp_path):
    assert losses(tmp_path, detection(offset=110, ms=9400), detection(), detection(offset=119, ms=9100)) == [
        ("hw_moved_back", "bounded", 100, 120)
    ]
