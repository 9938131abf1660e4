"""What a person awake at three in the morning reads: one sentence per cluster, finding or troubled partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from pipelines.look import STALLED_MS

Row = dict[str, Any]


def health(clusters: Sequence[Row], findings: Sequence[Row], partitions: Sequence[Row]) -> list[str]:
    """A sentence per cluster, then one per partition given, from `look.clusters`, `findings` and `rows`."""
    several = len(clusters) > 1
    said = [_cluster(row, [f for f in findings if f["cluster"] == row["cluster"]]) for row in clusters]
    return said + [_partition(row, several) for row in partitions]


def regressions(findings: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """A sentence that sums up `look.findings`, then one per loss or suspicion in `rows`."""
    several = len({row["cluster"] for row in findings}) > 1
    harmless: Counter[str] = Counter()
    for row in findings:
        if row["severity"] == "info":
            harmless[row["class"]] += row["findings"]
    said = [f"Harmless: {', '.join(f'{n} {name}' for name, n in sorted(harmless.items()))}."] if harmless else []
    return [_verdict(findings), *said, *(regression(row, several) for row in rows)]


def regression(row: Row, several_clusters: bool = False) -> str:
    """`clicks-0: offsets 120..299 (180) are gone, critical, unclean election of broker 2 at 09:23:45`."""
    return f"{name(row, several_clusters)}: {_happening(row)}, {_weight(row)}, {_how(row)} at {clock(row['ts'])}"


def name(row: Row, several_clusters: bool = False) -> str:
    """`topic-partition`, with the cluster in front where there are several."""
    return f"{row['cluster']}/" * several_clusters + f"{row['topic']}-{row['partition']}"


def clock(ts: datetime | None) -> str:
    """A date and time of day, UTC."""
    return "an unknown time" if ts is None else f"{ts:%Y-%m-%d %H:%M:%S} UTC"


def count(number: int, thing: str) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{number} {thing}{'s' * (number != 1)}"


def brokers(ids: Sequence[int] | None) -> str:
    """`1,2,3`; `?` when unknown."""
    return "?" if ids is None else ",".join(map(str, ids)) or "none"


def _verdict(findings: Sequence[Row]) -> str:
    lost = [row for row in findings if row["severity"] == "critical"]
    if lost:
        offsets, partitions = _sum(lost, "lost_records"), _sum(lost, "partitions")
        return f"LOST: {count(offsets, 'offset')} in {count(partitions, 'partition')}."
    if suspicions := _sum((row for row in findings if row["severity"] == "warning"), "findings"):
        return f"No loss is proven; {count(suspicions, 'suspicion')} to look into."
    return "No loss is known: no high watermark fell in a way that costs committed records."


def _sum(rows: Iterable[Row], column: str) -> int:
    return sum(row[column] for row in rows)


def _happening(row: Row) -> str:
    first, end, count = row["lost_from"], row["lost_to"], row["lost_records"]
    if first is not None and end is not None and end > first:
        are = "are gone" if row["severity"] == "critical" else "may be gone"
        bound = "at least " if row["proof"] == "bounded" else ""
        return f"offsets {bound}{first}..{end - 1} ({count}) {are}"
    return f"HW {_number(row['hw_before'])} -> {_number(row['hw_after'])}"


def _weight(row: Row) -> str:
    return row["severity"] if row["proof"] == "proven" else f"{row['severity']} ({row['proof']})"


def _how(row: Row) -> str:
    leader, start = row["leader_id"], row["start_offset"]
    began = f" from offset {start}" if start is not None else ""
    if row["class"] == "unclean_loss":
        return f"unclean election of broker {_number(leader)}"
    if row["class"] == "committed_loss":
        again = leader is not None and leader == row["leader_id_before"]
        return f"broker {_number(leader)} {'resumed' if again else 'began'} leading{began}"
    who = row["replica_id"] if row["replica_id"] is not None else leader
    return f"{row['class'].replace('_', ' ')} on broker {_number(who)}"


def _cluster(row: Row, findings: Sequence[Row]) -> str:
    kinds = {"offline": "offline", "under_min_isr": "under min ISR", "under_replicated": "under-replicated"}
    state = ", ".join(f"{row[key]} {words}" for key, words in kinds.items() if row[key]) or "all in sync"
    lost = _sum((f for f in findings if f["severity"] == "critical"), "lost_records")
    loss = f"; LOST {count(lost, 'offset')} (hwmark show regressions)" if lost else ""
    return f"{row['cluster']}: {count(row['partitions'], 'partition')}, {state}{loss}; last heard {clock(row['heard'])}"


def _partition(row: Row, several_clusters: bool) -> str:
    behind = (row["leader_leo"] or 0) - (row["hw"] or 0)
    below = f" ({behind} below the log end)" if row["leader_leo"] is not None and behind > 0 else ""
    leads = "nobody leads" if row["offline"] else f"broker {_number(row['leader_id'])} leads"
    parts = [
        f"{leads} (epoch {_number(row['leader_epoch'])})",
        f"HW {_number(row['hw'])}{below}",
        f"in sync {brokers(row['isr'])} of {brokers(row['ar'])}",
        *_troubles(row),
    ]
    return f"{name(row, several_clusters)}: {', '.join(parts)}"


def _troubles(row: Row) -> list[str]:
    found = []
    if row["offline"]:
        found.append("OFFLINE")
    elif row["under_min_isr"]:
        found.append("UNDER MIN ISR: writes with acks=all are refused")
    if row["out_of_sync"]:
        found.append(f"out of sync: {brokers(row['out_of_sync'])}")
    if (row["stalled_ms"] or 0) > STALLED_MS:
        held = f", held back by {brokers(row['holding_replicas'])}" if row["holding_replicas"] else ""
        found.append(f"HW stands for {row['stalled_ms'] / 1000:.0f} s{held}")
    return found


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)
