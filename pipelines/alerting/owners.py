"""Owners of topics: `[owners]` of the settings, by patterns of topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Owner:
    """A team, and where it is reached."""

    team: str
    contact: str = ""

    def __str__(self) -> str:
        return f"{self.team} ({self.contact})" if self.contact else self.team


Owners = Mapping[str, Owner]
"""By pattern of topics; of several that fit the longest counts."""


def owners_of(topics: Iterable[str], owners: Owners) -> list[Owner]:
    """The owners of these topics, each once, by name."""
    fitting = ([pattern for pattern in owners if fnmatchcase(topic, pattern)] for topic in topics)
    found = {owners[max(patterns, key=lambda one: (len(one), one))] for patterns in fitting if patterns}
    return sorted(found, key=lambda owner: (owner.team, owner.contact))
