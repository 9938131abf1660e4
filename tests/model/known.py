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
CONFIGURED = TWO._replace(terms=3, configured=(1, 2))
PRESENT = Scope(3, 3, 1, (1, 2, 3), present=True)
NO_ONE = View(0, "none")
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
        "leader epochs that go back, and no controller",
        THREE._replace(restored=True, configured=(1, 2)),
        _numbers("2022002002000200210101000112011023"),
        View(3, "none"),
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
    Kept(
        "a HW of an epoch in which its leader tells that a broker fetched",
        THREE,
        _numbers("0011010011200010100121012100120000000001"),
        View(3, "none"),
    ),
    Kept(
        "a HW of an epoch that a log cut with the power does not tell, and no controller",
        TWO._replace(terms=3),
        _numbers("00100001101200111001201"),
        View(3, "none"),
    ),
    Kept(
        "a HW of one of two epochs of which a log cut with the power tells the first",
        THREE,
        _numbers("00211201101200101100110001000000100121"),
        View(3, "none"),
    ),
    Kept("HWs under a min ISR that nobody told at level 0", TWO._replace(terms=2), _numbers("1121000101001"), NO_ONE),
    Kept(
        "a cut of what was committed before its leader resumed the epoch",
        THREE._replace(terms=3),
        _numbers("01130000012010010201001"),
    ),
    Kept(
        "a HW of a resumption whose leader does not tell its end",
        THREE._replace(terms=3),
        _numbers("0000011210110010001120001101"),
    ),
    Kept("a min ISR that was larger for a while", CONFIGURED, _numbers("0021220020010000011001")),
    Kept("a log that ends early is no whole one (b)", TWO._replace(terms=2), _numbers("0021300121001")),
    Kept("a first start before the partition was created (13)", TWO._replace(terms=2), _numbers("0020201")),
    Kept("a clean election whose start is not told (d)", TWO._replace(terms=2), _numbers("0021211001101")),
    Kept(
        "a granted shutdown that was no clean stop (6)",
        TWO._replace(terms=2),
        _numbers("000110201101"),
        View(0, starts=False),
    ),
    Kept(
        "lives that nobody told (f)",
        TWO._replace(terms=2),
        _numbers("010100201210001"),
        View(3, "none", starts=False),
    ),
    Kept(
        "the least of all starts since, and not the first (2)",
        THREE._replace(terms=2),
        _numbers("011010021100010010001"),
    ),
    Kept(
        "an old log that is elected uncleanly after another one",
        THREE._replace(restored=True, configured=(1, 2)),
        _numbers("0101100001101000001000000010001000000101"),
    ),
    Kept(
        "starts soon after an election, as a leader resumes twice",
        THREE,
        _numbers("0002000110010000000010000001"),
    ),
    Kept(
        "a leader that was down resumes an epoch that others go back to",
        THREE._replace(terms=3, restored=True, configured=(1, 2)),
        _numbers("0012122021110010100001000011200102"),
    ),
    Kept(
        "the same, and a later loss",
        THREE._replace(restored=True, configured=(1, 2)),
        _numbers("00301122101000300101000010001101011211020"),
    ),
    Kept(
        "a leader between that does not tell where it had been",
        THREE._replace(restored=True, configured=(1, 2)),
        _numbers("212111120212010102111321011001200000000000020220101000101"),
        View(0),
    ),
    Kept(
        "starts soon after an election, the second one of a later epoch",
        THREE,
        _numbers("002201100000001000100000000001"),
    ),
    Kept(
        "a restoration that only the controller tells",
        THREE._replace(restored=True, configured=(1, 2)),
        _numbers("0022000101000000000113200301"),
    ),
    Kept(
        "an old log elected uncleanly, of a broker that was away while others led",
        THREE,
        _numbers("002211000100000000101000000010001"),
    ),
    Kept(
        "the same, as it came back when the other had led",
        THREE._replace(restored=True, configured=(1, 2)),
        _numbers("00020101000000100121010110101000100010001000100211"),
    ),
    Kept(
        "an old log elected uncleanly, after a leader that never began",
        THREE._replace(restored=True, configured=(1, 2)),
        _numbers("00020100000000000110000101000001000100000000001"),
    ),
    Kept(
        "a clock at a controller that told an epoch of after a restoration alone",
        THREE._replace(restored=True, configured=(1, 2)),
        _numbers("20011132020010120011020211111021111002220101020001111310021"),
        View(3, "info"),
    ),
    Kept("a leader between that tells of its next start only", TWO, _numbers("0000110010101011010100000001")),
    Kept(
        "a follower's HW that rises where its log does not grow",
        TWO,
        _numbers("00000000001101200101011200110002"),
        NO_ONE,
    ),
    Kept(
        "a former leader's HW of a term in which it fetched (i)", TWO._replace(terms=3), _numbers("00200000112000012")
    ),
    Kept("a loss of what differs since one inside an epoch (i)", TWO, _numbers("0100110020100101011100102001")),
    Kept(
        "a HW with which a leader begins whose records differ since a loss inside an epoch",
        TWO,
        _numbers("0120000101001100001101102010100001"),
    ),
    Kept("a leader that only lagging replicas are left of (14)", PRESENT, _numbers("1000010000010000001101111")),
    Kept("a min ISR that nobody told the gate (15)", PRESENT._replace(terms=1), _numbers("10000011"), View(3, "none")),
    Kept("two followers that hang (16)", PRESENT, _numbers("01101001010001021001011")),
    Kept("a YES of the gate whose leader is fenced", PRESENT, _numbers("001220101001110101000000010101")),
]
