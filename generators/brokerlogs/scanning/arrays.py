"""The array type and the decorator of compiled functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.replication.compiled.decorators import compiled

__all__ = ["Array", "compiled"]

Array = np.ndarray[Any, Any]
