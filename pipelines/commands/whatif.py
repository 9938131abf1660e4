"""`hwmark whatif`: the same events under other rules of Kafka, beside what was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.common_options import Config, Debug, Lake, settings_of_existing_lake
from pipelines.commands.progress import echo, working
from pipelines.commands.show.options import Format
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.lake.lake import Lake as Tables
    from pipelines.lake.queries import Filter
    from pipelines.replication import Rules
    from pipelines.verdict.since import Since
    from pipelines.whatif.change import Change
    from pipelines.whatif.compare import Compared

Row = dict[str, Any]
MEASURES = {
    "shrinks": "shrinks", "expands": "expands", "out_of_sync_s": "out_of_sync_us", "hw_stood_s": "hw_stood_us",
    "under_min_isr_s": "under_min_isr_us",
}  # fmt: skip
_SUMMED = {"shrinks": "ISR shrinks", "out_of_sync_s": "s out of sync", "hw_stood_s": "s of HW stood"}
COLUMNS = (
    "cluster", "topic", "partition", "unknown",
    *(f"{name}_{side}" for name in MEASURES for side in ("was", "would")),
)  # fmt: skip


def whatif(
    lake: Lake = None,
    lag_max_ms: Annotated[
        int | None, typer.Option("--lag-max-ms", min=1, metavar="MS", help="replica.lag.time.max.ms.")
    ] = None,
    min_isr: Annotated[int | None, typer.Option("--min-isr", min=1, metavar="N", help="min.insync.replicas.")] = None,
    since: Annotated[
        str, typer.Option(metavar="WHEN", help="15m, 2h, 7d before the cluster's present, an ISO time (UTC), or all.")
    ] = "24h",
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Only this cluster.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="T", help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option(metavar="P", help="Only this partition.")] = None,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Estimate what ISRs and HWs would have been under other settings, from the same fetches, appends and elections.

    Only for partitions reported at level 3 without gaps; of the others it says why not.

    \b
    Examples:
      hwmark whatif --lag-max-ms 10000 --min-isr 2 --since 7d
      hwmark whatif --lag-max-ms 60000 --topic orders --format json
    """
    from pipelines.lake.queries import Filter
    from pipelines.verdict.since import since_of
    from pipelines.whatif.change import Change

    if lag_max_ms is None and min_isr is None:
        raise UsageError("nothing is changed: give --lag-max-ms, --min-isr or both")
    asked = since_of(since)
    settings = settings_of_existing_lake(config, lake={"path": lake})
    place = settings.tables
    wanted, change = Filter(cluster, topic, partition), Change(lag_max_ms, min_isr)
    found: list[Compared] = []
    with working("whatif", each=False) as say:
        for one in estimates(place, wanted, asked, settings.rules.rules(), change):
            found.append(one)
            say(f"{len(found):,} partitions estimated")
    rows = [row_of(one) for one in found]
    if format is Format.table:
        for line in text_of(rows, change, since):
            echo(line)
    else:
        from pipelines.commands.show import tables

        echo(tables.as_json(rows) if format is Format.json else tables.as_csv(rows, COLUMNS))


def estimates(lake: Tables, wanted: Filter, since: Since, rules: Rules, change: Change) -> Iterator[Compared]:
    """Every partition that is wanted, beside what would have been. Raises UsageError for what the lake has not."""
    from datetime import UTC, datetime, timedelta

    from pipelines.lake.queries import presents
    from pipelines.verdict.known import refuse_unknown
    from pipelines.whatif.compare import Compared, Window, compare
    from pipelines.whatif.read import shares

    refuse_unknown(lake, wanted)
    for cluster, present in sorted(presents(lake).items()):
        if wanted.cluster not in (None, cluster):
            continue
        begin = present - since if isinstance(since, timedelta) else since or datetime(1970, 1, 1, tzinfo=UTC)
        window = Window(*(int(ts.timestamp() * 1_000_000) for ts in (begin, present)))
        lag = max(rules.of(cluster)[0].lag_max_ms, change.lag_max_ms or 0)  # who is in sync at `begin` is told before
        for share in shares(lake, wanted, cluster, begin - timedelta(milliseconds=lag)):
            if len(share.events):
                yield from compare(share.events, rules, change, window, share.gaps)
            else:
                yield from (Compared(*place, unknown=share.gaps[place]) for place in share.places)


def row_of(found: Compared) -> Row:
    """A partition as data; times in seconds."""
    row: Row = {"cluster": found.cluster, "topic": found.topic, "partition": found.partition}
    row["unknown"] = found.unknown or None
    for name, attribute in MEASURES.items():
        for side in ("was", "would"):
            course = getattr(found, side)
            value = None if course is None else getattr(course, attribute)
            row[f"{name}_{side}"] = value / 1_000_000 if value is not None and name.endswith("_s") else value
    return row


def text_of(rows: list[Row], change: Change, since: str) -> Iterator[str]:
    """The estimate as text: what it is, the sum of each cluster, then the partitions that differ, then the unknown."""
    from pipelines.commands.show import tables

    span = "everything" if since == "all" else f"the last {since}" if since[-1] in "smhd" else f"what was since {since}"
    yield f"An estimate of {span} under {change}: fetches, appends and elections as they were."
    if not rows:
        yield "There are no events of any partition."
    known = [row for row in rows if row["unknown"] is None]
    for cluster in sorted({row["cluster"] for row in rows}):
        yield f"{cluster}: {_summed([row for row in known if row['cluster'] == cluster])}"
    differing = [row for row in known if any(row[f"{name}_was"] != row[f"{name}_would"] for name in MEASURES)]
    if differing:
        shown = [_arrows(row) for row in differing]
        yield tables.as_table(shown, ["cluster", "topic_partition", *MEASURES])
    if same := len(known) - len(differing):
        yield f"{same:,} {'partition' if same == 1 else 'partitions'} would have been as before."
    for why in sorted({row["unknown"] for row in rows if row["unknown"]}):
        places = [f"{row['cluster']}/{row['topic']}-{row['partition']}" for row in rows if row["unknown"] == why]
        more = f" and {len(places) - 3:,} more" if len(places) > 3 else ""
        yield f"{', '.join(places[:3])}{more}: {why}"


def _summed(rows: list[Row]) -> str:
    if not rows:
        return "of no partition this can be estimated"
    said = []
    for name, words in _SUMMED.items():
        was, would = (sum(row[f"{name}_{side}"] for row in rows) for side in ("was", "would"))
        said.append(f"{_number(was)} -> {_number(would)} {words}")
    return f"{', '.join(said)}, in {len(rows):,} {'partition' if len(rows) == 1 else 'partitions'}"


def _arrows(row: Row) -> Row:
    return row | {name: f"{_number(row[f'{name}_was'])} -> {_number(row[f'{name}_would'])}" for name in MEASURES}


def _number(value: float) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
