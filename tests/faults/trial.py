"""One fault: the command that meets it, the going on, and the verdict on the tables in the end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.points import Injection
from tests.faults.preload import Call, injecting, left_over, noted, recording
from tests.faults.rows import Rows, difference, tables
from tests.faults.stages import HANGS_S, STAGES, Ended, Stage, command, copy, write_logs
from tests.faults.warm import warm

HELD, CLEAR, UNCLEAR, LOST, DOUBLED, WRONG = "held", "clear error", "unclear error", "lost", "doubled", "silently wrong"
NOT_REACHED = "not reached"
VERDICTS = (HELD, CLEAR, UNCLEAR, LOST, DOUBLED, WRONG, NOT_REACHED)
SOUND = {HELD, CLEAR, NOT_REACHED}
ENDS_S = 60.0
"""So long a process may outlive the command that started it."""

_WORDS = {"EIO": "input/output error", "ENOSPC": "no space left on device"}
_TRACE = re.compile(r"Traceback|^\s+at |Exception in thread|panicked at", re.MULTILINE)
_FOREIGN = re.compile(r"\b(java|org|io|scala|py4j)(\.\w+){2}|Error:|--debug")


@dataclass(frozen=True)
class Outcome:
    """What came of one fault, and why that is so in words."""

    injection: Injection
    verdict: str
    why: str = ""


@dataclass
class Prepared:
    """Per stage: the lake as its command finds it, that command's calls, and the tables when nothing goes wrong."""

    library: Path
    folder: Path
    lakes: dict[str, Path] = field(default_factory=dict)
    calls: dict[str, list[Call]] = field(default_factory=dict)
    expected: dict[str, Rows] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    unseen: dict[str, list[str]] = field(default_factory=dict)
    """Files that the command changed by other calls than were noted."""

    @property
    def logs(self) -> Path:
        return self.folder / "logs"


def prepare(library: Path, folder: Path, wanted: Callable[[Stage], bool] = lambda stage: True) -> Prepared:
    """Lives through all stages undisturbed; how those that are `wanted` go on is known afterwards."""
    prepared, live = Prepared(library, folder), folder / "live"
    write_logs(prepared.logs)
    for number, stage in enumerate(STAGES):
        if stage.dispensable and not wanted(stage):
            continue
        before, log = folder / f"lake-{number}", folder / f"{number}.calls"
        copy(live, before)
        prepared.lakes[stage.name], began, was = before, time.monotonic(), _files(live)
        _well(stage.words, live, prepared, recording(library, live, log) | stage.settings)
        prepared.calls[stage.name], prepared.seconds[stage.name] = noted(log), time.monotonic() - began
        changed = {path for path, _ in was.items() ^ _files(live).items()}
        prepared.unseen[stage.name] = sorted(changed - {call.path for call in prepared.calls[stage.name]})
        if stage.on and wanted(stage):
            after = folder / f"after-{number}"
            copy(live, after)
            for words in stage.on:
                _well(words, after, prepared, stage.settings)
            prepared.expected[stage.name] = tables(after)
            shutil.rmtree(after)
    return prepared


def _files(lake: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the last change of every file."""
    found = ((path, path.stat()) for path in lake.rglob("*") if path.is_file())
    return {str(path.relative_to(lake)): (stat.st_size, stat.st_mtime_ns) for path, stat in found}


def _well(words: tuple[str, ...], lake: Path, prepared: Prepared, settings: Mapping[str, str]) -> None:
    ended = command(words, lake, prepared.logs, prepared.folder / "said", settings, 10 * HANGS_S)
    assert ended.status == 0, f"{' '.join(words)}: {ended}"


def tried(injection: Injection, prepared: Prepared, folder: Path) -> Outcome:
    """Injects one fault into a copy of the lake, goes on and compares; `folder` is empty, and gone if all is sound."""
    stage, lake = next(s for s in STAGES if s.name == injection.stage), folder / "lake"
    copy(prepared.lakes[stage.name], lake)
    calls = folder / "calls"
    settings = dict(stage.settings) | {"HWMARK_RUN__LOG_FILE": str(folder / "spark.log")}
    faulty = injecting(prepared.library, lake, calls, injection.point, injection.number, injection.fault)
    # On a machine that does other work too everything takes its time.
    limit = max(HANGS_S, 5 * prepared.seconds[stage.name])
    try:
        ended = command(stage.words, lake, prepared.logs, folder / "said", settings | faulty, limit)
        further = [_gone_on(words, lake, prepared.logs, folder / "said-on", settings, limit) for words in stage.on]
        reached = any(call.here for call in noted(calls))
        outcome = _judged(injection, ended, further, lake, prepared.expected[stage.name], reached)
    finally:
        stayed = _end(faulty)
    if stayed:
        outcome = Outcome(injection, WRONG, f"{stayed} processes do not end with the command")
    if outcome.verdict in SOUND:
        shutil.rmtree(folder)
    return outcome


def _gone_on(
    words: tuple[str, ...], lake: Path, logs: Path, log: Path, settings: Mapping[str, str], limit: float
) -> Ended:
    """In a process that is there already; what does not end well there is tried once more as a user would."""
    ended = warm()(words, lake, logs, log, settings, limit)
    return ended if ended.status == 0 else command(words, lake, logs, log, settings, limit)


def _judged(
    injection: Injection, ended: Ended, further: list[Ended], lake: Path, expected: Rows, reached: bool
) -> Outcome:
    if ended.status is None:
        return Outcome(injection, WRONG, f"hangs: {ended.said[-300:]}")
    for later in further:
        if later.status != 0:
            return Outcome(injection, WRONG, f"after {ended} goes on with {later}")
    try:
        lost, doubled, foreign = difference(tables(lake), expected)
    except Exception as unreadable:  # a table that cannot be opened is a finding, whatever it says
        return Outcome(injection, WRONG, f"cannot be read: {unreadable}")
    counts = f"{lost} rows lost, {doubled} doubled, {foreign} foreign; {ended}"
    if lost or doubled or foreign:
        return Outcome(injection, LOST if lost and not foreign else DOUBLED if not foreign else WRONG, counts)
    if not reached:
        return Outcome(injection, NOT_REACHED if ended.status == 0 else WRONG, f"not reached, {ended}")
    if ended.status == 0:
        return Outcome(injection, HELD)
    return Outcome(injection, CLEAR if is_clear(ended, injection.fault, str(lake)) else UNCLEAR, str(ended))


def is_clear(ended: Ended, fault: str, lake: str) -> bool:
    """Whether a command was killed itself, or said in one line of its own words what failed, and where."""
    if ended.status == -signal.SIGKILL:
        return True
    found = [line for line in ended.said.splitlines() if line.startswith("hwmark: ")]
    if len(found) != 1 or ended.said.splitlines()[-1] != found[0] or _TRACE.search(ended.said):
        return False
    named = _WORDS.get(fault, "killed") in found[0].lower()
    return named and lake in found[0] and not _FOREIGN.search(found[0])


def _end(environment: Mapping[str, str]) -> int:
    """Waits for what the command has started, and ends what does not end by itself; how many those are."""
    deadline = time.monotonic() + ENDS_S
    while (left := left_over(environment)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for process in left:
        os.kill(process, signal.SIGKILL)
    return len(left)
