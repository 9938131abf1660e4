"""Long work says what it is at, again and again; short work says no more than it was asked to."""

import io
import sys
import threading

import pytest

from pipelines.commands import progress
from pipelines.commands.progress import steps, working


@pytest.fixture
def said(monkeypatch):
    """Lines said without a terminal, and an event that is set with the first that repeats a step."""
    lines, repeated = [], threading.Event()

    def say(text):
        lines.append(text)
        if text.startswith("step: "):
            repeated.set()

    monkeypatch.setattr(progress, "progress", lambda what: _Given(say))
    return lines, repeated


class _Given:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        return self.value

    def __exit__(self, *_):
        return None


def test_work_without_a_word_says_again_what_it_is_at(said):
    lines, repeated = said
    with working("run", every_s=0.01) as step:
        step("step")
        assert repeated.wait(timeout=60)
    assert "step" in lines
    assert all(line.endswith(" s so far") for line in lines if line != "step")


def test_steps_that_need_no_line_are_named_once_the_work_is_long(said):
    lines, repeated = said
    with working("check", each=False, every_s=0.01) as step:
        step("step")
        assert repeated.wait(timeout=60)
    assert "step" not in lines


@pytest.mark.parametrize(("each", "lines"), [(True, ["one", "two"]), (False, [])])
def test_short_work_says_its_steps_or_nothing(said, each, lines):
    with working("check", each=each, every_s=3600) as step:
        step("one")
        step("two")
    assert said[0] == lines


def test_nothing_goes_on_after_the_work(said):
    with working("run", every_s=0.01):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


def test_work_that_prints_its_own_lines_names_its_step_once_it_is_long(said, capsys):
    lines, repeated = said
    with steps("maintain", 2) as step:
        step("one")
        print("one is done")
    assert lines == []
    with working("maintain", each=False, every_s=0.01) as step:
        step("step")
        assert repeated.wait(timeout=60)
    assert capsys.readouterr().out == "one is done\n"


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_there_is_a_bar_and_what_is_printed_goes_where_it_went(monkeypatch, capsys):
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with steps("maintain", 4) as step:
        step("silver/[partition_hw]")
        print("done")
    assert "maintain" in terminal.getvalue()
    assert "━" in terminal.getvalue()
    assert "silver/[partition_hw]" in terminal.getvalue()
    assert capsys.readouterr().out == "done\n"
