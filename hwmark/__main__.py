"""The command `hwmark`, also `python -m hwmark` and, for spark-submit, this file's path."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def put_own_folder_first() -> None:
    """Make this process and those that it starts find hwmark's packages before others of these names."""
    folder = str(Path(__file__).resolve().parents[1])
    sys.path[:] = [folder, *(entry for entry in sys.path if entry != folder)]
    others = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in ("", folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *others])
    os.environ["PYTHONSAFEPATH"] = "1"  # else `python -m` looks into the working folder first


def main() -> None:
    """Run the command line."""
    put_own_folder_first()
    from pipelines.cli import app

    app(prog_name="hwmark")


if __name__ == "__main__":
    main()
