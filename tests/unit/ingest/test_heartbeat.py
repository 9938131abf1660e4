"""What the silence of a log means, also where the clock of the machine is set meanwhile."""

import pytest

from generators.brokerlogs.tailing.heartbeat import Heartbeat

NOW, HOURS = 1_800_000_000.0, 5 * 3600.0
ALLOWED = 5_000_000


class Clocks:
    """A wall clock and a steady one, in seconds."""

    def __init__(self) -> None:
        self.wall, self.steady = NOW, 50.0

    def on(self, seconds: float) -> None:
        self.wall, self.steady = self.wall + seconds, self.steady + seconds


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def heartbeat(clocks):
    made = Heartbeat(lambda: int(clocks.wall * 1e9), lambda: clocks.steady)
    made.on_lines(int((NOW - 0.5) * 1e6))
    return made


def test_silence_counts_up_to_now_but_for_the_delay_of_lines(clocks, heartbeat):
    clocks.on(10)
    assert heartbeat.silent
    assert heartbeat.quiet_until(ALLOWED) == int((NOW + 10 - 0.5 - 1) * 1e6)
    assert heartbeat.take_messages() == []


@pytest.mark.parametrize("jump", [HOURS, -HOURS], ids=["forward", "back"])
def test_where_the_clock_is_set_silence_means_nothing_until_lines_come(clocks, heartbeat, jump):
    clocks.on(10)
    clocks.wall += jump
    assert heartbeat.quiet_until(ALLOWED) == 0
    (word,) = heartbeat.take_messages()
    assert word.startswith(f"the clock of this machine went 18,000 s {'forward' if jump > 0 else 'back'}: ")
    clocks.on(10)
    assert (heartbeat.quiet_until(ALLOWED), heartbeat.take_messages()) == (0, [])
    heartbeat.on_lines(int((clocks.wall - 0.5) * 1e6))
    clocks.on(10)
    assert heartbeat.quiet_until(ALLOWED) == int((clocks.wall - 0.5 - 1) * 1e6)


def test_a_line_from_before_the_clock_was_set_makes_no_time_of_the_future(clocks, heartbeat):
    for jump in (HOURS, -HOURS):
        before = clocks.wall
        clocks.wall += jump
        heartbeat.on_lines(int((before - 0.5) * 1e6))
        clocks.on(10)
        assert heartbeat.quiet_until(ALLOWED) == 0


def test_a_clock_that_is_slewed_is_not_set(clocks, heartbeat):
    for _ in range(100):
        clocks.on(1)
        clocks.wall += 0.05
        assert heartbeat.quiet_until(ALLOWED) > 0
    assert heartbeat.take_messages() == []
