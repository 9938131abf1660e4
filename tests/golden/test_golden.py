"""What the program gives and keeps is byte for byte what digests.json says: see outputs."""

from __future__ import annotations

import json

import pytest

from tests.golden import outputs, states

KNOWN: dict[str, str] = json.loads(outputs.DIGESTS.read_text())


def differences(known: dict[str, str], computed: dict[str, str]) -> list[str]:
    """What to say of each entry that is not as the file has it."""
    got = {
        "differs": [name for name in known if name in computed and known[name] != computed[name]],
        "is in the file and no longer computed": known.keys() - computed.keys(),
        "is computed and not in the file": computed.keys() - known.keys(),
    }
    return [f"{name} {words}" for words, names in got.items() for name in sorted(names)]


NIGHTLY = ("simulator", "snapshots")
"""The slowest groups; what they hold byte for byte others show in part: facts, scenarios, states that go on."""


@pytest.mark.parametrize(
    "group", [pytest.param(g, marks=[pytest.mark.nightly] if g in NIGHTLY else []) for g in outputs.GROUPS]
)
def test_outputs_are_those_of_the_file(group: str) -> None:
    known = {name: digest for name, digest in KNOWN.items() if name.startswith(f"{group}/")}
    found = differences(known, outputs.digests(group))
    assert not found, f"{len(found)} of {len(known)} entries:\n" + "\n".join(found)


def test_no_entry_of_the_file_is_of_no_group() -> None:
    """Within a group the test above names those that nothing computes."""
    assert [name for name in KNOWN if name.partition("/")[0] not in outputs.GROUPS] == []


def test_the_file_is_as_it_is_written() -> None:
    assert outputs.DIGESTS.read_text() == json.dumps(KNOWN, indent=1, sort_keys=True) + "\n"


TOLD_EARLIER = {
    "seldom-1": ("minute_stats", "partition_hw", "telemetry_gaps"),
    "run-08-4": ("minute_stats", "partition_hw", "replica_sync", "telemetry_gaps"),
    **dict.fromkeys(("unclean_election-1", "run-31-1", "run-35-1"), ("minute_stats",)),
}
"""When these states were written an incarnation ended with the first row of the next one, so that what is told a minute
later today was told in the first half; and of Kafka 0.8 (run-08) no replica was out by the time of its last fetch. They
do not have which leader said that a replica is out of sync, or a HW held back, which minutes count while it leads."""


def test_who_goes_on_from_a_snapshot_of_the_folder_comes_to_what_an_unbroken_run_comes_to() -> None:
    places = [f"{name}/second half/" for name in states.BEGUN]
    facts = {
        group: {place: digest for name, digest in KNOWN.items() if (place := name.removeprefix(f"{group}/")) != name}
        for group in ("snapshots", "continued")
    }
    for place in places:
        unbroken, continued = (
            {name.removeprefix(place): digest for name, digest in facts[group].items() if name.startswith(place)}
            for group in facts
        )
        assert unbroken
        # The states of the folder are older than silver/coverage: its stretches begin with them.
        otherwise = dict.fromkeys(("coverage", *TOLD_EARLIER.get(place.partition("/")[0], ())), "")
        assert continued | otherwise == unbroken | otherwise


def test_every_snapshot_of_the_folder_is_used() -> None:
    names = {f"{name}.{bucket}.xz" for name in states.BEGUN for bucket in range(states.cut()[name].buckets)}
    assert {file.name for file in states.SNAPSHOTS.iterdir()} == names
