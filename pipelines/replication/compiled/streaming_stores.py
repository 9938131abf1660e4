"""Cache lines written whole, past the cache.

A store to a line that is not in the cache brings it there first, only to overwrite it: where lines are written whole
and in no order, that is most of what writing costs. A non-temporal store goes to memory as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pipelines.replication.compiled.records import CACHE_LINE


def _write_line(typing: Any, lines: Any, at: Any, numbers: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number, whole = ir.IntType(64), ir.VectorType(ir.IntType(64), CACHE_LINE)
        first = builder.mul(values[1], number(CACHE_LINE))
        to = builder.gep(context.make_array(lines)(context, builder, values[0]).data, [first])
        line = ir.Constant(whole, ir.Undefined)
        for k, value in enumerate(cgutils.unpack_tuple(builder, values[2])):
            line = builder.insert_element(line, value, ir.IntType(32)(k))
        stored = builder.store(line, builder.bitcast(to, whole.as_pointer()), align=8 * CACHE_LINE)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.void(lines, types.int64, types.UniTuple(types.int64, CACHE_LINE)), generate


write_line: Callable[..., None] = intrinsic(_write_line)
"""write_line(lines, at, the eight numbers of the line): `lines` as `records.lines` makes them, which begin where cache
lines do, and `at` not below 0."""
