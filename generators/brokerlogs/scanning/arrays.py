"""Arrays and the decorator of what is compiled here."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.replication.compiled.decorators import compiled

__all__ = ["Array", "compiled"]

Array = np.ndarray[Any, Any]
