"""Checkpoints of the streaming job, written without it."""

import json
from datetime import UTC, datetime

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


def planned(lake, batch, offset, *, done=True, at=NOON):
    """A batch of the job's checkpoint."""
    query = lake / "_run/q"
    for folder in ("commits", "offsets"):
        (query / folder).mkdir(parents=True, exist_ok=True)
    (lake / "_run/query.json").write_text(json.dumps({"query_id": "q"}))
    metadata = {"batchTimestampMs": int(at.timestamp() * 1000)}
    (query / f"offsets/{batch}").write_text("\n".join(["v1", json.dumps(metadata), json.dumps(offset)]))
    if done:
        (query / f"commits/{batch}").write_text("v1\n{}")
