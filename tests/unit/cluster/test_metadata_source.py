"""The broker that is asked for the metadata."""

from types import SimpleNamespace

import pytest

from generators.cluster.metadata_source import MetadataSource


@pytest.mark.parametrize("silent", [True, False])
def test_those_named_at_the_start_are_asked_again_while_no_broker_answers(silent):
    asked, connected = [], []

    def bootstrap(servers):
        asked.append(servers)
        return SimpleNamespace(partitions=SimpleNamespace(cluster_id="id", brokers=["at another address"]))

    links = SimpleNamespace(by_broker={1: None}, bootstrap=bootstrap, connect=connected.append, describe=lambda _: None)
    observer = SimpleNamespace(partitions=SimpleNamespace(cluster_id="id"))
    notes = SimpleNamespace(all_silent=lambda _: silent)
    source = MetadataSource((("a", 9092),), links, observer, notes)
    for _ in range(2):
        assert source.ask(0.0) is None
    assert asked == silent * [(("a", 9092),)], "at most each ten seconds"
    assert connected == silent * [["at another address"]]
