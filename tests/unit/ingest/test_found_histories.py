"""Histories of a folder that were found to tell lines twice, or never: last lines, excerpts and copies of one log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.ingest.test_directory import Directory

Steps = list[Callable[[Directory], None]]


def _write(count: int) -> Callable[[Directory], None]:
    return lambda one: one.write(count, 0)


def _last(count: int) -> Callable[[Directory], None]:
    return lambda one: one.give_last_lines(count)


def _number_upwards(one: Directory) -> None:
    one.begin(rising=True)


def _set_clock_back(one: Directory) -> None:
    one.write(1, 3_600_000)


def _call(what: str) -> Callable[[Directory], None]:
    return lambda one: one.call(what, 0)


def _poll(limit: int, reads: int) -> Callable[[Directory], None]:
    return lambda one: one.poll(limit, reads)


def _poll_while(at: int, limit: int, *steps: str) -> Callable[[Directory], None]:
    return lambda one: one.poll_while(limit, at, steps)


def _number_upwards_on_a_coarse_clock(one: Directory) -> None:
    one.begin(rising=True, coarse=True)


def _rotate(one: Directory) -> None:
    one.rotate(truncate=False)


def _copy(one: Directory) -> None:
    one.rotate(truncate=True)


def _delete(one: Directory) -> None:
    one.delete(0)


def _excerpt(one: Directory) -> None:
    one.take_excerpt(2)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [_write(5), _last(2), _call("here"), _write(1), _poll(50, 1)],
            id="a reader stops between the last lines told and the end of a file that has older ones",
        ),
        pytest.param(
            [_write(3), _last(2), _call("here"), _write(1), _poll(1 << 20, 1)],
            id="a reader stops at the end of such a file, before it has seen that it is the end",
        ),
        pytest.param(
            [_write(6), _last(2), _write(1), _rotate, _call("here"), _poll(1 << 20, 1)],
            id="a reader stops at the end of such a file, which was rotated",
        ),
        pytest.param(
            [_write(1), _rotate, _write(3), _last(2), _excerpt, _call("here"), _write(1), _poll(50, 1)],
            id="a reader stops there, with an excerpt and a rotated file beside",
        ),
        pytest.param(
            [_write(1), _rotate, _write(3), _last(2), _call("one"), _write(1), _poll(300, 1000)],
            id="a file that was not named has older lines, and new ones behind the last line told",
        ),
        pytest.param(
            [_write(3), _last(2), _write(1), _rotate, _call("live"), _poll(1 << 20, 3)],
            id="the file that a named log was rotated to has older lines and new ones",
        ),
        pytest.param(
            [_write(1), Directory.copy_live, _write(6), _last(1), _excerpt],
            id="a line told before others stands behind the last line told",
        ),
        pytest.param(
            [_write(17), _last(2), _call("here"), Directory.copy_live, _poll(300, 3)],
            id="a reader of older lines stops in a piece behind which are lines that others told",
        ),
        pytest.param(
            [_write(6), _last(1), _last(3), Directory.mirror],
            id="the last line told is followed by lines that were told before it",
        ),
        pytest.param(
            [
                *(_call("both"), _write(1), Directory.mirror, _poll(1 << 20, 3), _write(1), _poll(50, 1)),
                *(_write(1), _poll(300, 1000), _rotate, _set_clock_back, _poll(300, 1000), _write(1), _poll(50, 1000)),
            ],
            id="a log that is followed by a reader of older lines comes after the file with the last line told",
        ),
        pytest.param(
            [_number_upwards, _write(1), _rotate, _write(1), _rotate, lambda one: one.write_torn(14)],
            id="the live file begins with the moment with which the last rotated one does",
        ),
        pytest.param(
            [
                *(_write(3), _last(2), _call("here"), _write(3), _poll(1 << 20, 1), Directory.restart),
                *(Directory.wait, _poll(50, 1), _write(1), _poll(1 << 20, 1000)),
            ],
            id="a file with older lines grew since the folder was listed",
        ),
        pytest.param(
            [_write(1), _poll(50, 1), _write(1), _rotate, lambda one: one.write_torn(26), _delete],
            id="a torn line is all there is when the file with the last line told is gone",
        ),
        pytest.param(
            [_write(2), _set_clock_back, _write(13), _last(9), _call("both"), _write(1), _poll(300, 1000), _write(1)],
            id="a log with a clock set back has lines before and after its last lines, which a copy has",
        ),
        pytest.param(
            [_write(5), _last(2), Directory.mirror, _poll(50, 1), _last(2), _write(1)],
            id="a copy is cut to its last lines where a reader of older ones has read a part",
        ),
        pytest.param(
            [_write(6), _last(2), _call("here"), lambda one: one.poll(1 << 20, 3, short=True), _write(1)],
            id="reads give less than there is",
        ),
        pytest.param(
            [_write(1), Directory.mirror, _rotate, _delete, _write(1), _rotate],
            id="a mirror has the log as it was before the last rotated file, and the live file is empty",
        ),
        pytest.param(
            [
                *(_write(5), _call("both"), Directory.mirror, _poll(300, 1000), _write(2), _poll(1 << 20, 3)),
                *(Directory.replace_live, _poll(300, 1), _write(1)),
            ],
            id="a log is replaced that ends with the last lines of a reader of older ones",
        ),
        pytest.param(
            [_number_upwards_on_a_coarse_clock, _write(4), Directory.mirror, _copy, _write(4), _rotate],
            id="a mirror has the log as it was before two rotated files, and the live file has no time",
        ),
        pytest.param(
            [_write(7), Directory.copy_live, _last(5), Directory.mirror, _write(3), _last(9)],
            id="last lines begin with a line with which older ones end, and go on with lines told before those",
        ),
        pytest.param(
            [
                *(_number_upwards_on_a_coarse_clock, _write(4), _copy, _write(4), Directory.mirror, _delete),
                *(_poll(1 << 20, 1000), _rotate, _write(4)),
            ],
            id="a mirror has an older file under the name that the log has by now, of which it has a copy",
        ),
        pytest.param(
            [
                *(_number_upwards_on_a_coarse_clock, _poll_while(12, 1 << 20, "write")),
                *(_poll_while(3, 50, "copy", "write"), _poll_while(2, 1 << 20, "move", "write")),
                *(_poll_while(2, 50, "copy", "write"), _poll_while(12, 50, "move", "write", "copy", "write")),
                *(_poll_while(3, 1 << 20, "copy", "write"), _poll_while(10, 50, "move", "write")),
            ],
            id="files are rotated by copy and by move within a tick of the clock, so that times say nothing",
        ),
        pytest.param(
            [
                _poll_while(0, 1 << 20, "move", "write", "copy", "write"),
                *(_poll_while(6, 50, "write"), _last(3), _last(5)),
            ],
            id="last lines begin with the line before a hole, and go on with one of those that were missing",
        ),
        pytest.param(
            [_write(5), _last(1), _call("both"), _poll(50, 1000)],
            id="a reader of older lines comes upon a line that was told alone, behind some that it told itself",
        ),
        pytest.param(
            [
                *(
                    _poll_while(5, 1 << 20, "move", "write"),
                    lambda one: one.take_excerpt(3),
                    _poll_while(5, 50, "move", "write", "copy", "write"),
                ),
                *(_rotate, lambda one: one.leave_zeros(385), Directory.mirror, _last(7)),
                *(_poll_while(12, 50, "move", "write", "copy", "write"), _last(1)),
            ],
            id="a line that was told alone is told again in a new epoch, in which another file comes first",
        ),
    ],
)
def test_lines_are_told_once(steps: Steps) -> None:
    one = Directory()
    for step in steps:
        step(one)
    one.teardown()
