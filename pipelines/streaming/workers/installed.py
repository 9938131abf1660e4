"""Spark's workers import pyspark as it is installed, which is compiled, and not from Spark's zip, which never is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ZIPPED = ("pyspark", "py4j")
"""Packages that Spark puts, as zips, before all else on the path of its workers."""


def prefer_installed() -> None:
    """Takes those zips off this process's path whose package of the same version lies in a folder behind them.

    Importing pyspark from its zip takes 0.65 CPU s more each time.
    """
    for zipped in [entry for entry in sys.path if entry.endswith(".zip")]:
        package = os.path.basename(zipped).removesuffix(".zip").partition("-")[0]
        if package in ZIPPED and _installed(package) == _version_in(zipped, package):
            sys.path.remove(zipped)


def _installed(package: str) -> bytes | None:
    """What the first folder on the path that has the package says of its version."""
    for entry in sys.path:
        version = Path(entry, package, "version.py")
        if version.is_file():
            return version.read_bytes()
    return None


def _version_in(zipped: str, package: str) -> bytes:
    """The same of a zip; empty where there is none."""
    import zipfile

    try:
        with zipfile.ZipFile(zipped) as file:
            return file.read(f"{package}/version.py")
    except (OSError, KeyError, zipfile.BadZipFile):
        return b""
