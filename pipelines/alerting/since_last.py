"""What a `check` of some name has told: the rows of `ops/alerts` and `ops/quality_results` up to a moment."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pipelines.alerting.outbox import in_order
from pipelines.alerting.state import AlertState
from pipelines.lake.file_systems import path_part
from pipelines.lake.lake import Lake

Episode = tuple[str, datetime]
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Told:
    """Up to when (wall clock of who wrote them) alerts and results were told under a name."""

    alerts: datetime = _NEVER
    results: datetime = _NEVER


def told(lake: Lake, name: str) -> Told:
    """What was told under a name; nothing where that is not known."""
    try:
        with lake.files().open_input_stream(_path(name)) as stream:
            found = json.loads(stream.read())
        return Told(*(datetime.fromisoformat(found[key]) for key in ("alerts", "results")))
    except (FileNotFoundError, ValueError, KeyError):
        return Told()


def set_told(lake: Lake, name: str, up_to: Told) -> None:
    """Records what was told, once the last line of it is printed."""
    content = {"alerts": up_to.alerts.isoformat(), "results": up_to.results.isoformat()}
    lake.write_durably(_path(name), json.dumps(content).encode())


@dataclass(frozen=True)
class News:
    """What `ops/alerts` got: the last state of what fired since, of what only ended, and how much was over before."""

    fired: tuple[AlertState, ...] = ()
    ended: tuple[AlertState, ...] = ()
    history: int = 0


def untold(stored: Iterable[AlertState], before: Told) -> News:
    """The episodes with rows that were not told; what never fired was over before anybody looked."""
    last, ever, fired = dict[Episode, AlertState](), set[Episode](), set[Episode]()
    for state in in_order(stored):
        if before.alerts == _NEVER or (state.written_at or _NEVER) > before.alerts:
            last[state.episode] = state
            fired |= {state.episode} if state.firing else set()
        ever |= {state.episode} if state.firing else set()
    return News(
        tuple(state for key, state in last.items() if key in fired),
        tuple(state for key, state in last.items() if key in ever - fired),
        len(last.keys() - ever),
    )


def _path(name: str) -> str:
    return f"_alerts/told/{path_part(name)}.json"
