"""A Python process that Spark has just started lets a fork of the zygote do its work, and ends as that one ends.

Spark gets `interpreter` as its Python. Python itself, before it has its first module, reads the directories of the zips
and of the jar that Spark puts on its path: 37 ms a process, and 7 so.
"""

from __future__ import annotations

import _socket
import os
import struct
import sys

from pipelines.streaming.spark_internals import DAEMON, PLANNERS

# What is imported here each of these processes waits for: `socket` and `typing` take longer than all else.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DAEMONS = (DAEMON, "pipelines.streaming.workers.daemon")
"""They fork workers themselves, and end when their stdin does."""
SERVED = (*DAEMONS, *PLANNERS)
FILES = (0, 1, 2)
SIZE = 4
REFUSED = b"no"
"""The answer to a process whose work a fork cannot do; every other one is an exit status."""
LONGEST = 127
"""Of the line by which a script names its interpreter: older Linux cuts it off there."""


def interpreter(python: str, root: str, address: str) -> str | None:
    """A script that Spark can start in place of `python`, which alone imports this package from `root`.

    It is a Python without a path of others and without site-packages. None where `python` cannot be named in a script.
    """
    first = f"#!{python} -IS"
    if len(os.fsencode(first)) > LONGEST or any(letter.isspace() for letter in python):
        return None
    return f"""{first}
import sys
sys.path.append({root!r})
from pipelines.streaming.workers.handoff import stand_in
stand_in({python!r}, {address!r})
"""


def stand_in(python: str, address: str) -> None:
    """Has a fork of the zygote at `address` do what this process was started for, else `python` itself."""
    words = sys.argv[2:] if sys.argv[1:2] == ["-m"] else []
    status = hand_over(words, address) if words else None
    if status is None:
        os.execv(python, [python, *sys.argv[1:]])
    os._exit(status)


def hand_over(words: Sequence[str], address: str) -> int | None:
    """The exit status of a fork that ran `python -m` with these words, this environment, stdin and outputs.

    None where there is nobody to hand it to: the process goes on by itself.
    """
    if words[0] not in SERVED:
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
