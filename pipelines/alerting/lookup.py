"""Alerts and incidents as a lake holds them, and one alert by its id."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa

from pipelines.alerting import downtime
from pipelines.alerting import incidents as of_incidents
from pipelines.alerting.incidents import Incident
from pipelines.alerting.outbox import latest
from pipelines.alerting.state import AlertState, from_arrow
from pipelines.errors import nearest
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Row
from pipelines.lake.roles import hold
from pipelines.verdict.known import UnknownNameError
from schemas import alerts, downtimes, incidents, notes

_log = logging.getLogger("hwmark.alerting")


def read_states(lake: Lake) -> list[AlertState]:
    """The states that `ops/alerts` holds, in no order."""
    return from_arrow(lake.read(alerts.TABLE, alerts.ARROW))


def read_downtimes(lake: Lake) -> list[downtime.Downtime]:
    """The windows that `ops/downtimes` holds, each as it was written last, in order of their beginning."""
    return downtime.from_arrow(lake.read(downtimes.TABLE, downtimes.ARROW))


def read_incidents(lake: Lake) -> list[Incident]:
    """The states that `ops/incidents` holds, in the order in which they came about."""
    return of_incidents.from_arrow(lake.read(incidents.TABLE, incidents.ARROW))


def untold_incidents(
    lake: Lake, stored: Sequence[Incident], states: Sequence[AlertState], now: datetime
) -> list[Incident]:
    """The states of incidents that are not `stored` at `now` of the wall clock; `states`: all of `ops/alerts`."""
    try:
        windows = read_downtimes(lake)
    except Exception as error:
        _log.warning("downtimes cannot be read, nothing is planned: %s", error)
        windows = []
    return of_incidents.untold(stored, states, windows, now)


def keep_groups(
    lake: Lake, cluster: str, places: Collection[tuple[str, int]], reads: Iterable[tuple[str, int, str]], now: datetime,
    *, lost: bool = True,
) -> list[str]:  # fmt: skip
    """Write consumer groups into incidents that lost something of the partitions they read; return the incidents' ids.

    `reads`: topic, partition and group. `lost` False: into incidents that lost nothing and had some of them offline.

    Raises RoleHeld while an evaluation goes on, and what writing raises.
    """
    readers = {f"{topic}-{partition}": set[str]() for topic, partition in places}
    for topic, partition, group in reads:
        readers[f"{topic}-{partition}"].add(group)
    groups, said = sorted(set().union(*readers.values())), {name: ", ".join(sorted(of)) for name, of in readers.items()}
    with hold(lake.root, "alerts", lake.storage_options, wait_s=5):
        stored = read_incidents(lake)
        last = {row.incident_id: row for row in stored if row.cluster == cluster}
        offline = {row.incident_id for row in stored if row.offline}
        about = [
            row
            for row in last.values()
            if (row.lost_offsets is not None if lost else row.lost_offsets is None and row.incident_id in offline)
            and readers.keys() & {*row.partitions}
        ]
        at = max([now, *(row.written_at + timedelta(microseconds=1) for row in stored)])
        rows = [replace(row, groups=groups, groups_asked=now, readers=said, written_at=at) for row in about]
        if rows:
            lake.append(incidents.TABLE, of_incidents.to_arrow(rows))
    return [row.incident_id for row in rows]


def note_once(lake: Lake, cluster: str, incident_ids: Iterable[str], text: str, now: datetime) -> None:
    """Write into `ops/notes` what hwmark itself found out about these incidents, unless that is there already."""
    stored = lake.read(notes.TABLE, notes.ARROW).to_pylist()
    said = {row["incident_id"] for row in stored if row["text"] == text}
    first = max([now, *(row["written_at"] + timedelta(microseconds=1) for row in stored)])
    rows = [
        {"cluster": cluster, "incident_id": one, "handled": False, "text": text, "author": "hwmark",
         "written_at": first + timedelta(microseconds=k)}
        for k, one in enumerate(incident_ids) if one not in said
    ]  # fmt: skip
    if rows:
        lake.append(notes.TABLE, pa.Table.from_pylist(rows, schema=notes.ARROW))


def incident_or_alert(lake: Lake, name: str) -> Row:
    """The latest state of an incident, or of an alert, by its id. Raises UnknownNameError naming the nearest."""
    stored = {row.incident_id: row for row in read_incidents(lake)}
    return dict(vars(stored[name])) if name in stored else alert(lake, name, stored)


def alert(lake: Lake, alert_id: str, incident_ids: Iterable[str] = ()) -> Row:
    """Return the row of `ops/alerts` with the latest state of an alert, from the time that it fires or fired last.

    Raises UnknownNameError, which names the nearest alert, or one of `incident_ids`.
    """
    states = read_states(lake)
    last = latest(state for state in states if state.alert_id == alert_id).values()
    if not last:
        ids = {*incident_ids, *(state.alert_id for state in states)}
        raise UnknownNameError(f"{lake.root} has no incident or alert {alert_id}; {nearest(alert_id, ids)}")
    return dict(vars(max(last, key=lambda state: (state.firing, state.last_ts))))
