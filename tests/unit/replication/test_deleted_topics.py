"""A topic that controllers delete is no longer present, nor is anything of it that a broker tells later."""

import pytest

from pipelines.replication import Reconstructor
from tests.unit.replication.bronze import Source, controller, table

OLD, NEW = "topic-id-of-the-first-", "topic-id-of-the-second"
DELETED = {
    "by its id": ({"topic_id": OLD}, []),
    "of another id": ({"topic_id": NEW}, [0]),
    "with ZooKeeper, by its name": ({}, []),
    "another topic": ({"topic": "other"}, [0]),
    "not committed yet": ({"topic_id": OLD, "committed": False}, [0]),
}


def partitions_of(*sources, through=None):
    """Partitions present after these rows; `through`: what happens to the state meanwhile."""
    machine = Reconstructor()
    machine.update(table(*sources))
    machine.finish()
    machine = through(machine) if through else machine
    return machine.present().partition_health["partition"].to_pylist()


def leading(*later):
    """Broker 1 leads from millisecond 0; `later`: when it says so again, and of which topic."""
    source = Source().on(topic_id=OLD).leader(0, 0, 0, 0, [1, 2], replicas=[1, 2])
    for ms, topic_id in later:
        source.on(topic_id=topic_id).leader(ms, 0, 0, 0, [1, 2], replicas=[1, 2])
    return source


def deletion(ms, **given):
    columns = {"topic": "clicks", "topic_id": None, "committed": True, "detail": "topic=deleted"} | given
    return controller().event(ms, "config", True, **columns)


@pytest.mark.parametrize(("given", "present"), DELETED.values(), ids=DELETED)
@pytest.mark.parametrize("through", [None, lambda machine: Reconstructor.restore(machine.snapshot())])
def test_a_topic_that_was_deleted_is_not_present(given, present, through):
    assert partitions_of(leading(), deletion(5000, **given), through=through) == present


@pytest.mark.parametrize(("topic_id", "present"), [(OLD, []), (NEW, [0])])
def test_a_topic_of_the_same_name_is_told_apart_by_its_id(topic_id, present):
    """A broker that was down tells of the old one as it starts; one that is created anew has another id."""
    assert partitions_of(leading((9000, topic_id)), deletion(5000, topic_id=OLD)) == present


@pytest.mark.parametrize(("later", "present"), [((9000, OLD), []), ((9000, NEW), [0])])
def test_without_an_id_what_begins_after_the_deletion_is_of_a_topic_created_again(later, present):
    """With ZooKeeper the controller goes on to tell of a topic until all replicas are back."""
    assert partitions_of(leading(later), deletion(5000)) == present


def test_without_any_id_a_topic_is_created_again_where_leader_epochs_begin_again():
    """Before Kafka 2.8 topics have no ids."""
    old = Source().on(topic_id=None).leader(0, 3, 0, 0, [1, 2], replicas=[1, 2])
    assert partitions_of(old.leader(9000, 4, 0, 0, [1, 2], replicas=[1, 2]), deletion(5000)) == []
    assert partitions_of(old.leader(19_000, 0, 0, 0, [1, 2], replicas=[1, 2]), deletion(15_000)) == [0]
