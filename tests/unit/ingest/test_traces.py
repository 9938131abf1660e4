"""The recorded traces travel with the package, whole or cut to a level."""

import gzip
import json
from pathlib import Path

import pytest

from generators.recordings import traces
from tests.simulated import cut_traces


def _replication(folder: Path, broker: int) -> list[str]:
    return (folder / f"broker-{broker}" / "replication.log").read_text().splitlines()


def test_there_are_three_scenarios_with_what_was_done_to_them() -> None:
    assert traces.scenarios() == ["leader_crash", "slow_follower", "unclean_election"]
    for name in traces.scenarios():
        actions = [json.loads(line) for line in (traces.path(name) / "actions.jsonl").read_text().splitlines()]
        assert actions[-1]["action"] == "end"
        assert sum(path.stat().st_size for path in traces.path(name).rglob("*")) < 1 << 20
    with pytest.raises(ValueError, match="no recorded scenario 'nope': choose one of leader_crash"):
        traces.path("nope")


@pytest.mark.parametrize(
    ("level", "kept", "gone"),
    [
        (cut_traces.lean, ["High watermark updated", "All current LEOs", "starts at leader epoch"], "Recorded replica"),
        (cut_traces.info, ["ISR updated to", "starts at leader epoch"], "High watermark updated"),
    ],
)
def test_a_cut_keeps_what_its_level_prints(tmp_path: Path, level: object, kept: list[str], gone: str) -> None:
    folder = cut_traces.cut("leader_crash", level, tmp_path / "cut")  # type: ignore[arg-type]
    lines = [line for broker in (1, 2, 3) for line in _replication(folder, broker)]
    for words in kept:
        assert any(words in line for line in lines)
    assert not any(gone in line for line in lines)
    assert gzip.decompress((folder / "metadata.dump.gz").read_bytes()).startswith(b"Dumping")
    assert "node.id=2" in (folder / "broker-2" / "server.properties").read_text()


def test_a_stack_trace_goes_with_its_line() -> None:
    lines = ["1|t|DEBUG|c|boom\n", "java.lang.X\n", "\tat y\n", "2|t|ERROR|c|bang\n", "\tat z\n"]
    assert list(cut_traces.info(lines)) == lines[3:]
