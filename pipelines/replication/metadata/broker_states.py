"""The state of a broker: from what it answers a watcher, what others list, and what controllers and brokers log.

Pure functions of rows. Times are microseconds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pipelines.replication.metadata.deposed import DOUBTED
from schemas.brokers import CUT_OFF
from schemas.event_types import ANSWERS, FENCED, NO_CONTROLLER, NOT_LISTED, NOT_REACHED, QUORUM, UNREGISTERED

LISTED_US = 18_000_000
"""Twice `broker.session.timeout.ms`: a broker that is listed for longer without an answer is not reached from here.

Once the session time has passed, controllers and metadata are given the same again: a broker that was killed on a busy
host was listed for 15 s.
"""
_CAUGHT_UP = re.compile(rf"{QUORUM}: (\d+) voters, (\d+) caught up")
ENOUGH_MISSES = 2
"""Rounds on end without an answer that count; a refused connection counts at once."""
SILENT_STATES = ("no_answer", "not_reached", "down", "unknown")
"""The states, as watchers tell them, in which nothing is known of what a broker leads."""
_REFUSED = "refused"
_REGISTRATIONS = {FENCED: ", fenced by the controllers", UNREGISTERED: ", no longer registered for this listener"}
_LOGGED = {
    DOUBTED: "unknown",
    "started": "answers",
    "unfenced": "answers",
    "fenced": "fenced",
    "controlled_shutdown": "stopping",
    "unregistered": "unregistered",
}

Quorum = tuple[str | None, int | None]
"""The last thing a watcher was told of the controllers, and since when (microseconds) it was told the same."""
CONTROLLERS = -1
"""In place of a broker: what a watcher was told of the controllers."""
Answer = tuple[int, str]
"""(when a watcher had asked a broker, the detail of that row)"""
Logged = tuple[int, str]
"""(when, the detail) of the last state of a broker in logs."""


class BrokerNow(NamedTuple):
    """A state of `gold/brokers`, since when, how that is known, and who told it."""

    state: str
    since: int | None
    reason: str
    witness: str | None


NO_ROUND = "no whole answer since"
_ANSWERS = BrokerNow("answers", None, "answers a watcher", "watcher")
UNTOLD = BrokerNow("unknown", None, "nobody told its state", None)


def add_answer(known: list[Answer], answer: Answer) -> None:
    """Add what a watcher has found; of a stretch of equal details the first two and the last are kept."""
    at = bisect_right(known, answer)
    if at and known[at - 1] == answer:
        return
    known.insert(at, answer)
    for k in range(min(at + 2, len(known) - 2), max(at - 1, 2) - 1, -1):
        if len({detail for _, detail in known[k - 2 : k + 2]}) == 1:
            del known[k]


def broker_states(
    answers: Mapping[int, Sequence[Answer]],
    logged: Mapping[int, Logged],
    rounds: Mapping[int, int],
    silent: Collection[int] = (),
    quorum: Quorum = (None, None),
) -> dict[int, BrokerNow]:
    """The states of the brokers of one cluster.

    `answers` and `logged` by broker as far as they go; `rounds`: when a watcher had the last whole answer;
    `silent`: who has none for long, in lakes whose watcher wrote no row for a missed round. Without a majority of
    controllers metadata goes on to list who is down, and for a session's time once there is one again. Where no broker
    answers, the watcher may be cut off, or all be down: from one place that looks the same.
    """
    found = {}
    asked = {broker: _asked(list(known), rounds.get(broker)) for broker, known in answers.items() if known}
    for broker in rounds.keys() - asked.keys():
        quiet = BrokerNow("no_answer", rounds[broker], NO_ROUND, "watcher")
        asked[broker] = quiet if broker in silent else _ANSWERS
    heard = {broker for broker, known in answers.items() if known and _answered_last(known, rounds.get(broker))}
    alone = not heard | (rounds.keys() - answers.keys() - set(silent))
    steady = min((one.since or 0 for one in asked.values() if one.state == "answers"), default=None)
    for broker in answers.keys() | logged.keys() | asked.keys():
        seen, log = asked.get(broker), logged.get(broker)
        if seen is None:
            found[broker] = _of_log(log)
            continue
        last = known[-1][0] if (known := answers.get(broker)) else 0
        is_told = has_majority(quorum[0]) and steady is not None and steady <= (seen.since or 0)
        listed_us = last - max(seen.since or 0, quorum[1] or 0) if is_told else 0
        found[broker] = _unreached(seen, alone, listed_us)
        if log is not None:
            found[broker] = _both(found[broker], _of_log(log))
    return found


def has_majority(told: str | None) -> bool:
    """Whether the controllers can change anything, as far as a watcher was told."""
    count = _CAUGHT_UP.match(told or "")
    is_gone = (told or "").startswith((NO_CONTROLLER, NOT_REACHED))
    return not is_gone and (count is None or 2 * int(count[2]) > int(count[1]))


def _answered_last(known: Sequence[Answer], whole: int | None) -> bool:
    return known[-1][1].startswith(ANSWERS) or (whole is not None and whole > known[-1][0])


def _asked(known: list[Answer], whole: int | None) -> BrokerNow:
    """A broker's state from a watcher's rows."""
    if whole is not None and whole > known[-1][0]:
        if not known[-1][1].startswith(ANSWERS):  # a lake of before, or one whose rows are still to come
            return _ANSWERS._replace(since=whole)
    elif not known[-1][1].startswith(ANSWERS):
        first = next((k for k in range(len(known), 0, -1) if known[k - 1][1].startswith(ANSWERS)), 0)
        missed = known[first:]
        reason = missed[-1][1].partition(": ")[2]
        if len(missed) >= ENOUGH_MISSES or reason.startswith(_REFUSED):
            return BrokerNow("no_answer", missed[0][0], reason, "watcher")
        if not first:
            return BrokerNow("unknown", missed[0][0], f"one round without an answer: {reason}", "watcher")
        known = known[:first]
    first = next((k for k in range(len(known) - 1, 0, -1) if known[k - 1][1] != known[-1][1]), 0)
    if known[-1][1].endswith(f"{NOT_LISTED}, {FENCED}"):
        return BrokerNow("fenced", known[first][0], "answers, and the controllers have fenced it", "watcher")
    if NOT_LISTED in known[-1][1]:
        return BrokerNow("not_in_metadata", known[first][0], "answers, and most others do not list it", "watcher")
    return _ANSWERS._replace(since=known[first][0])


def _unreached(seen: BrokerNow, alone: bool, listed_us: int) -> BrokerNow:
    """A broker that does not answer: down, not reached from here, or nobody can tell.

    `listed_us`: for so long it did not, and a broker that answered would have listed it no more, had it gone.
    """
    if seen.state != "no_answer" or seen.since is None:
        return seen
    if alone:
        return seen._replace(state="unknown", reason=CUT_OFF)
    why, unlisted, registration = seen.reason.partition(f", {NOT_LISTED}")
    if unlisted:
        by = _REGISTRATIONS.get(registration.removeprefix(", "), "")
        return seen._replace(state="down", reason=f"does not answer ({why}, {NOT_LISTED} by the others{by})")
    if listed_us > LISTED_US:
        listed = f"does not answer ({seen.reason}), and the others list it: look at route, listener and certificate"
        return seen._replace(state="not_reached", reason=listed)
    return seen._replace(reason=f"does not answer ({seen.reason})")


def _of_log(log: Logged | None) -> BrokerNow:
    if log is None or log[1] not in _LOGGED:
        return UNTOLD
    return BrokerNow(_LOGGED[log[1]], log[0], log[1], "log")


def _both(seen: BrokerNow, log: BrokerNow) -> BrokerNow:
    """The state by watcher and log: a fenced broker may still answer; one that is fenced and silent is down."""
    if log.state not in ("fenced", "stopping", "unregistered"):
        return seen
    if seen.state in ("answers", "not_in_metadata"):
        later = log.state == "stopping" and seen.since is not None and log.since is not None and seen.since > log.since
        return seen if later else log
    if seen.state in ("no_answer", "not_reached") and log.state == "fenced":
        return seen._replace(state="down", reason=f"{seen.reason}; fenced", witness="watcher and log")
    return log if log.state == "unregistered" else seen
