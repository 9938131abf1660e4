"""How the silver tables of a lake come about, from the job's own records: for who reads them, without Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pipelines.lake.lake import Lake
from pipelines.replication.rules import Rules
from pipelines.streaming.checkpoint.offsets import FOLDER, RECORD, committed_offset
from pipelines.streaming.source.bronze_log import last_version_read
from schemas import replication_events

MARK = f"{FOLDER}/rebuild.json"
"""Up to which version of bronze a rebuild has to come until silver is whole again."""


@dataclass(frozen=True)
class Reconstruction:
    """`made`: a job has made the tables; `grace_ms`: for so long before its present facts may still come; `rebuilding`:
    silver is being made anew and has not come to where it was; `query`: the query of Spark that makes it."""

    made: bool = False
    grace_ms: int = 0
    rebuilding: bool = False
    query: str | None = None


def reconstruction(lake: Lake) -> Reconstruction:
    """What the record of the job says; nothing where there is none."""
    record = _json(lake, RECORD)
    if "rules" not in record:
        return Reconstruction()
    mark, offset = _json(lake, MARK), committed_offset(lake)
    # A mark that cannot be read does not say that the rebuild is over.
    begun = "damaged" in mark or mark.get("query_id") == record["query_id"]
    rebuilding = begun and ("to" not in mark or offset is None or last_version_read(offset) < int(str(mark["to"])))
    rules: dict[str, int] = dict(record["rules"])  # type: ignore[call-overload]
    grace_ms = rules.get("reorder_grace_ms", Rules().reorder_grace_ms)
    return Reconstruction(True, grace_ms, rebuilding, str(record["query_id"]))


def mark_rebuild(lake: Lake, query_id: str) -> None:
    """Records that a query makes silver anew from what bronze has now."""
    to = lake.open(replication_events.TABLE).version()
    lake.write_durably(MARK, json.dumps({"query_id": query_id, "to": to}).encode())


def _json(lake: Lake, path: str) -> dict[str, object]:
    try:
        with lake.files().open_input_stream(path) as stream:
            return dict(json.loads(stream.read()))
    except FileNotFoundError:
        return {}
    except ValueError:
        return {"damaged": path}
