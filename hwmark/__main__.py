"""The command `hwmark`, also `python -m hwmark` and, for spark-submit, this file's path."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__" and not __package__:  # run by its path: nothing else need say where hwmark is
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main() -> None:
    """Run the command line."""
    import hwmark

    hwmark.put_own_folder_first()
    from pipelines.cli import app

    app(prog_name="hwmark")


if __name__ == "__main__":
    main()
