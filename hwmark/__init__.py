"""The public names of hwmark: `from hwmark import Reconstructor, Rules, replay`.

The packages `pipelines`, `schemas` and `generators` have common names. The command puts the folder that hwmark is
installed in first on its path and on that of the processes that it starts; a program that imports hwmark keeps its
path, and is refused where it would get packages of others.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.replication import Facts, Reconstructor, Rules, replay

__all__ = ["Facts", "Reconstructor", "Rules", "replay"]

_FOLDER = Path(__file__).resolve().parents[1]


def _refuse_other_packages() -> None:
    """Raise ImportError where `pipelines`, `schemas` or `generators` is not the one beside this package."""
    for name in ("pipelines", "schemas", "generators"):
        found = find_spec(name)
        place = Path(next(iter(found.submodule_search_locations or [found.origin or ""]))).resolve() if found else None
        if place != _FOLDER / name:
            raise ImportError(
                f"hwmark needs its own package {name!r} in {_FOLDER}, and this program finds "
                f"{place or 'none'}: put {_FOLDER} before it on the path, or rename yours"
            )


def _is_command() -> bool:
    """Return True if this process runs the command: `hwmark` or `python -m hwmark`."""
    program = (sys.argv or [""])[0]  # "-m" while Python looks for the module that it is to run
    return "hwmark" in sys.orig_argv if program == "-m" else Path(program).stem == "hwmark"


if not _is_command():  # which puts its own folder first before it imports any of them
    _refuse_other_packages()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hwmark' has no attribute {name!r}")
    import pipelines.replication

    return getattr(pipelines.replication, name)
