"""A command where no JVM can be started."""

import os
import subprocess
import sys


def without_java(*command):
    """How `hwmark` with these arguments ends on a machine without Java."""
    environment = os.environ | {"PATH": "", "JAVA_HOME": "/nowhere"}
    return subprocess.run(
        [sys.executable, "-m", "hwmark", *command], env=environment, capture_output=True, text=True, check=False
    )
