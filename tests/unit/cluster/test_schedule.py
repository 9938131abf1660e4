"""Ticks on a fixed grid: no drift, no pile-up."""

import threading

from generators.cluster.watch import Schedule


class Clock:
    """A monotonic clock that waits by going on; `work` are the seconds that each round takes."""

    def __init__(self, work):
        self.now, self.work, self.stop, self.at = 100.0, list(work), threading.Event(), []

    def wait(self, seconds):
        self.now += seconds
        return False

    def run(self, interval):
        skipped = []
        for ticks in Schedule(interval, self.stop, lambda: self.now, self.wait).ticks():
            self.at.append(self.now - 100)
            skipped.append(ticks)
            self.now += self.work.pop(0)
            if not self.work:
                self.stop.set()
        return skipped


def test_rounds_that_take_time_do_not_shift_the_grid():
    clock = Clock([1, 4.9, 0, 2])
    assert clock.run(5) == [0, 0, 0, 0]
    assert clock.at == [0, 5, 10, 15]


def test_a_slow_round_skips_ticks_and_says_how_many():
    clock = Clock([12, 1, 5.5, 0])
    assert clock.run(5) == [0, 1, 0, 0]
    assert clock.at == [0, 12, 15, 20.5]
