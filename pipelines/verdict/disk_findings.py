"""SQL for what audits of disks found."""

from __future__ import annotations

_SAME = "cluster, topic, partition, broker_id, other_broker_id, kind"


def standing_findings(where: str) -> str:
    """The query for the newest finding of each kind and replica in ops/audits, if it is critical or not known.

    An audit that no longer finds what an earlier one did writes that as a finding of severity `info`.
    """
    newest = f"SELECT *, max(audited_at) OVER (PARTITION BY {_SAME}) AS newest FROM t WHERE {where}"
    return f"SELECT * FROM ({newest}) WHERE audited_at = newest AND severity <> 'info'"
