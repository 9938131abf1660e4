"""lines.json: lines of Kafka's loggers with evidence, each with its first and last version and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_FILE = Path(__file__).parent / "lines.json"
TABLE: dict[str, dict[str, tuple[str, str, str]]] = {
    logger: {text: (first, last, made) for text, (first, last, made) in lines.items()}
    for logger, lines in json.loads(_FILE.read_text()).items()
}


def number(version: str) -> tuple[int, ...]:
    """A version, to be compared."""
    return tuple(map(int, version.split(".")))


def write(found: Mapping[tuple[str, str], str], version: str) -> None:
    """Add the lines of a version, (logger, text) with what is made of each."""
    table = {logger: dict(lines) for logger, lines in TABLE.items()}
    for (logger, text), made in found.items():
        first, last, _ = table.setdefault(logger, {}).get(text, (version, version, made))
        table[logger][text] = (min(first, version, key=number), max(last, version, key=number), made)
    _FILE.write_text(json.dumps(table, indent=0, sort_keys=True) + "\n")
