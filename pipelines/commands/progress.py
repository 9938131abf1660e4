"""What a long command says while it works: a live line on a terminal, plain lines otherwise."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from pipelines.printable import printable, printable_lines

if TYPE_CHECKING:
    from pipelines.alerting.state import AlertState
    from pipelines.streaming.follow import Batch, InFlight, RunSummary

Say = Callable[[str], None]


def echo(text: str, *, err: bool = False) -> None:
    """Prints text of any number of lines; names in it that others chose can do nothing to a terminal."""
    typer.echo(printable_lines(text), err=err)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


@contextmanager
def progress(what: str) -> Iterator[Say]:
    """A function that shows how far `what` has come: in place on a terminal, else a line each, on stderr."""
    if not sys.stderr.isatty():
        yield lambda text: print(f"{what}: {printable(text)}", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(what) as status:
        yield lambda text: status.update(f"{what}: {escape(printable(text))}")


def log_to_stderr(debug: bool) -> None:
    """Sends the program's own log lines to stderr, one plain line each."""
    logger = logging.getLogger("hwmark")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(_Plain("%(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)


@contextmanager
def libraries_silent() -> Iterator[None]:
    """What libraries print to stderr past Python, as Rust does where its thread gives up, is shown with --debug only.

    Their caller gets an error all the same, and says it in one line.
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
    behind = f"{batch.versions_behind} commits of bronze behind" if batch.versions_behind else "level with bronze"
    return f"batch {batch.batch_id}: {batch.events:,} events, {batch.events_per_second:,.0f} events/s, {behind}"


def slow_line(batch: InFlight) -> str:
    """How far a batch is that takes many times its interval: what it reads, for how long, at which step."""
    events = "" if batch.events is None else f" of {batch.events:,} events"
    tasks = f"; {batch.tasks_done} of {batch.tasks} tasks of stage {batch.stage} done" if batch.tasks else ""
    return f"batch {batch.batch_id}{events} takes {batch.seconds:.0f} s so far: {batch.message}{tasks}"


def run_line(summary: RunSummary) -> str:
    """What a run did."""
    end = ", stopped before the end of the data" if summary.stopped else ""
    batches = "1 batch" if summary.batches == 1 else f"{summary.batches} batches"
    return f"{summary.events:,} events in {batches}, {summary.seconds:.0f} s{end}"


def alert_line(state: AlertState) -> str:
    """One alert."""
    return printable(f"{state.state.upper()} {state.severity} {state.rule}: {state.summary}")
