"""The record of the query that wrote a lake's silver tables, which keeps another query's state from continuing them."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from pipelines.errors import UsageError
from pipelines.lake.lake import Lake
from pipelines.lake.queries import presents
from pipelines.lake.records import record as read_record
from pipelines.replication import Rules
from pipelines.replication.rules import EDITION
from pipelines.streaming.checkpoint.offsets import FOLDER, RECORD
from pipelines.streaming.reconstruction import mark_rebuild
from pipelines.streaming.stateful.bucket_keys import evenly_spread
from pipelines.streaming.tables import KINDS

log = logging.getLogger("hwmark.run")

_WRITER = "a_later_hwmark_wrote_this_lake"
"""The first key of the record, with the version that wrote it. Versions before 0.2.0 fail with the first unknown key,
so its name is their message."""


class StateMismatch(ValueError):
    """Raised if silver and the checkpoint do not belong together, or the checkpoint cannot go on as asked."""


class UnfitSettings(StateMismatch, UsageError):
    """Raised if the checkpoint could go on with other settings."""


@dataclass(frozen=True)
class Query:
    """One life of the streaming query: its id, the layout of its state, and whether its first batch empties silver."""

    query_id: str
    buckets: int
    shuffle_partitions: int
    rules: dict[str, object]
    rebuild: bool
    source: str
    """The source by which bronze is read."""
    keys: list[int] = field(default_factory=list)
    """The key of each bucket."""
    follows: str = ""
    """The query whose state this one began with; empty if it began without state."""
    start: dict[str, Any] | None = None
    """The offset of bronze of that state."""
    spark: str = ""
    """The version of Spark that last wrote the checkpoint, if known."""

    edition: int = 0
    """The edition of the rules that last made silver; 0 before editions were counted."""
    older: dict[str, str] = field(default_factory=dict)
    """The event time up to which each cluster's rows were made by an earlier edition."""

    def __post_init__(self) -> None:
        if not self.keys:
            object.__setattr__(self, "keys", evenly_spread(self.buckets, self.shuffle_partitions))

    @property
    def layout(self) -> tuple[int, int]:
        """(buckets, shuffle partitions)"""
        return self.buckets, self.shuffle_partitions

    def checkpoint(self, lake: str) -> str:
        return f"{lake.rstrip('/')}/{FOLDER}/{self.query_id}"


def open_query(
    lake: Lake,
    rules: Rules,
    buckets: int | None,
    shuffle_partitions: int,
    source: str,
    *,
    rebuild: bool,
    reshard: int | None = None,
) -> Query:
    """The query with which this lake goes on, or a new one if it has none or `rebuild` asks for it.

    `buckets` None means those of the lake's state, or for a new lake as many as shuffle partitions. Changed rules are
    recorded and apply from the next batch on. If `reshard` or `shuffle_partitions` ask for another layout, the result
    is the query whose state must be moved first (`beginning`). Raises StateMismatch if silver has rows that the
    checkpoint did not write, if its state has another layout, or if its rules are unknown here.
    """
    known = None if rebuild else recorded(lake)
    if known and _begun(lake, known):
        _require_its_settings(known, reshard or buckets, source, reshard)
        require_movable(known, reshard or known.buckets, shuffle_partitions)
        changed = changed_rules(known, rules)
        asked = replace(known, rules=asdict(rules), edition=EDITION)
        if known.edition != EDITION:
            asked = replace(asked, older={cluster: ts.isoformat() for cluster, ts in presents(lake).items()})
        if asked != known:
            record(lake, asked)
        if changed:
            log.warning("%s, from the next batch on: `run --rebuild` applies it throughout", "; ".join(changed))
        return asked
    # A rebuild that was killed before its first commit is still due.
    rebuild = rebuild or (known is not None and known.rebuild)
    if not rebuild and _written_kinds(lake):
        raise _mismatch(lake, "has rows, and no record of the query that wrote them")
    many = reshard or buckets or shuffle_partitions
    query = Query(uuid.uuid4().hex, many, shuffle_partitions, asdict(rules), rebuild, source, edition=EDITION)
    if rebuild:
        mark_rebuild(lake, query.query_id)
    record(lake, query)
    return query


def _begun(lake: Lake, query: Query) -> bool:
    """Whether the query has a checkpoint. Raises StateMismatch if another one wrote silver."""
    mine = any(lake.open(kind).transaction_version(query.query_id) is not None for kind in KINDS)
    begun = _has_checkpoint(lake, query)
    if mine and not begun:
        raise _mismatch(lake, f"was written by query {query.query_id}, and its checkpoint is missing")
    if not mine and query.start is not None:
        begun, mine = True, any(lake.open(kind).transaction_version(query.follows) is not None for kind in KINDS)
    if begun and not mine and not query.rebuild and _written_kinds(lake):
        raise _mismatch(lake, f"was not written by query {query.query_id} of {RECORD}")
    return begun


def _require_its_settings(known: Query, buckets: int | None, source: str, reshard: int | None) -> None:
    if source != known.source:
        raise UnfitSettings(
            f"source is {source}, and this lake's state has {known.source}: set it to {known.source}, or "
            "`run --rebuild`"
        )
    if reshard is None and buckets not in (None, known.buckets):
        raise UnfitSettings(
            f"buckets is {buckets}, and this lake's state has {known.buckets}: set it to {known.buckets}, or move the "
            f"state with `hwmark run --reshard {buckets}`"
        )


def record_spark(lake: Lake, query: Query, here: str) -> Query:
    """The query, recorded with the JVM's version of Spark (`here`), which may differ from pip's.

    Raises StateMismatch if a later version (4.2 after 4.1) wrote its checkpoint.
    """
    if query.spark and _minor(here) < _minor(query.spark):
        raise StateMismatch(
            f"Spark {query.spark} wrote the checkpoint of this lake, and this is Spark {here}, which may not read it: "
            f"run Spark {query.spark} or later, or start silver anew from bronze with `hwmark run --rebuild`"
        )
    if query.spark != here:
        record(lake, query := replace(query, spark=here))
    return query


def _minor(spark: str) -> tuple[int, ...]:
    return tuple(map(int, spark.split(".")[:2]))


def require_movable(known: Query, buckets: int, shuffle_partitions: int) -> None:
    """Raise StateMismatch if a query's state cannot be moved to this number of buckets and shuffle partitions."""
    if (buckets, shuffle_partitions) == known.layout:
        return
    if known.source == "delta":
        raise UnfitSettings(
            f"{buckets} buckets in {shuffle_partitions} tasks are asked for, and this lake's state has {known.buckets} "
            f'in {known.shuffle_partitions}: with source = "delta" both are fixed, because Delta\'s source begins at '
            f"whole commits only; set shuffle_partitions to {known.shuffle_partitions}, or `run --rebuild`"
        )
    if buckets % shuffle_partitions:
        fitting = ", ".join(map(str, divisors(buckets)))
        raise UnfitSettings(
            f"shuffle_partitions is {shuffle_partitions}, which does not divide the number of buckets, {buckets}: "
            f"set it to {'' if buckets == 1 else 'one of '}{fitting}, or `hwmark run --reshard {shuffle_partitions}`"
        )


def divisors(number: int) -> list[int]:
    """The divisors of a number, in order."""
    return [k for k in range(1, number + 1) if number % k == 0]


def changed_rules(known: Query, rules: Rules) -> list[str]:
    """The rules that differ from the record, in words. Raises StateMismatch with the name of an unknown rule."""
    before = asdict(rules_of(known.rules))
    return [
        f"rules.{name} is {value}, which was {before[name]}"
        for name, value in asdict(rules).items()
        if value != before[name]
    ]


def rules_of(recorded: Mapping[str, object]) -> Rules:
    """The recorded rules; a rule that is newer than the record has its default. Raises StateMismatch."""
    unknown = sorted(set(recorded) - set(asdict(Rules())))
    if unknown:
        raise StateMismatch(
            f"rules.{unknown[0]} of the lake's record is not known to this version: use the version of hwmark that "
            "wrote it, or start silver anew from bronze with `hwmark run --rebuild`"
        )
    return Rules(**recorded)  # type: ignore[arg-type]  # they were written from Rules


def _mismatch(lake: Lake, why: str) -> StateMismatch:
    return StateMismatch(f"silver of lake {lake.root} {why}: start it anew from bronze with `run --rebuild`")


def _written_kinds(lake: Lake) -> list[str]:
    """The silver tables with rows."""
    return [kind for kind in KINDS if kind != "quarantine" and lake.open(kind).file_uris()]


def _has_checkpoint(lake: Lake, query: Query) -> bool:
    return _is_file(lake, f"{FOLDER}/{query.query_id}/metadata")


def _is_file(lake: Lake, path: str) -> bool:
    from pyarrow.fs import FileType

    return bool(lake.files().get_file_info(path).type == FileType.File)


def recorded(lake: Lake) -> Query | None:
    """The query that wrote this lake's silver tables, None if there is none."""
    if not _is_file(lake, RECORD):
        return None
    found = read_record(lake, RECORD, dict[str, Any], {}) or {}
    if "query_id" not in found:
        raise StateMismatch(
            f"{RECORD} is damaged: restore it, or start silver anew from bronze with `hwmark run --rebuild`"
        )
    development = found.pop("hwmark", "another version")
    by, known = found.pop(_WRITER, development), {each.name for each in fields(Query)}
    if unknown := sorted(found.keys() - known):
        raise StateMismatch(
            f"this lake was written by hwmark {by}: {unknown[0]} in its {RECORD} is not known to this one, "
            f"{_version('hwmark')}; use that, or start silver anew from bronze with `hwmark run --rebuild`"
        )
    if "keys" not in found:
        raise StateMismatch(
            f"this lake was written by an earlier hwmark: its {RECORD} has no keys, and its state another version: "
            "start silver anew from bronze with `hwmark run --rebuild`"
        )
    return Query(**found)


def record(lake: Lake, query: Query) -> None:
    """Record this query as the lake's, by one rename."""
    lake.write_durably(RECORD, json.dumps({_WRITER: _version("hwmark"), **asdict(query)}).encode())


def _version(package: str) -> str:
    """The version of an installed package, "" if not known."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""
