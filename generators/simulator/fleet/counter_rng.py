"""Random numbers by count: draw `number` of a key is always the same, whoever draws it and when.

So a run depends neither on the order in which partitions are processed nor on how time is cut into windows. Only whole
numbers and the four basic operations are used, which every machine computes alike.
"""

from __future__ import annotations

import math

import numpy as np

from generators.simulator.fleet.compiled import kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_LN2 = 0.6931471805599453


@kernel
def mixed(key: int, number: int) -> np.uint64:
    """64 bits (SplitMix64, Steele and others 2014)."""
    z = np.uint64(key) + np.uint64(number) * _STEP
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


def key(*numbers: int) -> int:
    """A key of its own for each row of numbers, as a signed 64-bit number."""
    made = 0
    for number in numbers:
        made = int(mixed(made >> 1, number))
    return made - (1 << 64) if made >> 63 else made


@kernel
def share(key: int, number: int) -> float:
    """Evenly from 0 to below 1."""
    return float(mixed(key, number) >> _11) * 2.0**-53


@kernel
def between(key: int, number: int, low: int, high: int) -> int:
    """A whole number from `low` to below `high`, or `low` where there is none."""
    return low + int(share(key, number) * (high - low))


@kernel
def exponential(key: int, number: int) -> float:
    """A waiting time with mean 1."""
    return -logarithm(1.0 - share(key, number))


@kernel
def logarithm(value: float) -> float:
    """ln(x), by the series of the inverse hyperbolic tangent: libraries differ in the last bit, this does not."""
    part, exponent = math.frexp(value)
    if part < 0.7071067811865476:
        part *= 2.0
        exponent -= 1
    s = (part - 1.0) / (part + 1.0)
    square, power, total = s * s, s, 0.0
    for k in range(1, 22, 2):
        total += power / k
        power *= square
    return exponent * _LN2 + 2.0 * total
