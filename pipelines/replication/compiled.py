"""Functions that numba compiles, with the types that mypy knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compiled when first called, kept beside the source."""
    made: Function = njit(cache=True, nogil=True)(function)
    return made


def kernel(function: Function) -> Function:
    """Compiled for what runs at every row: it makes no array, so numba need not count references.

    Counting them cost five sixths of a run: a call hands over a dozen arrays.
    """
    made: Function = njit(cache=True, nogil=True, _nrt=False)(function)
    return made
