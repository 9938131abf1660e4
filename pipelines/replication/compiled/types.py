"""The types of arrays that compiled functions take, what stands for null in them, and times in microseconds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

NULL = -(1 << 62)
"""Stands for null in 64-bit columns; no offset or time comes near it."""
NULL32 = -(1 << 31)
NEVER = 1 << 62
"""A time that does not come: a deadline without end, or no bound."""
MS, SECOND_US, MINUTE_US = 1_000, 1_000_000, 60_000_000
"""Microseconds."""
LOW = (1 << 32) - 1
"""The lower half of 64 bits: of keys that are two numbers of 32 bits."""
MOST_REPLICAS = 32
"""The most replicas that a partition may have at one time: sets of them are bit masks."""

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int8]
