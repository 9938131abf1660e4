"""A command where pyspark is not installed."""

import os
import subprocess
import sys

ABSENT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from hwmark.__main__ import main
main()
"""


def without_spark(*command):
    """How `hwmark` with these arguments ends."""
    words = [sys.executable, "-c", ABSENT, *command]
    return subprocess.run(words, env=os.environ, capture_output=True, text=True, check=False)
