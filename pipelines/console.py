"""What a long command says while it works: a live line on a terminal, plain lines otherwise."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Say = Callable[[str], None]


@contextmanager
def progress(what: str) -> Iterator[Say]:
    """A function that shows how far `what` has come: in place on a terminal, else a line each, on stderr."""
    if not sys.stderr.isatty():
        yield lambda text: print(f"{what}: {text}", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(what) as status:
        yield lambda text: status.update(f"{what}: {escape(text)}")


def log_to_stderr(debug: bool) -> None:
    """Sends the program's own log lines to stderr, one plain line each."""
    logger = logging.getLogger("hwmark")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug else logging.INFO)
