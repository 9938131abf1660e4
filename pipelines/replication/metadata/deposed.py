"""Rows of a controller after another one has taken its place: nobody ever commits what they tell.

An active controller that was frozen or cut off decides and prints on until it learns of it
(QuorumController.QuorumMetaLogListener.handleLeaderChange).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from pipelines.replication.compiled.types import NEVER

BrokerState = tuple[int, str, int | None, str, int, int]
"""(ts, detail, broker epoch) of a broker, and the row that reports it: source id, source epoch, source seq."""
Row = tuple[str, int, int]
"""(source id, source epoch, source seq)"""
Role = tuple[int, int, int, bool]
"""(source seq, ts, controller epoch, whether the source is of the active controller) of a row of a controller."""
Roles = Mapping[tuple[str, int], Sequence[Role]]
"""By source id and source epoch the first and the last row of each stretch of one role, by number."""
DOUBTED = "told by a controller that another one had replaced"
APART_US = 10_000_000
"""Clocks of controllers differ by no more than this, and what one has committed the others print within it."""


class Doubt(NamedTuple):
    """A state that counts for nothing from `since` until another row tells it, too; `began`: its controller's term."""

    state: BrokerState
    since: int
    until: int
    began: Role

    def lasts(self, roles: Roles) -> bool:
        """Whether it may still be told: the controllers of later epochs have not gone on without it."""
        goes_on = (last[1] > self.state[0] + APART_US for _, last in _later_terms(self.began, roles))
        return self.until == NEVER and not any(goes_on)


def add_role(roles: list[Role], role: Role) -> bool:
    """Add the role of a row of a source; whether a stretch begins with it."""
    at = bisect_left(roles, role)
    if role in roles[at : at + 1]:
        return False
    roles.insert(at, role)
    begins = at == 0 or roles[at - 1][2:] != role[2:]
    for k in (at + 1, at, at - 1):
        if 0 < k < len(roles) - 1 and roles[k - 1][2:] == roles[k][2:] == roles[k + 1][2:]:
            del roles[k]
    return begins


def doubts(states: Sequence[BrokerState], roles: Roles) -> list[Doubt]:
    """The doubtful ones of the states of a broker."""
    found = []
    for state in states:
        began = _began(state[3:], roles)
        if began is not None and (since := _replaced_since(began, state[0], roles)) < NEVER:
            found.append(Doubt(state, since, NEVER, began))
    sure = [state for state in states if all(state is not doubt.state for doubt in found)] if found else []
    return [one for doubt in found if (one := doubt._replace(until=_confirmed(doubt.state, sure))).since < one.until]


def doubted_since(row: Row, ts: int, roles: Roles) -> int:
    """From when on it is known that an active controller may have told a row too late, else NEVER."""
    began = _began(row, roles)
    return NEVER if began is None else _replaced_since(began, ts, roles)


def is_cut_off(source: tuple[str, int], until: int, roles: Roles) -> bool:
    """Whether a source had not heard by `until` of a controller of which another source tells: cut off or frozen, it
    prints on, and hears nothing of what that one commits (QuorumController.QuorumMetaLogListener.handleCommit)."""
    own = [one for one in _stretches(roles.get(source, ())) if one[0][1] <= until + APART_US]
    return bool(own) and any(first[1] <= until for first, _ in _later_terms(own[-1][0], roles))


def _replaced_since(began: Role, ts: int, roles: Roles) -> int:
    """From when on it is known that what the active controller told at `ts` may come too late, else NEVER."""
    since = min((first[1] for first, _ in _later_terms(began, roles)), default=NEVER)
    return max(ts, since) if since <= ts + APART_US else NEVER


def _began(row: Row, roles: Roles) -> Role | None:
    """The first row of the stretch as the active controller in which a source told a row."""
    firsts = (first for first, _ in reversed(_stretches(roles.get(row[:2], ()))) if first[0] <= row[2])
    return began if (began := next(firsts, None)) is not None and began[3] else None


def _later_terms(began: Role, roles: Roles) -> Iterator[tuple[Role, Role]]:
    """Stretches of a later epoch that began later: epochs of before a migration, or of another cluster, are none."""
    stretches = (one for of_source in roles.values() for one in _stretches(of_source))
    return (one for one in stretches if one[0][2] > began[2] and one[0][1] > began[1])


def _stretches(roles: Sequence[Role]) -> list[tuple[Role, Role]]:
    groups = ([*group] for _, group in groupby(roles, key=lambda role: role[2:]))
    return [(group[0], group[-1]) for group in groups]


def _confirmed(state: BrokerState, sure: Sequence[BrokerState]) -> int:
    """When another row tells the same change."""
    same = (one[0] for one in sure if one[1:3] == state[1:3] and abs(one[0] - state[0]) <= APART_US)
    return min(same, default=NEVER)
