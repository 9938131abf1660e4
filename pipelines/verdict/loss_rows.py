"""The rows of a lake that explain a loss: which loss is asked for, and what silver has of its partition up to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pipelines.errors import UsageError
from pipelines.lake.lags import present_brokers
from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, instant, rows, select_rows, text
from pipelines.verdict import words
from pipelines.verdict.incident import Before, Step, chain
from pipelines.verdict.last_copies import copies_on
from schemas import isr_changes, partition_hw, replica_sync
from schemas.declaration import Table

IDS = "`hwmark show regressions --format json`"
"""What prints the ids of losses."""


TOGETHER = timedelta(seconds=60)
"""Losses by one change of leader that come so soon after one another are told together."""


@dataclass(frozen=True)
class LostRange:
    """A loss, and when the HW passed the first and the last of its records; None: that is not known."""

    loss: Row
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True)
class Incident:
    """One loss, how it came about, and how many other losses there are where it was looked for.

    `together`: those by the same change of leader, it among them, in order of time.
    """

    loss: Row
    steps: Sequence[Step]
    others: int = 0
    together: Sequence[LostRange] = ()

    @property
    def place(self) -> str:
        return f"{self.loss['cluster']}/{self.loss['topic']}-{self.loss['partition']}"

    @property
    def lost_together(self) -> str:
        """`3 partitions lost 360 offsets by it, committed from … to …, in order of time:`; empty if it is one."""
        found = self.together
        if len(found) < 2:
            return ""
        sizes = [one.loss["lost_records"] for one in found]
        least = "at least " if None in sizes or any(one.loss["proof"] != "proven" for one in found) else ""
        since = min((one.since for one in found if one.since), default=None)
        until = max((one.until or one.loss["ts"] for one in found), default=None)
        when = f"from {words.clock(since)} to {words.clock(until)}" if since else "at a time that is not known"
        gone = words.count(sum(size or 0 for size in sizes), "offset")
        places = {(one.loss["topic"], one.loss["partition"]) for one in found}
        return f"{words.count(len(places), 'partition')} lost {least}{gone} by it, committed {when}, in order of time:"


def incident(lake: Lake, wanted: Filter, loss_id: str | None) -> Incident | None:
    """The loss whose id begins with `loss_id`, else the newest of the weightiest that match; None where none is known.

    Raises UsageError for an id that no loss has.
    """
    loss, others = pick(lake, wanted, loss_id)
    if loss is None:
        return None
    same = _same_change(lake, loss)
    return Incident(loss, steps(lake, loss), max(0, others + 1 - len(same)), lost_ranges(lake, same))


def _same_change(lake: Lake, loss: Row) -> list[Row]:
    """The losses of a cluster by the same change of leader at about the same time."""
    found, _ = rows(lake, "serious", Filter(loss["cluster"], since=loss["ts"] - TOGETHER), 1_000_000)
    by = ("class", "leader_id", "leader_id_before")
    return [one for one in found if one["ts"] <= loss["ts"] + TOGETHER and all(one[k] == loss[k] for k in by)]


_PASSED = """
WITH lost(id, topic, topic_id, partition, epoch, first_lost, end_lost) AS (VALUES {values})
SELECT lost.id AS id, min(CASE WHEN t.hw > first_lost THEN ts END) AS since,
  min(CASE WHEN t.hw >= end_lost THEN ts END) AS until
FROM t JOIN lost ON t.topic = lost.topic AND t.partition = lost.partition AND t.leader_epoch = lost.epoch
  AND (t.topic_id IS NULL OR lost.topic_id = '' OR t.topic_id = lost.topic_id)
WHERE t.cluster = {cluster} AND t.ts <= {last} GROUP BY lost.id
"""


def lost_ranges(lake: Lake, losses: Sequence[Row]) -> list[LostRange]:
    """When the records of these losses of one cluster were committed, in order of the losses' time."""
    ranges = [one for one in losses if None not in (one["lost_from"], one["lost_to"], one["leader_epoch_before"])]
    passed = dict[str, Row]()
    if ranges:
        values = ", ".join(
            f"({text(one['regression_id'])}, {text(one['topic'])}, {text(one['topic_id'] or '')}, {one['partition']}, "
            f"{one['leader_epoch_before']}, {one['lost_from']}, {one['lost_to']})"
            for one in ranges
        )
        cluster, last = text(ranges[0]["cluster"]), instant(max(one["ts"] for one in ranges))
        sql = _PASSED.format(values=values, cluster=cluster, last=last)
        passed = {row["id"]: row for row in select_rows(lake, partition_hw.TABLE, sql)}
    ordered = sorted(losses, key=lambda one: (one["ts"], one["topic"], one["partition"]))
    times = (passed.get(one["regression_id"], {}) for one in ordered)
    return [LostRange(one, at.get("since"), at.get("until")) for one, at in zip(ordered, times, strict=True)]


def steps(lake: Lake, loss: Row) -> list[Step]:
    """Return the steps of a loss, the earliest cause first; `loss` is a row of the view `serious`."""
    copies = copies_on(present_brokers(lake, loss["cluster"]), [loss] if loss["lost_to"] is not None else [])
    return [*chain(loss, _before(lake, loss)), *(Step("last copy", None, one.text(lake.root)) for one in copies)]


def pick(lake: Lake, wanted: Filter, loss_id: str | None) -> tuple[Row | None, int]:
    """The loss of `incident`, and how many more match. Raises UsageError as that."""
    if loss_id is not None:
        found, _ = rows(lake, "serious", replace(wanted, since=None), 1_000_000)
        same = [row for row in found if str(row["regression_id"]).startswith(loss_id)]
        if len(same) != 1:
            many = "more than one loss has" if same else "no loss has"
            raise UsageError(f"{many} an id that begins with {loss_id}; {IDS} has them")
        return same[0], 0
    found, matching = rows(lake, "serious", wanted, 1)
    return (found[-1], matching - 1) if found else (None, 0)


def _before(lake: Lake, loss: Row) -> Before:
    """The rows of silver about a loss's partition, up to the loss."""
    latest = VIEWS["isr"].latest
    epoch = f"leader_epoch = {int(loss['leader_epoch_before'])}" if loss["leader_epoch_before"] is not None else "false"
    return Before(
        _up_to(lake, isr_changes.TABLE, loss, f"QUALIFY row_number() OVER ({latest}) = 1", "change <> 'retracted'"),
        _up_to(lake, replica_sync.TABLE, loss),
        _up_to(lake, partition_hw.TABLE, loss, and_=epoch),
    )


def _up_to(lake: Lake, table: Table, loss: Row, latest: str = "", and_: str = "true") -> list[Row]:
    place = [f"cluster = {text(loss['cluster'])}", f"topic = {text(loss['topic'])}"]
    place += [f"partition = {int(loss['partition'])}", f"ts <= {instant(loss['ts'])}"]
    if loss["topic_id"] is not None:
        place.append(f"(topic_id IS NULL OR topic_id = {text(loss['topic_id'])})")
    within = f"SELECT * FROM t WHERE {' AND '.join(place)} {latest}"
    return select_rows(lake, table, f"SELECT * FROM ({within}) WHERE {and_} ORDER BY ts")
