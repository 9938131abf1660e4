"""A Python process that Spark has just started lets a fork of the zygote do its work, and ends as that one ends."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence

ADDRESS = "HWMARK_ZYGOTE"
"""The variable that tells where the zygote of this driver listens."""
DAEMONS = ("pyspark.daemon", "pipelines.streaming.workers.daemon")
"""They fork workers themselves, and end when their stdin does."""
PLANNERS = (
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
)
"""The modules that Spark's driver runs, in a new process each, at the start of every query of ours."""
SERVED = (*DAEMONS, *PLANNERS)
FILES = (0, 1, 2)
SIZE = 4


def hand_over(words: Sequence[str]) -> int | None:
    """The exit status of a fork that ran `python -m` with these words, this environment, stdin and outputs.

    None where there is nobody to hand it to: the process goes on by itself.
    """
    address = os.environ.get(ADDRESS)
    if not address or words[0] not in SERVED:
        return None
    request = json.dumps({"words": list(words), "environ": dict(os.environ)}).encode()
    with socket.socket(socket.AF_UNIX) as zygote:
        try:
            zygote.connect(address)
        except OSError:
            return None
        socket.send_fds(zygote, [len(request).to_bytes(SIZE, "big")], FILES)
        zygote.sendall(request)
        status = zygote.recv(1)
    return status[0] if status else 1
