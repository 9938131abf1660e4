"""The types of arrays that compiled functions take, and what stands for null in them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

NULL = -(1 << 62)
"""Stands for null in 64-bit columns; no offset or time comes near it."""
NULL32 = -(1 << 31)
NEVER = 1 << 62
"""A deadline that does not come."""
MS = 1000
"""Microseconds."""

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int8]
Array = TypeVar("Array", bound=npt.NDArray[Any])


def read_only(array: Array) -> Array:
    """The array, read-only as Arrow's buffers are: one type of array means one compiled kernel."""
    array.flags.writeable = False
    return array
