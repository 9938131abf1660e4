"""The position in the files of a source up to which their lines were told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from generators.brokerlogs.discovery.walk import Identity
from generators.brokerlogs.tailing.open_file import Seen


class PositionLost(Exception):
    """The lines told last are in none of the files: what followed them is not known."""


class Older(NamedTuple):
    """Lines never told before ones that were: they begin at a byte of the file with this device and inode."""

    device: int
    inode: int
    begin: int


@dataclass(frozen=True)
class ReadPosition:
    """Lines told, the file that holds the last of them, its number (%sn, -1 without), and how far each file was read.

    The files only save reading: where they are others now, they are known by their lines.
    """

    count: int
    end: Identity | None
    number: int
    seen: Mapping[Identity, Seen]
    older: tuple[Older, ...] = ()

    def as_json(self) -> dict[str, Any]:
        seen = [[*key, *one] for key, one in self.seen.items()]
        return {"count": self.count, "end": self.end, "number": self.number, "seen": seen, "older": self.older}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ReadPosition:
        seen = {(device, inode): Seen(*one) for device, inode, *one in fields["seen"]}
        end, older = fields["end"], (Older(*one) for one in fields["older"])
        return cls(fields["count"], (end[0], end[1]) if end else None, fields["number"], seen, tuple(older))


class Examined(NamedTuple):
    """A file without the line told last: the bytes at which lines never told begin, and the first one's number."""

    seen: Seen
    never_told: tuple[int, ...]
    number: int
