"""Counts over minutes as a line of steps: a minute is an interval, and where nothing is known there is no line."""

from __future__ import annotations

from collections.abc import Sequence


def step_path(values: Sequence[float | None], top: float, height: float = 28) -> str:
    """Return path data of SVG, one unit wide for each value, with `top` one unit below the upper edge."""
    found, before = [], None
    for place, value in enumerate(values):
        if value is not None:
            y = f"{height - 1 - (height - 2) * value / max(top, 1):.1f}"
            found.append(f"{f'M{place} {y}' if before is None else f'V{y}'}H{place + 1}")
        before = value
    return "".join(found)
