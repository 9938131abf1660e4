"""The file mode creation mask of this process, which its children, Spark's among them, inherit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def umask() -> int:
    """The mask in force. It can only be read by setting it: meanwhile nothing is open to others."""
    now = os.umask(0o077)
    os.umask(now)
    return now


@contextmanager
def umask_restored() -> Iterator[None]:
    """Whatever is set inside, the mask is afterwards what it was."""
    before = umask()
    try:
        yield
    finally:
        os.umask(before)
