"""State that an earlier version of hwmark has written is read on: a job that is upgraded loses nothing."""

from pipelines.replication.partition.history import PartitionHistory
from tests.unit.replication.history_cases import T1, FakeLookup, isr, summary

# As the version before msgspec wrote it, of the story below.
WRITTEN = (
    b'[4,["c","t",0,[["c","t",0,[2,3,3,[2],[1,2],"first-topic-id",null,null],[[[1,[1,2],1000000,1150000,1,1,[1,2],'
    b"1000000,false,null,null,null,false,0,null],[3,[2],9000000,0,2,3,null,9000000,false,null,null,null,false,1,"
    b'"{\\"leader_id\\":2,\\"leader_epoch\\":3,\\"partition_epoch\\":3,\\"change\\":\\"shrink\\",\\"isr_before\\":[1,2],'
    b'\\"isr_after\\":[2],\\"removed\\":[1],\\"added\\":[],\\"cause\\":\\"unknown\\",\\"proposed_ts\\":null,'
    b'\\"commit_ms\\":null,\\"under_min_isr\\":false,\\"predicted\\":null}"]],[],1,false],[[[1,1,0,1000000,0,1000000,0,0,'
    b'null,"first-topic-id",3,[1,2],null,90,"stored by broker 2",null,false,false,[2],[90,null,[2,3],false,3],9150000,'
    b'false,0,null],[3,2,0,9000000,0,9000000,95,90,null,"first-topic-id",3,[2],null,null,null,null,false,false,[],null,'
    b'0,false,0,null]],{"1":[1,0,0,true,[1,0],false],"2":[3,95,90,true,[3,0],false]},[null,false,"reported",null,null,'
    b"null],null,{},[]],[],[],null,9000000,150000,null,[],[]]],[[],[],false],9000000,[],[]]]"
)


def test_a_history_of_an_earlier_version_is_read_on():
    history = PartitionHistory.from_bytes(WRITTEN)
    first, second = history.terms.terms
    assert (first.broker_id, first.stored_hw, first.stored_by) == (1, 90, "stored by broker 2")
    assert first.summary == summary(90, fetchers=frozenset({2, 3}))
    assert (second.epoch, second.start_offset, second.start_hw, second.topic_id) == (3, 95, 90, T1)
    assert history.isr.commits[0].isr == (1, 2)
    assert history.registration.isr == (2,)
    assert PartitionHistory.from_bytes(history.to_bytes()) == history


def test_an_isr_change_that_was_reported_is_not_published_again():
    """What was published is kept as text: other spaces or another order would publish every change once more."""
    history, lookup = PartitionHistory.from_bytes(WRITTEN), FakeLookup()
    witness = isr(9100, 9, (2,), 3, "controller")
    history.settle(witness.ts, lookup)
    history.apply(witness, lookup)
    assert history.due() is not None
    history.settle(20_000_000, lookup)
    assert history.take_isr_changes() == []
