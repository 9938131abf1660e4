"""Runbooks: a page for each alert rule and for the watchdog, which travels with the program."""

from __future__ import annotations

import sys
from pathlib import Path

WATCHDOG = "HwmarkWatchdog"
"""The alert that always fires."""

_CHECKOUT = Path(__file__).parents[2] / "docs" / "runbooks"
_INSTALLED = Path(sys.prefix) / "share" / "hwmark" / "runbooks"


def default_folder() -> str:
    """The folder of the runbooks on this host: in the checkout, else where the wheel put them."""
    return str(_CHECKOUT if _CHECKOUT.is_dir() else _INSTALLED)


def runbook(folder: str, name: str) -> str:
    """The runbook of a rule, or of WATCHDOG, below a folder or URL."""
    return f"{folder.rstrip('/')}/{name}.md"
