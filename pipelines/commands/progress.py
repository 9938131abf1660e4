"""Progress of a long command: a live line on a terminal, plain lines otherwise."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import typer

from pipelines.commands.log import is_json, shows, write_line
from pipelines.printable import printable, printable_lines

if TYPE_CHECKING:
    from pipelines.alerting.state import AlertState
    from pipelines.streaming.follow import Batch, InFlight, RunSummary


class Say(Protocol):
    """Takes a line, and fields of its own for lines in JSON."""

    def __call__(self, text: str, /, **fields: Any) -> None: ...


HEARTBEAT_S = 10.0
"""After so many seconds without a word long work says what it is at."""


def echo(text: str) -> None:
    """Print text of any number of lines; names in it that others chose can do nothing to a terminal."""
    typer.echo(printable_lines(text))


def terminal_width() -> int | None:
    """Columns of the terminal that is printed to; None where it is none, and lines may be as long as they like."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fitted(line: str) -> str:
    """An aligned line folded for the terminal: what does not fit goes on below its last column."""
    width = terminal_width()
    if width is None or len(line) <= width:
        return line
    last = line.rfind("  ", 0, width * 2 // 3) + 2
    below = " " * max(last, 4)
    return (
        textwrap.fill(line[last:], width, initial_indent=line[:last], subsequent_indent=below)
        if last > 1
        else (textwrap.fill(line, width, subsequent_indent=below))
    )


@contextmanager
def progress(what: str) -> Iterator[Say]:
    """A function that shows how far `what` has come: in place on a terminal, else a line each, on stderr."""
    if not _is_live():
        yield partial(write_line, what)
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(what) as status:
        yield lambda text, /, **_: status.update(f"{what}: {escape(printable(text))}")


def _is_live() -> bool:
    """Whether a line of the terminal may show how far work is, in place."""
    return sys.stderr.isatty() and not is_json() and shows(logging.INFO)


@contextmanager
def working(what: str, *, each: bool = True, every_s: float = HEARTBEAT_S) -> Iterator[Say]:
    """As `progress`, of work that ends: after `every_s` seconds without a word it says again what it is at.

    `each`: every step is a line of its own also where there is no terminal; else steps are named only then.
    """
    began = said = time.monotonic()
    at, done = "starting", threading.Event()

    with progress(what) as say:

        def step(text: str, /, **fields: Any) -> None:
            nonlocal at, said
            at = text
            if each or _is_live():
                said = time.monotonic()
                say(text, **fields)

        def again() -> None:
            nonlocal said
            while not done.wait(max(0.0, said + every_s - time.monotonic())):
                if time.monotonic() - said >= every_s:
                    said = time.monotonic()
                    say(f"{at}: {said - began:.0f} s so far")

        thread = threading.Thread(target=again, name="progress", daemon=True)
        thread.start()
        try:
            yield step
        finally:
            done.set()
            thread.join()


@contextmanager
def steps(what: str, total: int | None = None) -> Iterator[Say]:
    """As `working`, of work that prints lines of its own: a bar on a terminal, of `total` steps where that is known.

    What is said is the step that begins; without a terminal it is named where the work is long.
    """
    if not _is_live():
        with working(what, each=False) as say:
            yield say
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    # What goes to stdout passes by the bar only where both are the one terminal.
    shared = sys.stdout.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=shared) as bar:
        task, begun = bar.add_task(what, total=total), 0

        def step(text: str, /, **_: Any) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=f"{what}: {escape(printable(text))}")
            begun += 1

        yield step


@contextmanager
def libraries_silent() -> Iterator[None]:
    """Hide what libraries print to stderr past Python, as Rust does when a thread panics, unless --debug is set.

    Their caller still gets an error and reports it in one line.
    """
    if logging.getLogger("hwmark").isEnabledFor(logging.DEBUG):
        yield
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def batch_line(batch: Batch) -> str:
    """One finished micro-batch: its size, its rate, and how far behind bronze the job then was."""
    commits = _counted(batch.versions_behind, "commit")
    behind = f"{commits} of bronze behind" if batch.versions_behind else "level with bronze"
    events = _counted(batch.events, "event")
    return f"batch {batch.batch_id}: {events}, {batch.events_per_second:,.0f} events/s, {behind}"


def slow_line(batch: InFlight) -> str:
    """The progress of a batch that takes many times its interval: its events, its duration and its present step."""
    events = "" if batch.events is None else f" of {batch.events:,} events"
    tasks = f"; {batch.tasks_done} of {batch.tasks} tasks of stage {batch.stage} done" if batch.tasks else ""
    return f"batch {batch.batch_id}{events} takes {batch.seconds:.0f} s so far: {batch.message}{tasks}"


def run_line(summary: RunSummary) -> str:
    """The last line of a run: its events, batches and seconds."""
    if not summary.batches and not summary.stopped:
        return "nothing new: all of bronze is reconstructed"
    end = ", stopped on request" if summary.stopped else ""
    batches = "1 batch" if summary.batches == 1 else f"{summary.batches} batches"
    return f"{_counted(summary.events, 'event')} in {batches}, {summary.seconds:.0f} s{end}"


def _counted(number: int, of: str) -> str:
    return f"{number:,} {of}{'s' * (number != 1)}"


def alert_line(state: AlertState) -> str:
    """One alert."""
    from pipelines.alerting.messages import status

    return printable(f"{status(state)} {state.severity} {state.rule}: {state.summary}")
