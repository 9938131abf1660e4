"""The position in the files of a source up to which their lines were told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from generators.brokerlogs.discovery.walk import Identity
from generators.brokerlogs.tailing.open_file import Seen


class PositionLost(Exception):
    """The lines told last are in none of the files: what followed them is not known; or others are told again."""


class Older(NamedTuple):
    """Lines never told before ones that were: they begin at a byte of the file with this device and inode.

    `seen` is how the file was when they were found, None in positions of before.
    """

    device: int
    inode: int
    begin: int
    seen: Seen | None = None


@dataclass(frozen=True)
class ReadPosition:
    """Lines told, the file that holds the last of them, its number (%sn, -1 without), and how far each file was read.

    The files only save reading: where they are others now, they are known by their lines.
    """

    count: int
    end: Identity | None
    number: int
    seen: Mapping[Identity, Seen]
    older: tuple[tuple[Older, ...], ...] = ()
    """By source of older lines the files that it reads, one after the other."""
    begun: int = 0
    """How many of these a source of older lines has begun."""
    last_older: Identity | None = None
    """The file with which the older lines end that were found last."""
    untold: Sequence[int] = ()
    """The bytes at which older lines begin in the file with the line told last, until its end is seen."""

    def as_json(self) -> dict[str, Any]:
        seen = [[*key, *one] for key, one in self.seen.items()]
        position = {"count": self.count, "end": self.end, "number": self.number, "seen": seen, "older": self.older}
        later = {"begun": self.begun, "last_older": self.last_older, "untold": [*self.untold]}
        return position | {name: value for name, value in later.items() if value}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ReadPosition:
        seen = {(device, inode): Seen(*one) for device, inode, *one in fields["seen"]}
        end = fields["end"]
        # Positions of before have one file for each.
        files = (one if not one or isinstance(one[0], Sequence) else [one] for one in fields["older"])
        older = tuple(
            tuple(Older(*file[:3], *(Seen(*seen) for seen in file[3:] if seen)) for file in one) for one in files
        )
        begun = fields.get("begun", int(fields["count"] > 0))
        last = fields.get("last_older")
        ends = [(key[0], key[1]) if key else None for key in (end, last)]
        return cls(fields["count"], ends[0], fields["number"], seen, older, begun, ends[1], fields.get("untold", ()))


class Examined(NamedTuple):
    """A file without the line told last: the bytes at which lines never told begin, and the first one's number.

    `ends_untold`: they go up to its end.
    """

    seen: Seen
    never_told: tuple[int, ...] = ()
    number: int = -1
    ends_untold: bool = False
