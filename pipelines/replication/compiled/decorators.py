"""Functions that numba compiles, with the types that mypy knows, kept under a digest of the sources they depend on.

numba itself looks at the file a function stands in, not at the constants and functions it takes from
others: after an edit elsewhere it would run what was compiled before.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator
from numba.core.registry import cpu_target
from numba.extending import intrinsic

import pipelines
from pipelines.cache import cache_dir

Function = TypeVar("Function", bound=Callable[..., Any])
_ROOT = Path(pipelines.__file__).parents[1]
_SOURCES = ("pipelines/replication", "generators/brokerlogs", "generators/disks")
_COMPILED = re.compile(rb"^@(compiled|kernel|hot|part)\b", re.MULTILINE)
_IMPORTED = re.compile(rb"^from ([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)


@cache
def _source(module: str) -> bytes:
    """The text of a module of this project, empty for others."""
    file = _ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return file.read_bytes() if file.is_file() else b""


@cache
def _imports(module: str) -> tuple[str, ...]:
    """The modules that its `from` statements may name; a module is named by itself, or as a part of its package."""
    return tuple(
        name
        for package, parts in _IMPORTED.findall(_source(module))
        for name in (package.decode(), *(f"{package.decode()}.{part}" for part in re.findall(r"\w+", parts.decode())))
    )


@cache
def digest(*modules: str) -> str:
    """A digest of these modules and of those from which compiled functions take constants and functions."""
    reached, left = set[str](), [*modules]
    while left:
        module = left.pop()
        if module not in reached and _source(module):
            reached.add(module)
            left += _imports(module) if module in modules or _COMPILED.search(_source(module)) else ()
    made = blake2b(digest_size=8)
    for module in sorted(reached):
        made.update(_source(module))
    return made.hexdigest()


def modules() -> list[str]:
    """The modules with compiled functions."""
    files = sorted(file for folder in _SOURCES for file in (_ROOT / folder).rglob("*.py"))
    return [name for name in map(_module, files) if _COMPILED.search(_source(name))]


def _module(file: Path) -> str:
    return ".".join(file.relative_to(_ROOT).with_suffix("").parts)


def kernel_cache() -> Path:
    """Return the folder that compiled kernels are put into: NUMBA_CACHE_DIR if it can be written to, else this
    user's."""
    return cache_dir("numba", os.environ.get("NUMBA_CACHE_DIR"))


def kernel_caches() -> list[Path]:
    """Return that folder, then those that are only read: NUMBA_CACHE_DIR as it is, and what an environment or image
    brings along."""
    own = kernel_cache()
    others = Path(os.environ.get("NUMBA_CACHE_DIR") or own), _ROOT / "pipelines" / "kernels"
    return [own, *(folder for folder in others if folder != own and folder.is_dir())]


def target() -> str:
    """A digest of what compiled code is for: CPU, Python and numba, by which numba finds its own."""
    parts = (cpu_target.target_context.codegen().magic_tuple(), sys.implementation.cache_tag, numba.__version__)
    return blake2b(repr(parts).encode(), digest_size=8).hexdigest()


class _SourceLocator(UserProvidedCacheLocator):  # type: ignore[misc]
    """Finds compiled functions by what their module consists of, not by where the project lies or when it was written.

    An environment that is packed on one host and unpacked on another brings them along.
    """

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        module = _module(Path(py_file))
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self._cache_path = str(kernel_cache() / f"{module}-{digest(module)}")

    def get_source_stamp(self) -> str:
        return Path(self._cache_path).name

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> Any:
        if not Path(py_file).is_relative_to(_ROOT):
            return None
        # numba's own asks first for the folder that is set for the whole process.
        return super(UserProvidedCacheLocator, cls).from_function(py_func, py_file)


class _KernelFiles(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_SourceLocator, *CompileResultCacheImpl._locator_classes)


class _FoundFiles(IndexDataCacheFile):  # type: ignore[misc]
    """A function's files in `kernel_cache()`, and, only to be read, in the others of `kernel_caches()`."""

    def load(self, key: Any) -> Any:
        found, base = super().load(key), self._index_name.removesuffix(".nbi")
        for folder in kernel_caches()[1:]:
            if found is None:
                path = folder / Path(self._cache_path).name
                found = IndexDataCacheFile(str(path), base, self._source_stamp).load(key)
        return found


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, in `kernel_cache()`; what other packages compile is kept as numba keeps it."""

    _impl_class = _KernelFiles

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _FoundFiles(self._cache_path, self._impl.filename_base, stamp)


def _with_cache(made: Any) -> Any:
    """Return the function, kept in `kernel_cache()` for the next process."""
    made._cache = _KernelCache(made.py_func)
    return made


def _of_any_value(made: Any) -> Any:
    """The function, compiled once for all constants that others call it with.

    numba compiles anew for each of them, a fifth of all that is compiled; LLVM puts the constants in anyway where a
    function becomes part of its caller.
    """
    typed = made.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        return typed(tuple(map(types.unliteral, args)), {name: types.unliteral(kind) for name, kind in kws.items()})

    made.get_call_template = get_call_template
    return made


def compiled(function: Function) -> Function:
    """Compiled when first called, kept for the next process."""
    made: Function = _of_any_value(_with_cache(njit(nogil=True)(function)))
    return made


def kernel(function: Function) -> Function:
    """Compiled for what runs at every row: it makes no array, so numba need not count references.

    Counting them cost five sixths of a run: a call hands over a dozen arrays.

    An index is best unsigned, or that of `range(len(...))`: numba asks of every other one, at each access, whether it
    counts from the end, which doubled what small loops take.
    """
    made: Function = _of_any_value(_with_cache(njit(nogil=True, _nrt=False)(function)))
    return made


def hot(function: Function) -> Function:
    """A kernel that becomes part of whoever calls it: for those that every row passes through.

    A call hands over some forty numbers that the arrays consist of, more than the registers hold: without them a
    run takes less than half the time.
    """
    made: Function = _of_any_value(_with_cache(njit(nogil=True, _nrt=False, forceinline=True)(function)))
    return made


def part(function: Function) -> Function:
    """A part of one function, which is a function of its own to be read: numba puts its statements there.

    A `hot` function is compiled by itself as well, with all that becomes part of it: where a large one has one caller,
    that doubles what compiling takes.
    """
    made: Function = _with_cache(njit(nogil=True, _nrt=False, inline="always")(function))
    return made


def _seldom(typing: Any, condition: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        bit = ir.IntType(1)
        expect = cgutils.get_or_insert_function(builder.module, ir.FunctionType(bit, [bit, bit]), "llvm.expect.i1")
        return builder.call(expect, [values[0], bit(0)])

    return types.boolean(types.boolean), generate


seldom: Callable[[bool], bool] = intrinsic(_seldom)
"""A condition that holds at few rows: what it guards is kept out of the way of the others."""


def _either(typing: Any, condition: Any, value: Any, other: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        chosen = builder.select(*values)
        chosen.set_metadata("unpredictable", builder.module.add_metadata([]))
        return chosen

    return types.int64(types.boolean, types.int64, types.int64), generate


either: Callable[[bool, int, int], int] = intrinsic(_either)
"""either(condition, value, other), both read: without a jump, for a condition that no branch predictor foresees."""
