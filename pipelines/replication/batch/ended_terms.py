"""Ended terms of leaders, as later verdicts need them."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from pipelines.replication.compiled.records import Arrays
from pipelines.replication.compiled.types import I64, NULL, NULL32
from pipelines.replication.partition.events import TermSummary
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import EARLIER, FETCHED, IDLE, OVER, REPORTED

CUT_OFF = ("cut_off", "cut_off_ts", "cut_off_until")
WITNESSED = ("witnessed", "witnessed_ts", "witnessed_from")
REPORTS = ("reported", *WITNESSED, "min_isr_told")


def record_ended_terms(state: State, ended: dict[str, Any]) -> None:
    """Keep the summaries of terms that ended, rows of TERMS by column, and how they were before, until the history of
    their partition has asked for them."""
    width, ids = state.replicas.width, state.replicas["id"]
    _keep_earlier(state.earlier_terms, ended, ended["what"] == REPORTED)
    fetched = ended["what"] == FETCHED
    for slot in range(width) if fetched.any() else ():
        ended["fetcher"] = ids[ended["lane"] * width + slot]
        _keep_earlier(state.earlier_terms, ended, fetched & (ended["fetchers"] >> slot & 1 == 1), ("fetcher",))
    # A row of the moment in which a term began came before its start: what it made is no term of its own.
    lane_state, lane_start = (state.lanes[name][ended["lane"]] for name in ("state", "term_start"))
    goes_on = (ended["end"] == ended["start"]) & (lane_start == ended["start"]) & (lane_state != IDLE)
    for k in np.flatnonzero((ended["what"] == OVER) & ~goes_on).tolist():
        lane, mask = int(ended["lane"][k]), int(ended["fetchers"][k])
        fetchers = frozenset(int(ids[lane * width + slot]) for slot in range(width) if (mask >> slot) & 1)
        summary = TermSummary(
            hmax=known(ended["hw"][k]),
            leader_leo=known(ended["leader_leo"][k]),
            fetchers=fetchers,
            level=int(ended["level"][k]),
            epoch=int(ended["epoch"][k]),
            **cut_off_report({name: ended[name][k] for name in CUT_OFF}),
            **reports({name: ended[name][k] for name in REPORTS}),
        )
        state.ended_terms[lane, int(ended["start"][k])] = (int(ended["end"][k]), summary)


def _keep_earlier(
    kept: Arrays, rows: dict[str, Any], chosen: Any, columns: tuple[str, ...] = CUT_OFF + WITNESSED
) -> None:
    """Append the chosen rows to EARLIER, with these columns of them."""
    first = kept.count
    kept.grow(first + int(np.count_nonzero(chosen)))
    for name in ("lane", "start", "end", *columns):
        kept[name][first:] = rows[name][chosen]


class EarlierTerms:
    """The terms as of any time that a history may ask for."""

    def __init__(self, state: State) -> None:
        self._rows = state.earlier_terms
        self._order = np.argsort(self._rows["lane"], kind="stable")
        self._lanes = self._rows["lane"][self._order]

    def as_of(self, lane: int, start: int, as_of: int, summary: TermSummary) -> TermSummary:
        """A term's summary with the reports and fetchers that it had at a time."""
        rows, (first, end) = self._rows, np.searchsorted(self._lanes, [lane, lane + 1])
        at = self._order[first:end]
        at = at[(rows["start"][at] == start) & (rows["end"][at] > as_of)]
        if not len(at):
            return summary
        fetchers = rows["fetcher"][at]
        summary = replace(summary, fetchers=summary.fetchers.difference(fetchers.tolist()))
        at = at[fetchers == NULL32]
        if not len(at):
            return summary
        cut_off, witnessed = ({name: rows[name][at[0]] for name in names} for names in (CUT_OFF, WITNESSED))
        return replace(summary, **{"cut_off": None} | cut_off_report(cut_off) | reports(witnessed))


def trim_earlier(state: State, asked_from: I64) -> None:
    """Drop how terms were before the times of which histories may still ask, by partition."""
    rows = state.earlier_terms
    kept = rows["end"] > asked_from[state.lanes["partition"][rows["lane"]]]
    data = rows.data[: rows.count][kept]
    state.earlier_terms = Arrays(EARLIER)
    state.earlier_terms.grow(len(data))
    state.earlier_terms.data[: len(data)] = data


def cut_off_report(values: dict[str, int]) -> dict[str, Any]:
    """The fields of TermSummary about a report that may be cut off, none where there is no such report."""
    return {} if values["cut_off"] == NULL else {name: int(value) for name, value in values.items()}


def reports(values: dict[str, int]) -> dict[str, Any]:
    """The fields of TermSummary about what the leader reported beside what was computed."""
    return {name: known(value) for name, value in values.items()}


def known(value: int) -> int | None:
    return None if value == NULL else int(value)
