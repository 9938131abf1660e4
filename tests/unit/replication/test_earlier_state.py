"""State that an earlier version of hwmark has written is read on: a job that is upgraded loses nothing."""

import json
import lzma

import pytest

from pipelines.replication import Reconstructor
from pipelines.replication.partition.events import PartitionEvent
from pipelines.replication.partition.history import PartitionHistory
from pipelines.replication.state import snapshot, version_7
from pipelines.replication.telemetry.sources import Source
from tests.golden.states import SNAPSHOTS, state_tables
from tests.unit.replication.bronze import Source as BronzeSource
from tests.unit.replication.bronze import events_of
from tests.unit.replication.history_cases import T1, FakeLookup, election, isr, summary
from tests.unit.replication.watching import Watched

# As the version before msgspec wrote it (4), of the story below.
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
    history = PartitionHistory.from_bytes(version_7.renamed_history(WRITTEN))
    first, second = history.terms.terms
    assert (first.broker_id, first.stored_hw, first.stored_by) == (1, 90, "stored by broker 2")
    assert first.summary == summary(90, fetchers=frozenset({2, 3}))
    assert (second.epoch, second.start_offset, second.start_hw, second.topic_id) == (3, 95, 90, T1)
    assert history.isr.commits[0].isr == (1, 2)
    assert history.registration.isr == (2,)
    assert PartitionHistory.from_bytes(history.to_bytes()) == history


def test_an_isr_change_that_was_reported_is_not_published_again():
    """What was published is kept as text: other spaces or another order would publish every change once more."""
    history, lookup = PartitionHistory.from_bytes(version_7.renamed_history(WRITTEN)), FakeLookup()
    witness = isr(9100, 9, (2,), 3, "controller")
    history.settle(witness.ts, lookup)
    history.apply(witness, lookup)
    assert history.due() is not None
    history.settle(20_000_000, lookup)
    assert history.take_isr_changes() == []


def test_events_inside_a_history_of_version_4_have_their_present_keys():
    """An election of another topic id, which only a controller reports, waits in the history as a JSON object."""
    history, lookup = PartitionHistory.from_bytes(version_7.renamed_history(WRITTEN)), FakeLookup()
    history.apply(election(9_500, 1, 0, topic_id="second", predicted=True, reported_by=("controller", 0, 7)), lookup)
    now = history.to_bytes()
    assert now.count(b'"predicted":') == now.count(b'"reported_by":') == 1
    then = now.replace(b'"predicted":', b'"foretold":').replace(b'"reported_by":', b'"place":')
    assert version_7.renamed_history(then.replace(b"[5,", b"[4,", 1)) == now


def test_a_history_of_any_other_version_is_refused():
    with pytest.raises(ValueError, match="version 3 instead of 4"):
        version_7.renamed_history(WRITTEN.replace(b"[4,", b"[3,", 1))


def stored(name: str) -> bytes:
    return lzma.decompress((SNAPSHOTS / f"{name}.xz").read_bytes())


@pytest.mark.parametrize("name", sorted(path.name.removesuffix(".xz") for path in SNAPSHOTS.glob("*.xz")))
def test_no_name_of_version_7_is_left_in_a_state_that_goes_on(name):
    before, after = (state_tables(blob) for blob in (stored(name), Reconstructor.restore(stored(name)).snapshot()))
    new = state_tables(Reconstructor().snapshot())
    assert [*after] == [*new]
    assert {place: table.column_names for place, table in after.items()} == {
        place: table.column_names for place, table in new.items()
    }
    assert [table.num_rows for table in after.values()] == [table.num_rows for table in before.values()]
    rest, old = (json.loads(tables["rest"]["json"][0].as_py()) for tables in (after, before))
    for ended in rest["ended_terms"]:  # the last fields of a TermSummary are later ones
        ended[3] = ended[3][:9]
    assert rest.keys() == set(snapshot.Rest.__struct_encode_fields__)
    assert {key for source in rest["sources"] for key in source} == set(Source.__struct_encode_fields__)
    assert sorted(map(str, rest.values())) == sorted(
        map(str, (old | {"sources": rest["sources"], "racks": []}).values())
    )


def test_what_version_7_renamed_is_named_so_now():
    """A slip in one of its maps would be an unknown name in lakes that have such a row, and in no other."""
    columns = {name: {*layout.names} for name, layout in snapshot.RECORDS.items()}
    for table, names in version_7._COLUMNS.items():
        assert {*names.values()} <= columns[table], table
        assert not {*names} & (columns[table] - {*names.values()}), table
    assert {*version_7._TABLES.values()} <= {*state_tables(Reconstructor().snapshot())}
    assert {*version_7._REST.values()} <= {*snapshot.Rest.__struct_encode_fields__}
    assert {*version_7._SOURCE.values()} <= {*Source.__struct_encode_fields__}
    assert {*version_7._EVENT.values()} <= {*PartitionEvent.__struct_encode_fields__}


def test_the_lanes_that_a_watchers_leaders_had_are_given_up():
    """Before samples were read, a watcher's `leader` row began a term of the kernel, with an unknown HW."""
    machine = Reconstructor()
    machine.update(events_of(BronzeSource("broker-1/polled", level=1).leader(0, 0, 40, 40, [1, 2, 3]).rows))
    machine.state.source_names.all[0] = ("c", "watch/main/broker-1", 0)
    machine = Reconstructor.restore(machine.snapshot())
    assert machine.health().select(["hw", "level"]).to_pylist() == [{"hw": None, "level": None}]
    one = Watched(1).seen(1000, 1, 0).leads(1100, 0, 90, 90).round(1200)
    rows = [row | {"seq": row["seq"] + 1, "source_seq": row["source_seq"] + 1} for row in one.rows]
    machine.update(events_of(rows))
    machine.finish()
    assert machine.health().select(["hw", "level"]).to_pylist() == [{"hw": 90, "level": 1}]


def test_a_state_of_version_6_is_refused_with_the_way_out():
    old = snapshot.MAGIC + (6).to_bytes(2, "little")
    with pytest.raises(ValueError, match="has version 6, this hwmark reads 7 and 8: rebuild with `hwmark run"):
        Reconstructor.restore(old)
