"""A Python process that Spark has just started lets a fork of the zygote do its work, and ends as that one ends."""

from __future__ import annotations

import _socket
import os
import struct

from pipelines.streaming.spark_internals import DAEMON, PLANNERS

# What is imported here each of these processes waits for: `socket` and `typing` take longer than all else.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ADDRESS = "HWMARK_ZYGOTE"
"""The variable with the address at which the zygote of this driver listens."""
DAEMONS = (DAEMON, "pipelines.streaming.workers.daemon")
"""They fork workers themselves, and end when their stdin does."""
SERVED = (*DAEMONS, *PLANNERS)
FILES = (0, 1, 2)
SIZE = 4
REFUSED = b"no"
"""The answer to a process whose work a fork cannot do; every other one is an exit status."""


def hand_over(words: Sequence[str]) -> int | None:
    """The exit status of a fork that ran `python -m` with these words, this environment, stdin and outputs.

    None where there is nobody to hand it to: the process goes on by itself.
    """
    address = os.environ.get(ADDRESS)
    if not address or words[0] not in SERVED:
        return None
    asked = request(words, os.environ)
    zygote = _socket.socket(_socket.AF_UNIX)
    try:
        zygote.connect(address)
    except OSError:
        return None
    files = _socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack(f"{len(FILES)}i", *FILES)
    zygote.sendmsg([len(asked).to_bytes(SIZE, "big")], [files])
    zygote.sendall(asked)
    answer = zygote.recv(SIZE)
    return None if answer == REFUSED else int(answer or b"1")


def request(words: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """Words and environment as bytes; neither has zeros in it."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    return os.fsencode("\0".join([str(len(words)), *words, *variables]))


def requested(asked: bytes) -> tuple[list[str], dict[str, str]]:
    """The inverse of `request`."""
    count, *sent = os.fsdecode(asked).split("\0")
    words, variables = sent[: int(count)], sent[int(count) :]
    return words, dict(variable.split("=", 1) for variable in variables)
