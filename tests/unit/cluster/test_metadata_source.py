"""The broker that is asked for the metadata."""

from types import SimpleNamespace

import pytest

from generators.cluster.metadata_source import MetadataSource

FOUND = SimpleNamespace(partitions=SimpleNamespace(cluster_id="id", brokers=["at another address"]))


@pytest.mark.parametrize("silent", [True, False])
def test_those_named_at_the_start_are_asked_again_while_no_broker_answers(silent):
    """Nobody waits for them: while one after the other hung, the watcher told nothing, and passed for a stopped one."""
    asked, connected, closed = [], [], []
    works = [SimpleNamespace(is_done=False), SimpleNamespace(is_done=False)]

    def link_to(host, port):
        asked.append((host, port))
        return SimpleNamespace(begin=lambda *_, done: works[len(asked) - 1], close=lambda: closed.append(host))

    links = SimpleNamespace(
        by_broker={1: None}, link_to=link_to, connect=connected.append, describe=lambda _: None, topics=None,
        wake=SimpleNamespace(set=None), security=None,
    )  # fmt: skip
    observer = SimpleNamespace(partitions=SimpleNamespace(cluster_id="id"))
    notes = SimpleNamespace(all_silent=lambda _: silent)
    source = MetadataSource((("a", 9092), ("b", 9092)), links, observer, notes)
    for _ in range(2):
        assert source.ask(0.0) is None
    assert (asked, connected, closed) == (silent * [("a", 9092), ("b", 9092)], [], [])
    works[1] = SimpleNamespace(is_done=True, exception=None, value=(FOUND, None))
    if silent:
        source._named = list(zip([link for link, _ in source._named], works, strict=True))
    source.ask(0.0)
    assert (connected, closed) == (silent * [["at another address"]], silent * ["a", "b"])
    source.ask(0.0)
    assert len(asked) == 2 * silent, "at most each ten seconds"
