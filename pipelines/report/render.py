"""A report as one HTML file, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from pipelines.errors import UsageError
from pipelines.html import environment
from pipelines.report.contents import Report, left_out


def render(report: Report, incident: Any = None, asked: Any = None) -> str:
    """The page: no script, nothing from elsewhere; with what the web page answers of an incident `asked` for."""
    return (
        environment("pipelines.report")
        .get_template("report.html")
        .render(report=report, left_out=left_out(report.timeline), answer=incident, asked=asked, lake=report.lake)
    )


def require_place(file: Path) -> None:
    """Raise UsageError where a report could not be written, before anything is read for it."""
    if file.is_dir():
        raise UsageError(f"--out {file} is a folder: name a file in it, such as {file / 'report.html'}")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"--out {file}: there is no folder {file.absolute().parent}; make it first")


def write(page: str, file: Path) -> None:
    """Put the page in the place of the file in one step. Raises OSError, and then the file is as it was.

    A link stays one, and what is no file, such as a pipe or /dev/null, is written to: it must not become a file.
    """
    if file.exists() and not file.is_file():
        file.write_text(page, encoding="utf-8")
        return
    file = file.resolve()
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(page)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
