"""This user's cache on this host, for files that are made or fetched once."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_dir(name: str, preferred: str | None = None) -> Path:
    """A writable folder of this user on this host: the preferred one if it is, or can be made, one."""
    own = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "hwmark" / name
    for chosen in (*(Path(folder) for folder in (preferred,) if folder), own):
        try:
            chosen.mkdir(parents=True, exist_ok=True)
            if os.access(chosen, os.W_OK):
                return chosen
        except OSError:
            pass
    chosen = Path(tempfile.gettempdir()) / f"hwmark-{os.getuid()}" / name
    chosen.mkdir(parents=True, exist_ok=True)
    return chosen
