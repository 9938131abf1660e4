"""What needs a network, once: Delta's jars; and the kernels compiled. `python -m pipelines.setup`."""

from __future__ import annotations

import sys
from pathlib import Path

JARS = Path(sys.prefix) / "share" / "hwmark" / "jars"
"""Where Delta's jars are kept: with the environment, so that any working directory finds them."""


def jars_dir(chosen: str) -> str | None:
    """The folder of Delta's jars: the chosen one, else that of this environment, else None (Spark resolves them)."""
    from pipelines.streaming.jars import MARK

    return chosen or (str(JARS) if (JARS / MARK).is_file() else None)


def main() -> None:
    from pipelines.replication import replay
    from pipelines.streaming.jars import fetch
    from schemas import replication_events

    print(f"{len(fetch(JARS))} jars in {JARS}")
    replay(replication_events.ARROW.empty_table())


if __name__ == "__main__":
    main()
