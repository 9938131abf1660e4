"""The preloaded library of `inject.c`: built, put into the environment of a command, and what it noted read back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("inject.c")
SHARED = bytes(24)
"""A `struct shared` before the first call."""


@dataclass(frozen=True, order=True)
class Point:
    """Calls that are alike: of one kind of process (command, jvm, worker), on one kind of file."""

    process: str
    kind: str
    call: str

    def __str__(self) -> str:
        return f"{self.process} {self.kind} {self.call}"


@dataclass(frozen=True)
class Call:
    """One call that was noted; `path` is below the lake, `here`: it is the one that got the fault."""

    point: Point
    path: str
    here: bool = False


def compiler() -> str | None:
    """A C compiler, None where there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder: Path) -> Path:
    """The library, compiled into `folder`."""
    library = folder / "inject.so"
    words = [
        compiler() or "cc",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-O2",
        "-o",
        library,
        SOURCE,
        "-ldl",
    ]
    subprocess.run(words, check=True)
    return library


def recording(library: Path, lake: Path, log: Path) -> dict[str, str]:
    """What a command's environment needs so that its writes below `lake` are noted in `log`."""
    return {"LD_PRELOAD": str(library), "FAULTS_ROOT": str(lake), "FAULTS_LOG": str(log)}


def injecting(library: Path, lake: Path, log: Path, point: Point, number: int, fault: str) -> dict[str, str]:
    """The same, so that the call `number` (from 1) at `point` gets `fault`; `log` has whether it came to that."""
    shared = log.with_suffix(".shared")
    shared.write_bytes(SHARED)
    return recording(library, lake, log) | {
        "FAULTS_SHARED": str(shared),
        "FAULTS_POINT": str(point),
        "FAULTS_NUMBER": str(number),
        "FAULTS_FAULT": fault,
    }


def noted(log: Path) -> list[Call]:
    """The calls in the order in which they began."""
    if not log.exists():
        return []
    fields = (line.split("\t") for line in log.read_text().splitlines())
    return [Call(Point(process, kind, call), path, here == "here") for process, kind, call, path, here in fields]


def left_over(environment: Mapping[str, str]) -> list[int]:
    """Processes of that environment that are still there, whoever is their parent by now."""
    mark, found = f"FAULTS_LOG={environment['FAULTS_LOG']}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                seen, state = (
                    (entry / "environ").read_bytes(),
                    (entry / "stat").read_text().rpartition(")")[2].split()[0],
                )
            except OSError:
                continue
            if mark in seen.split(b"\0") and state != "Z":
                found.append(int(entry.name))
    return found
