"""Environments of other packages: ours and theirs want different versions of others."""

import subprocess
import sys
from pathlib import Path


def install(folder, *packages):
    """The folder of the programs of a new environment with these packages."""
    uv = str(Path(sys.executable).parent / "uv")
    subprocess.run([uv, "venv", "-q", str(folder)], check=True)
    subprocess.run([uv, "pip", "install", "-q", "--python", str(folder / "bin/python"), *packages], check=True)
    return folder / "bin"
