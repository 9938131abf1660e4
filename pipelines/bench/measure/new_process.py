"""Something done in a new process, so that nothing of it is warm and its CPU time can be told apart."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

P = ParamSpec("P")
T = TypeVar("T")


def in_a_new_process(do: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """What `do` returns. Raises RuntimeError where the process ends by itself."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, do, args, named))
    process.start()
    theirs.close()
    try:
        found: T = ours.recv()
    except EOFError:
        raise RuntimeError(f"{getattr(do, '__qualname__', do)} in a process of its own ended by itself") from None
    finally:
        process.join()
    return found


def _send(pipe: Connection, do: Callable[..., object], args: tuple[object, ...], named: dict[str, object]) -> None:
    pipe.send(do(*args, **named))
