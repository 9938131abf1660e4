"""A parser of lines `ms|topic|partition|leo`: small enough to see through, cut-independent like the real one."""

import json
from types import SimpleNamespace

import pyarrow as pa

from generators.brokerlogs.events.event_rows import EVENTS


class PlainParser:
    def __init__(self, source_id: str = "b/rep.log") -> None:
        self.source_id, self.low_watermark, self.rest = source_id, 0, b""
        self.report = SimpleNamespace(lines=0)
        self.clock_offsets, self.timezone = None, "UTC"
        self.patterns: list[tuple[int, int]] = []
        self.shown: dict[str, int] = {}

    def flush(self) -> pa.Table:
        return EVENTS.empty_table()

    def feed(self, data: bytes) -> pa.Table:
        *lines, self.rest = (self.rest + data).split(b"\n")
        fields = [line.decode().split("|") for line in lines if line.count(b"|") == 3]
        self.low_watermark = max([self.low_watermark, *(int(ms) * 1000 for ms, *_ in fields)])
        self.report.lines += len(lines)
        rows = [
            {
                "cluster": "c",
                "source_id": self.source_id,
                "ts": int(ms) * 1000,
                "broker_id": 1,
                "event_type": "append",
                "topic": topic,
                "partition": int(partition),
                "leader_leo": int(leo),
                "level": 3,
            }
            for ms, topic, partition, leo in fields
        ]
        return pa.Table.from_pylist(rows, schema=EVENTS)

    def take_messages(self) -> list[str]:
        return []

    def snapshot(self) -> bytes:
        return json.dumps([self.source_id, self.low_watermark, self.rest.decode()]).encode()

    @classmethod
    def restore(cls, blob: bytes) -> "PlainParser":
        source_id, low_watermark, rest = json.loads(blob)
        parser = cls(source_id)
        parser.low_watermark, parser.rest = low_watermark, rest.encode()
        return parser

    def continue_from(self, blob: bytes) -> "tuple[PlainParser, list[str]]":
        return self.restore(blob), []


def lines(*leos: int, start: int = 1_700_000_000_000, step: int = 10, topic: str = "orders") -> bytes:
    """One line per LEO, `step` ms apart."""
    return b"".join(f"{start + i * step}|{topic}|{leo % 2}|{leo}\n".encode() for i, leo in enumerate(leos))
