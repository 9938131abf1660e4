"""numba's `njit` for functions that keep their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """The function compiled at its first call, and kept for the next process."""
    return cast(_Function, njit(cache=True)(function))
