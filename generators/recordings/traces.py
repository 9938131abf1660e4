"""Recorded logs of a real three-broker Kafka 4.1.1 under faults."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).parent / "logs"


def scenarios() -> list[str]:
    """Names of the recorded scenarios."""
    return sorted(entry.name for entry in _ROOT.iterdir() if entry.is_dir())


def path(name: str) -> Path:
    """The folder of one scenario: `broker-N/*.log.gz` and `server.properties`, `metadata.dump.gz`, `actions.jsonl`."""
    if name not in scenarios():
        raise ValueError(f"no recorded scenario {name!r}: choose one of {', '.join(scenarios())}")
    return _ROOT / name
