"""The partitions that each broker leads, follows and holds back, counted from rows of `gold/partition_health`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.partition_health import STALLED_MS, are_one_of

Broker = tuple[str, int]
"""(cluster, broker id)"""
Row = dict[str, Any]


def count_partitions(partitions: pa.Table) -> dict[Broker, Row]:
    """The counts of led, followed and held back partitions by broker, without counts of 0."""
    found: dict[Broker, Row] = {}
    partitions = _with_members(partitions)
    stands = pc.greater(partitions["stalled_ms"], STALLED_MS)
    back = partitions.filter(stands)
    risk = partitions["one_failure_away"]
    for name, counts in {
        "replicas": _members(partitions, "ar"),
        "led": _leaders(partitions),
        "outside_isr": _members(partitions, "osr"),
        "isr_unknown": _members(partitions.filter(pc.is_null(partitions["isr"])), "ar"),
        "out_of_sync": _members(partitions, "out_of_sync"),
        "led_under_replicated": _leaders(partitions.filter(partitions["under_replicated"])),
        "led_under_min_isr": _leaders(partitions.filter(partitions["under_min_isr"])),
        "led_held_back": _leaders(back),
        "sole_isr": _members(partitions.filter(pc.equal(risk, "loss")), "isr"),
        "at_min_isr": _members(partitions.filter(pc.equal(risk, "under_min_isr")), "isr"),
    }.items():
        for key, count in counts.items():
            found.setdefault(key, {})[name] = count
    for row in _holders(back):
        _add_holder(found.setdefault((row["cluster"], row["holder"]), {}), row)
    nobody_leads = pc.fill_null(pc.equal(partitions["leader_id"], -1), False)
    for key, count in _members(partitions.filter(pc.invert(nobody_leads)), "ar").items():
        found[key]["followed"] = max(count - found[key].get("led", 0), 0)
    return found


def _with_members(partitions: pa.Table) -> pa.Table:
    """The rows with the ISR in place of the assigned replicas where those are not known."""
    known = pc.fill_null(pc.greater(pc.list_value_length(partitions["ar"]), 0), False)
    members = pc.if_else(known, partitions["ar"], partitions["isr"])
    return partitions.set_column(partitions.column_names.index("ar"), "ar", members)


def _members(partitions: pa.Table, column: str) -> dict[Broker, int]:
    """The number of lists in `column` that name each broker."""
    lists = partitions[column].combine_chunks()
    clusters = partitions["cluster"].combine_chunks().take(pc.list_parent_indices(lists))
    return _counted(clusters, pc.list_flatten(lists))


def _leaders(partitions: pa.Table) -> dict[Broker, int]:
    led = partitions.filter(pc.greater_equal(partitions["leader_id"], 0))
    return _counted(led["cluster"], led["leader_id"])


def _counted(clusters: Any, ids: Any) -> dict[Broker, int]:
    counts = pa.table({"cluster": clusters, "id": ids}).group_by(["cluster", "id"]).aggregate([([], "count_all")])
    return {(row["cluster"], row["id"]): row["count_all"] for row in counts.to_pylist()}


def _holders(back: pa.Table) -> list[Row]:
    """Count the partitions, and offsets, that replicas hold back, by them and their leader. Of several at level 1 one
    does, and nobody knows which."""
    back = back.filter(pc.invert(are_one_of(back)))
    lists = back["holding_replicas"].combine_chunks()
    of = pc.list_parent_indices(lists)
    leaders = back["leader_id"].combine_chunks().take(of)
    waiting = pc.subtract(back["leader_leo"], back["hw"]).combine_chunks().take(of)
    rows = {"cluster": back["cluster"].combine_chunks().take(of), "holder": pc.list_flatten(lists)}
    flat = pa.table({**rows, "leader": leaders, "records": waiting})
    flat = flat.filter(pc.not_equal(flat["holder"], flat["leader"]))
    grouped = flat.group_by(["cluster", "holder", "leader"]).aggregate([([], "count_all"), ("records", "sum")])
    return list(grouped.to_pylist())


def _add_holder(row: Row, of_leader: Row) -> None:
    row["holds_back"] = row.get("holds_back", 0) + of_leader["count_all"]
    row["holds_back_records"] = row.get("holds_back_records", 0) + (of_leader["records_sum"] or 0)
    row.setdefault("holds_back_of", {})[str(of_leader["leader"])] = of_leader["count_all"]
