"""Logs as they lie in the field, packed beside this file, and what the reconstruction makes of them."""

import tarfile
from pathlib import Path
from typing import Any

from generators.brokerlogs.ingest import read_logs
from pipelines.replication import Reconstructor, Rules, replay

HERE = Path(__file__).parent


def unpack(case: str, into: Path) -> Path:
    """The folder of a case, written below `into`."""
    with tarfile.open(HERE / f"{case}.tar.xz") as packed:
        packed.extractall(into, filter="data")
    return into / case


def facts_of(*paths: Path) -> Any:
    """Facts of the logs below these paths."""
    return replay(read_logs(paths, "c"), Rules())


def health_of(*paths: Path) -> dict[str, dict[str, Any]]:
    """By partition how it stands at the end of the logs below these paths."""
    reconstructor = Reconstructor(Rules())
    reconstructor.update(read_logs(paths, "c"))
    reconstructor.finish()
    return {f"{row['topic']}-{row['partition']}": row for row in reconstructor.health().to_pylist()}


def lost(facts: Any) -> dict[str, tuple[int, int]]:
    """By partition the offsets that are lost, as the last revision has it; only what is critical."""
    last = {(row["regression_id"]): row for row in sorted(rows(facts), key=lambda row: row["revision"])}
    return {
        f"{row['topic']}-{row['partition']}": (row["lost_from"], row["lost_to"])
        for row in last.values()
        if row["severity"] == "critical"
    }


def rows(facts: Any) -> list[dict[str, Any]]:
    """The rows of `silver/hw_regressions`."""
    found: list[dict[str, Any]] = facts.hw_regressions.to_pylist()
    return found


def write(folder: Path, files: dict[str, str]) -> Path:
    """These files, by name below `folder`."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
