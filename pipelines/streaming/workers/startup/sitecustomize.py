"""Python runs this before the workers that Spark's driver starts one by one, whose module cannot be chosen."""

import importlib
import os
import sys
from pathlib import Path

# They multiply nothing: threads for it take a third of the time in which numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
try:
    from pipelines.streaming.workers.handoff import hand_over
    from pipelines.streaming.workers.installed import prefer_installed
except ImportError:
    pass
else:
    prefer_installed()
    # A pyspark in a zip that is left is another version than the zygote has.
    if sys.orig_argv[1:2] == ["-m"] and not any("pyspark" in entry and entry.endswith(".zip") for entry in sys.path):
        status = hand_over(sys.orig_argv[2:])
        if status is not None:
            os._exit(status)

# Whatever the machine has of this name comes next.
sys.path[:] = [entry for entry in sys.path if Path(entry) != Path(__file__).parent]
mine = sys.modules.pop("sitecustomize")
try:
    importlib.import_module("sitecustomize")
except ImportError:
    sys.modules["sitecustomize"] = mine
