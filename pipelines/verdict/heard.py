"""The brokers and controllers as a watcher heard them last, by gold and by rows that `run` has not read yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pipelines.lake.queries import Row, microseconds
from pipelines.replication.metadata.broker_states import SILENT_STATES, Answer, BrokerNow, Quorum, broker_states
from pipelines.replication.metadata.deposed import DOUBTED
from schemas.event_types import ANSWERS, FENCED, NOT_LISTED

_LOGGED = {
    "answers": "started", "fenced": "fenced", "stopping": "controlled_shutdown", "unregistered": "unregistered",
    "unknown": DOUBTED,
}  # fmt: skip


def quorum_now(rows: Sequence[Row], answers: Sequence[Answer] = ()) -> Quorum:
    """The last word on the controllers: from one row of `gold/brokers`, or from later answers."""
    row = max(rows, key=lambda row: (_us(row["quorum_since"]) or 0, row["quorum"] or ""), default=None)
    stored = (None, None) if row is None else (row["quorum"], _us(row["quorum_since"]))
    if not answers:
        return stored
    first = next((k for k in range(len(answers) - 1, 0, -1) if answers[k - 1][1] != answers[-1][1]), 0)
    since, told = answers[first]
    is_same = not first and told == stored[0] and stored[1] is not None
    return told, min(since, stored[1] or since) if is_same else since


def states_now(
    rows: Sequence[Row], answers: Mapping[int, Sequence[Answer]], rounds: Mapping[int, int], quorum: Quorum
) -> dict[int, BrokerNow]:
    """The states of the brokers of one cluster.

    Args:
        rows: of `gold/brokers`.
        answers: by broker what a watcher found of late; those of which it has nothing are as `run` has them.
        rounds: when a watcher had the last whole answer of each.
        quorum: without a controller metadata goes on to list who is down.
    """
    stored = {r["broker_id"]: BrokerNow(r["state"], _us(r["since"]), r["reason"], r["witness"]) for r in rows}
    known = {broker: _with_before(stored.get(broker), some) for broker, some in answers.items() if some}
    logged = {b: (one.since or 0, _LOGGED[one.state]) for b, one in stored.items() if one.witness == "log"}
    heard = {b: ts for b, ts in rounds.items() if b in known or b not in stored or not _is_silent(stored[b])}
    fresh = broker_states(known, {b: log for b, log in logged.items() if b in known}, heard, quorum=quorum)
    return stored | {broker: fresh[broker] for broker in known}


def _with_before(stored: BrokerNow | None, answers: Sequence[Answer]) -> list[Answer]:
    """The recent answers, preceded by the stored state of the broker if a watcher told that earlier."""
    first, last = answers[0]
    if stored is None or not (stored.witness or "").startswith("watcher") or (stored.since or 0) >= first:
        return list(answers)
    if not _is_silent(stored):
        unlisted = {"not_in_metadata": f", {NOT_LISTED}", "fenced": f", {NOT_LISTED}, {FENCED}"}
        detail = ANSWERS + unlisted.get(stored.state, "")
        return [(stored.since or 0, detail), *answers]
    return list(answers) if last.startswith(ANSWERS) else [(stored.since or 0, last), *answers]


def _is_silent(state: BrokerNow) -> bool:
    return state.state in SILENT_STATES


def _us(ts: datetime | int | None) -> int | None:
    return microseconds(ts) if isinstance(ts, datetime) else ts
