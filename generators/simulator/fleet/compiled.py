"""Kernels of the fleet, cached under a digest of their own sources: an edit here recompiles nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
from numba import config, njit

import pipelines.replication.compiled.decorators  # noqa: F401 - sets where compiled code is cached
from generators.simulator.cluster import rules, settings

Function = TypeVar("Function", bound=Callable[..., Any])
I64 = np.ndarray[Any, np.dtype[np.int64]]
I32 = np.ndarray[Any, np.dtype[np.int32]]
I8 = np.ndarray[Any, np.dtype[np.int8]]
F64 = np.ndarray[Any, np.dtype[np.float64]]


def digest(sources: Iterable[Path]) -> str:
    """Digest of the compiled sources and of those that they depend on."""
    made = blake2b(digest_size=8)
    for source in sources:
        made.update(source.read_bytes())
    return made.hexdigest()


_HERE = Path(__file__).parent
SOURCES = (Path(rules.__file__), Path(settings.__file__), *sorted(_HERE.glob("*.py")))
_CACHE = str(Path(config.CACHE_DIR).parent / f"fleet-{digest(SOURCES)}")
"""Beside that of the reconstruction's kernels."""


def kernel(function: Function) -> Function:
    """Compiled when first called, without reference counts: it makes no array.

    Inlined into what calls it: handing over two dozen arrays at every call costs as much as all the rest.
    """
    before, config.CACHE_DIR = config.CACHE_DIR, _CACHE
    try:
        made: Function = njit(cache=True, nogil=True, _nrt=False, forceinline=True)(function)
    finally:
        config.CACHE_DIR = before
    return made


def rule(function: Function) -> Function:
    """A rule of the simulator, compiled as it stands; the rules that it calls are compiled with it."""
    module = import_module(function.__module__)
    called = {
        name: rule(f)
        for name in function.__code__.co_names
        if isinstance(f := getattr(module, name, None), FunctionType)
    }
    made = FunctionType(function.__code__, {**module.__dict__, **called}, function.__name__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return kernel(cast("Function", made))
