"""What needs a network, once: Delta's jars; and the kernels compiled. `python -m pipelines.setup`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

JARS = Path(sys.prefix) / "share" / "hwmark" / "jars"
"""Where Delta's jars are kept: with the environment, so that any working directory finds them."""


def jars_dir(chosen: str) -> str | None:
    """The folder of Delta's jars: the chosen one, else that of this environment, else None (they are fetched)."""
    from pipelines.streaming.jars import MARK

    return chosen or (str(JARS) if (JARS / MARK).is_file() else None)


def share_compiled_kernels() -> None:
    """One cache of compiled kernels for this process, Spark's workers and the set-up; call before numba is imported."""
    from pipelines.streaming.session import cache_dir

    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_dir("numba")))


def main() -> None:
    share_compiled_kernels()
    from generators.brokerlogs.ingest import read_logs
    from generators.recordings import traces
    from pipelines.replication import Reconstructor
    from pipelines.streaming.jars import JarsRefused, fetch

    try:
        print(f"setup: {len(fetch(JARS))} jars in {JARS}")
    except JarsRefused as refused:
        sys.exit(f"setup: {refused}")
    reconstructor = Reconstructor()
    reconstructor.update(read_logs([traces.path("unclean_election")], "setup"))
    Reconstructor.restore(reconstructor.snapshot()).finish()
    print(f"setup: kernels compiled into {os.environ['NUMBA_CACHE_DIR']}")


if __name__ == "__main__":
    main()
