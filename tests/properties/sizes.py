"""How many lakes are drawn: a fixed few in every run, more at random, and LAKES of them in `make test-properties`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

LAKES = int(os.environ.get("LAKES", "0"))
PARTS = 2
"""The draws are several tests, which run side by side."""
_FAST = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}

fixed = settings(max_examples=60, derandomize=True, phases=[Phase.explicit, Phase.generate, Phase.shrink], **_FAST)
sampled = settings(max_examples=max(1, LAKES // PARTS), print_blob=True, **_FAST)
