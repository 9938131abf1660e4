"""Writes conf/grafana anew. Needs the package grafana-foundation-sdk (of the extra `dev`)."""

from __future__ import annotations

from pathlib import Path

from pipelines.metrics.dashboards.boards import BOARDS
from pipelines.metrics.dashboards.grafana import document

FOLDER = Path(__file__).parents[3] / "conf/grafana"


def files() -> dict[Path, str]:
    """Every dashboard by the file that holds it."""
    return {FOLDER / f"{board.uid}.json": document(board) for board in BOARDS}


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content)
        print(path)
