"""Remove a cluster's rows from tables for good: first from the files, then from the log that names older files."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pipelines.errors import UsageError
from pipelines.lake.compaction import COMPRESSION, QUOTED_ALIKE
from pipelines.lake.data_file import Written, write_file
from pipelines.lake.delta_log import actions
from pipelines.lake.durable_log import LAST_CHECKPOINT
from pipelines.lake.lake import Lake
from pipelines.lake.retention import BRONZE, GO_ON, TIMES
from pipelines.lake.row_groups import row_groups
from pipelines.lake.spans import Span, spans
from pipelines.lake.table import AGAIN, RETENTION, dataset, replace_files

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

MOMENTS = {
    **TIMES, "hw_regressions": "ts", "quality_results": "run_ts", "alerts": "last_ts", "deliveries": "sent_at",
    "notes": "written_at", "incidents": "last_ts", "downtimes": "until", "audits": "audited_at",
}  # fmt: skip
"""The column with the time of a row, by table; the other tables have the present alone."""
IDS = {"alerts": "alert_id", "incidents": "incident_id"}
"""The tables with rows that deliveries name, and the column with the id."""
WRITTEN_BESIDE = (BRONZE, "notes", "downtimes", "audits")
"""Tables that commands append to without a role."""


def remove_rows(lake: Lake, name: str, cluster: str, before: datetime | None = None, *, again: bool = False) -> int:
    """Replace files that have rows of a cluster, or rows of it before a time, by files without these rows.

    With `again` other files get these rows alone, and the job reads them again. Returns the number of these rows. All
    is one commit: if killed, the table is as it was. Raises CommitFailedError if another writer removed one of the
    files meanwhile.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if before is not None and name not in MOMENTS:
        return 0
    table, folder, ids = lake.open(name), lake.files(name), _ids(lake, cluster) if name == "deliveries" else set()
    # A delivery goes with its alert or incident, whatever its own time: these alone name its cluster.
    of_gone = _ids(lake, cluster, before) if ids and before is not None else set[str]()
    taken, written, gone = list[Span](), list[Written](), 0
    columns = dict.fromkeys([*table.metadata().partition_columns, *_front(name), *table.schema().to_arrow().names])
    limit = before if before is None or name not in GO_ON else min(before, _last_minute(table, cluster) or before)
    files = [span for span in spans(table, folder, TIMES.get(name)) if _may_have(span, cluster)]
    for span, rows in _read(table, files):
        wanted = _mask(name, rows, cluster, ids)
        if limit is not None:
            wanted = pc.and_(wanted, pc.fill_null(pc.less(rows[MOMENTS[name]], pa.scalar(limit)), False))
        if of_gone:
            wanted = pc.or_(wanted, _mask(name, rows, cluster, of_gone))
        kept = rows.filter(pc.invert(wanted)).select(list(columns))
        if len(kept) == len(rows):
            continue
        if not QUOTED_ALIKE.fullmatch(span.file.path):
            raise UsageError(
                f"file {span.file.path} of {lake.path(name)} has a name that engines quote in several ways: have its "
                "writer rewrite it, then call this again"
            )
        gone += len(rows) - len(kept)
        taken.append(span)
        for part in (kept, rows.filter(wanted).select(list(columns)) if again else kept.slice(0, 0)):
            if len(part):
                parts = row_groups(part) if name == BRONZE else [part]
                written.append(write_file(folder, name, part.schema, parts, COMPRESSION))
    if taken and not written and (name == "partition_changes" or lake.path(name).startswith("silver/")):
        # A stream with `ignoreDeletes` reads on past removals alone, and would get the rows that are made anew twice.
        written = [write_file(folder, name, kept.schema, [kept.slice(0, 0)], COMPRESSION)]
    if taken:
        mark = f"{AGAIN}{cluster}" if again else RETENTION
        replace_files(table, [span.file for span in taken], written, mark)
    return gone


def _front(name: str) -> Sequence[str]:
    """The columns that need bounds in Delta's log, which has them for the first columns of a file only."""
    return [TIMES[name]] if name in TIMES else []


def _may_have(span: Span, cluster: str) -> bool:
    least, most = span.clusters
    return least is None or most is None or least <= cluster <= most


def _read(table: DeltaTable, files: Sequence[Span]) -> Iterator[tuple[Span, pa.Table]]:
    """The rows of each file; a column that it lacks is null."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    reading, schema = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"), pa.schema(table.schema().to_arrow())
    plain = {unquote(span.file.path): span for span in files if span.is_plain}
    whole = dataset(table, reading=reading, keep=plain.__contains__)
    parts = [(plain[part.path], [part]) for part in whole.get_fragments()]
    for span in files:
        if not span.is_plain:  # it is read from memory, where it has no path
            own = dataset(table, reading=reading, keep={unquote(span.file.path)}.__contains__)
            parts.append((span, list(own.get_fragments())))
    for span, fragments in parts:
        own = ds.FileSystemDataset(fragments, whole.schema, whole.format, whole.filesystem)
        yield span, own.to_table().cast(schema)


def _mask(name: str, rows: pa.Table, cluster: str, ids: Collection[str]) -> Any:
    """Whether each row is of the cluster, or names it in a table that has no such column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name == "alerts":
        named = [dict(labels or ()).get("cluster") == cluster for labels in rows["labels"].to_pylist()]
        return pa.array(named, pa.bool_())
    if name == "deliveries":
        return pc.is_in(rows["alert_id"], pa.array(sorted(ids), pa.string()))
    if name == "quality_results":
        parts = [pc.fill_null(rows[column], "") for column in ("sample", "observed")]
        text, key = pc.binary_join_element_wise(*parts, " "), r"""["']cluster["']: *"""
        # A row names its cluster; of another one a topic may have this name.
        of_rows, anywhere = (pc.match_substring_regex(text, f"{begin}({_quoted(cluster)})") for begin in (key, ""))
        return pc.if_else(pc.match_substring_regex(text, key), of_rows, anywhere)
    return pc.fill_null(pc.equal(rows["cluster"], cluster), False)


def _quoted(cluster: str) -> str:
    return f"{re.escape(json.dumps(cluster))}|{re.escape(repr(cluster))}"


def _ids(lake: Lake, cluster: str, before: datetime | None = None) -> set[str]:
    """The ids of a cluster's alerts and incidents; with `before`, of those that changed last before that time."""
    found = set[str]()
    for name, column in IDS.items():
        if lake.has_table(name):
            rows = lake.rows(name).to_table()
            own = rows.filter(_mask(name, rows, cluster, ())).select([column, MOMENTS[name]])
            last = own.group_by(column).aggregate([(MOMENTS[name], "max")])
            found.update(one for one, at in zip(*last.to_pydict().values(), strict=True) if not before or at < before)
    return found


def _last_minute(table: DeltaTable, cluster: str) -> datetime | None:
    """The last minute with rows of a cluster: its gauges go on from there."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    minutes = dataset(table).to_table(["minute"], filter=ds.field("cluster") == cluster)
    found: datetime | None = pc.max(minutes["minute"]).as_py()
    return found


def readable_versions(lake: Lake, name: str) -> range:
    """The versions of a table that can still be built from its log."""
    from pyarrow.fs import FileSelector

    names = [entry.base_name for entry in lake.files(name).get_file_info(FileSelector("_delta_log"))]
    numbered = [(int(one[:20]), one[20:]) for one in names if one[:20].isdigit()]
    commits = {number for number, rest in numbered if rest == ".json"}
    newest = first = lake.open(name).version()
    while first - 1 in commits:
        first -= 1
    if first:  # older commits are gone: what they did stands in a checkpoint
        first = min(n for n, rest in numbered if rest.startswith(".checkpoint") and n >= first - 1)
    return range(first, newest + 1)


def clean_log(
    lake: Lake, name: str, cluster: str, others: Collection[str] | None = None, read: int | None = None
) -> None:
    """Remove all versions from a table's log but the newest and those after `read`, and the entries of removed files.

    If `others` are given, the other clusters with logs that were read, the transactions of the cluster's writers go,
    too. If killed, the next call removes the older versions that are left.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyarrow.fs import FileSelector

    table, folder = lake.open(name), lake.files(name)
    if others is not None and cluster in json.dumps(actions(folder, table.version()), ensure_ascii=False):
        replace_files(table, (), (), RETENTION)  # a commit without files, as their paths may name the cluster
        table = lake.open(name)
    table.create_checkpoint()
    version = table.version()
    path = f"_delta_log/{version:020}.checkpoint.parquet"
    with folder.open_input_file(path) as file:
        rows = pq.read_table(file)
    keep = pc.is_null(rows["remove"])
    if "txn" in rows.column_names and others is not None:
        writers = pc.struct_field(rows["txn"], "appId")
        own = [one for one in pc.unique(writers).to_pylist() if one and is_writer(one, cluster, others)]
        keep = pc.and_(keep, pc.invert(pc.is_in(writers, pa.array(own, pa.string()))))
    out = pa.BufferOutputStream()
    pq.write_table(rows.filter(keep), out)
    content = out.getvalue().to_pybytes()
    about = {"version": version, "size": pc.sum(keep).as_py(), "sizeInBytes": len(content)}
    lake.write_durably(f"{lake.path(name)}/{path}", content)
    lake.write_durably(f"{lake.path(name)}/_delta_log/{LAST_CHECKPOINT}", json.dumps(about).encode())
    oldest = version if read is None else min(version, read + 1)
    for entry in folder.get_file_info(FileSelector("_delta_log")):
        number = entry.base_name.lstrip(".")[:20]
        is_older = number.isdigit() and int(number) < (oldest if entry.base_name.endswith(".json") else version)
        if entry.is_file and (is_older or entry.base_name.startswith(".")):
            folder.delete_file(entry.path)


def is_writer(name: str, cluster: str, others: Collection[str]) -> bool:
    """Whether a role, or a transaction's id in a table's log, is of a writer of a cluster.

    `others`: the other clusters with logs that were read; a name of theirs may begin with this one, as `prod/eu`.
    """
    kind, _, whose = name.partition("/" if name.startswith("simulate/") else ":")
    if kind not in ("ingest", "watch", "watch-epoch", "simulate"):
        return False
    nearer = [other for other in others if other.startswith(f"{cluster}/") and f"{whose}/".startswith(f"{other}/")]
    return whose == cluster or (kind == "ingest" and whose.startswith(f"{cluster}/") and not nearer)


def _has_rows(folder: FileSystem, path: str, cluster: str) -> bool | None:
    """Return True if a file has rows of a cluster; None if it cannot be read, and its path names none."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        with folder.open_input_file(path) as file:
            return bool(pc.any(pc.equal(pq.read_table(file, columns=["cluster"])["cluster"], cluster)).as_py())
    except KeyError:  # a file of a partition may lack the column
        return f"cluster={cluster}/" in path
    except (OSError, pa.ArrowException):
        return True if f"cluster={cluster}/" in path else None


def remove_unnamed(lake: Lake, name: str, cluster: str) -> tuple[int, list[str]]:
    """Remove files that no version of a table names any more; of tables in WRITTEN_BESIDE only files with rows of the
    cluster. Returns the number of removed files, and the paths of files that are left as they cannot be read."""
    from pyarrow.fs import FileSelector

    folder, removed, unread = lake.files(name), 0, list[str]()
    present = {unquote(path) for path in lake.open(name).get_add_actions(flatten=True)["path"].to_pylist()}
    for entry in folder.get_file_info(FileSelector("", recursive=True)):
        if not entry.base_name.endswith(".parquet") or entry.path in present or entry.path.startswith("_delta_log"):
            continue
        has_rows = name not in WRITTEN_BESIDE or _has_rows(folder, entry.path, cluster)
        if has_rows:
            folder.delete_file(entry.path)
            removed += 1
        elif has_rows is None:
            unread.append(entry.path)
    return removed, unread
