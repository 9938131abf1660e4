"""The file mode creation mask (umask) of this process, which its children and Spark's inherit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def umask() -> int:
    """The present mask, which can only be read by setting it; meanwhile it is the strictest."""
    now = os.umask(0o077)
    os.umask(now)
    return now


@contextmanager
def umask_restored() -> Iterator[None]:
    """Restore the mask at the end of the block."""
    before = umask()
    try:
        yield
    finally:
        os.umask(before)
