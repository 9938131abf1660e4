"""(f) Readers of logs: what parsers and an ingest write down midway."""

from __future__ import annotations

import json
import tempfile
import threading
import zlib
from base64 import b64decode, b85decode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from generators.brokerlogs.ingest import ingest_logs
from generators.brokerlogs.messages.controller_state import METADATA_LOG
from generators.brokerlogs.parsing.parser import SourceParser
from generators.brokerlogs.tailing import session
from generators.recordings import traces
from pipelines.lake.bronze import read_events
from tests.golden.canonical import Output, as_json, canonical
from tests.golden.runs import in_order


def parsers() -> Iterator[Output]:
    """Parsers of single logs cut anywhere: what they keep (inflated), and their events."""
    for name in ("unclean_election", "leader_crash"):
        for log in sorted(traces.path(name).rglob("*.gz")):
            if log.stat().st_size > 100_000:
                continue
            source = str(log.relative_to(traces.path(name))).removesuffix(".gz")
            dumped = source.startswith("metadata")
            parser = SourceParser(name, source, broker_id=METADATA_LOG if dumped else None)
            data = _inflated(log)
            bounds = [len(data) * k // 5 for k in range(6)]
            rows = []
            for k in range(5):
                rows.append(parser.feed(data[bounds[k] : bounds[k + 1]]))
                snapshot = parser.snapshot()
                yield f"{name}/{source}/after {k + 1}", _parser(snapshot)
                parser = SourceParser.restore(snapshot)
            rows.append(parser.feed(b"", last=True))
            yield f"{name}/{source}/events", canonical(pa.concat_tables(rows))


def _inflated(file: Path) -> bytes:
    return zlib.decompress(file.read_bytes(), 31)


class _Stop:
    """Stops an ingest after so many rounds."""

    def __init__(self, rounds: int) -> None:
        self.event, self._left = threading.Event(), rounds

    def round_done(self, words: str) -> None:
        self._left -= 1
        if not self._left:
            self.event.set()


def ingests() -> Iterator[Output]:
    """What an ingest writes down where it reads small pieces and is stopped midway, and then, at once, to the end."""
    small = {"CHUNK": 30_000, "ROUND_BYTES": 1, "PERIOD_S": 1e9}
    for name in ("unclean_election", "slow_follower"):
        with tempfile.TemporaryDirectory() as lake:
            for step in ("stopped", "stopped again", "at the end"):
                stop = _Stop(0 if step == "at the end" else 3)
                with ExitStack() as patches:
                    for key, value in small.items() if step != "at the end" else ():
                        patches.enter_context(patch.object(session, key, value))
                    ingest_logs(
                        [traces.path(name)], cluster=name, lake=lake, stop=stop.event, on_progress=stop.round_done
                    )
                for file in sorted((Path(lake) / "_ingest").rglob("*/*/*.json")):
                    yield f"{name}/{step}/{file.relative_to(lake)}", _state(file.read_bytes())
                yield f"{name}/{step}/events", canonical(in_order(read_events(lake)))


def _state(written: bytes) -> bytes:
    """The state of a source with its parser as `_parser` gives it, and of its files only how far they were read."""
    state = json.loads(written)["state"]
    state["parser"] = _parser(b64decode(state["parser"])).decode()
    if place := state["place"]:
        place["end"], place["seen"] = None, sorted(offset for _, _, offset, *_ in place["seen"])
    return json.dumps(state, separators=(",", ":")).encode()


def _parser(snapshot: bytes) -> bytes:
    """The snapshot of a parser, inflated, its arrays field by field."""
    return as_json(_without_padding(json.loads(zlib.decompress(snapshot))))


def _without_padding(held: Any) -> Any:
    if not isinstance(held, dict):
        return held
    if held.keys() != {"type", "bytes"}:
        return {name: _without_padding(value) for name, value in held.items()}
    kind, data = held["type"], b85decode(held["bytes"])
    if isinstance(kind, str):
        return [kind, data.hex()]
    names, formats, offsets = zip(*kind["fields"], strict=True)
    layout = {"names": list(names), "formats": list(formats), "offsets": list(offsets), "itemsize": kind["size"]}
    return [kind, np.frombuffer(data, np.dtype(layout)).tolist()]
