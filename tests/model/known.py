"""Histories about which the rules were wrong once, each the smallest of its kind."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.compare import View
from tests.model.histories import Scope


class Kept(NamedTuple):
    """A history that the model found."""

    name: str
    scope: Scope
    numbers: tuple[int, ...]
    view: View = View()


def _numbers(digits: str) -> tuple[int, ...]:
    return tuple(map(int, digits))


TWO = Scope(2, 4, 2, (1, 2), (0, 1, 2), (0, 3, 1, 2), (0, 1, 2))
THREE = TWO._replace(brokers=3, min_isr=(1, 2, 3))
KEPT = [
    Kept("an unclean start whose winner's past is not known", Scope(2, 2), (0, 1, 0, 1)),
    Kept("a cut of what a later leader committed", Scope(2, 2), (0, 1, 2, 0, 1, 1, 0, 0, 1, 0, 1, 1)),
    Kept(
        "a resumption that is the first start told",
        TWO._replace(terms=3),
        (0, 1, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 1),
    ),
    Kept(
        "the same, and a HW that catches up",
        TWO._replace(terms=3),
        (0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 1, 0, 1, 1, 2, 1),
    ),
    Kept(
        "a cut that lies above the start",
        TWO,
        (0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 2, 0, 0, 1, 0, 0, 1),
        View(0),
    ),
    Kept(
        "a follower's HW of before a loss inside an epoch",
        TWO,
        (0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1),
    ),
    Kept(
        "a former leader's cut after an unclean election",
        TWO._replace(terms=3),
        (0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 1),
    ),
    Kept(
        "a HW of before a loss is stored later",
        TWO._replace(terms=3),
        (0, 0, 2, 1, 3, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 2, 0, 0, 1),
    ),
    Kept(
        "HWs that nobody printed where min ISR is not told",
        TWO,
        (1, 1, 2, 1, 1, 2, 0, 0, 1, 0, 2, 0, 1, 0, 0, 2, 0, 0, 0, 0, 1),
        View(3, "none"),
    ),
    Kept(
        "a log that ends early before an unclean election",
        TWO,
        (0, 0, 0, 1, 1, 3, 0, 1, 1, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1),
        View(3, "none"),
    ),
    Kept(
        "a leader alone that a follower of level 0 holds back",
        TWO._replace(terms=3),
        (0, 1, 3, 0, 0, 2, 0, 1, 2, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1),
        View(0),
    ),
    Kept(
        "a cut above the marks of a log that ends early",
        TWO._replace(terms=2),
        (0, 1, 2, 1, 0, 0, 0, 0, 1, 2, 0, 0, 1),
    ),
    Kept(
        "rows of a resumption that are gone with the power",
        THREE,
        (
            0,
            1,
            1,
            0,
            0,
            0,
            0,
            0,
            1,
            1,
            0,
            1,
            0,
            0,
            0,
            0,
            1,
            1,
            0,
            0,
            0,
            1,
            2,
            1,
            1,
            1,
            0,
            0,
            0,
            1,
            0,
            0,
            1,
            2,
            0,
            1,
            1,
            0,
            1,
            0,
            1,
            0,
            0,
            0,
            2,
            2,
            1,
            0,
            0,
            1,
        ),
    ),
    Kept(
        "a loss of an earlier epoch that is told of a later one, too",
        TWO._replace(terms=3),
        (0, 1, 3, 0, 2, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1),
    ),
    Kept(
        "the same of an unclean election at level 0",
        TWO,
        (0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1),
        View(0),
    ),
    Kept(
        "a cut of what a leader committed of which nothing is told",
        THREE._replace(terms=3),
        _numbers("0000001000111010000011113101102110001001201001"),
        View(3, "none"),
    ),
    Kept(
        "leader epochs that go back",
        THREE._replace(terms=3, restored=True, configured=(1, 2)),
        _numbers("002210002000000000001113"),
    ),
    Kept(
        "a loss at level 0 where nothing is lost",
        TWO._replace(terms=3),
        (0, 1, 2, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 2),
        View(0),
    ),
    Kept(
        "a HW of an epoch that a cut log does not tell",
        TWO,
        (0, 1, 1, 0, 0, 0, 1, 2, 0, 0, 1, 1, 0, 1, 2, 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 0, 0, 0, 1),
        View(0),
    ),
    Kept(
        "an unclean start of a replica whose cut log does not tell where it was before",
        TWO,
        (0, 1, 1, 0, 0, 0, 1, 2, 0, 0, 1, 1, 0, 1, 2, 0, 0, 0, 1, 0, 0, 1, 2, 1, 0, 0, 0, 0, 0, 1),
        View(0),
    ),
]
