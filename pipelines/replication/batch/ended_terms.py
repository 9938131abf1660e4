"""What later verdicts ask of leaders' terms that are over."""

from __future__ import annotations

from typing import Any

from pipelines.replication.compiled.types import NULL
from pipelines.replication.partition.events import TermSummary
from pipelines.replication.state.state import State

CUT_OFF = ("cut_off", "cut_off_ts", "cut_off_until")
REPORTS = ("reported", "witnessed", "witnessed_ts", "witnessed_from", "min_isr_told")


def record_ended_terms(state: State, ended: dict[str, Any]) -> None:
    """Keeps the summaries of terms that ended, rows of TERMS by column, until the history of their partition has asked
    for them."""
    width, ids = state.replicas.width, state.replicas["id"]
    for k in range(len(ended["lane"])):
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


def cut_off_report(values: dict[str, int]) -> dict[str, Any]:
    """The fields of TermSummary about a report that may be cut off, none where there is no such report."""
    return {} if values["cut_off"] == NULL else {name: int(value) for name, value in values.items()}


def reports(values: dict[str, int]) -> dict[str, Any]:
    """The fields of TermSummary about what the leader reported beside what was computed."""
    return {name: known(value) for name, value in values.items()}


def known(value: int) -> int | None:
    return None if value == NULL else int(value)
