"""The commits of a Delta table as its log has them: what each added and took away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def actions(folder: FileSystem, version: int) -> list[dict[str, Any]]:
    """The actions of one commit of the table in `folder`. Raises FileNotFoundError where the log has it no longer."""
    with folder.open_input_stream(f"_delta_log/{version:020}.json") as commit:
        return [json.loads(line) for line in commit.read().splitlines() if line]
