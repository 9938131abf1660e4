"""Lines on stderr while a command works and where it fails: plain, or JSON for what collects them."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pipelines.printable import printable, printable_lines

FORMATS = "plain", "json"
LEVELS = "debug", "info", "warning", "error"


@dataclass
class _Style:
    """The look of this process's lines, and the level from which on they are printed."""

    format: str = "plain"
    level: int = logging.INFO


_style = _Style()


def set_style(format: str = "plain", level: str = "info") -> None:
    """Choose `plain` or `json`, and the lowest of LEVELS that is printed, for all lines from here on."""
    _style.format, _style.level = format, getattr(logging, level.upper())
    logger = logging.getLogger("hwmark")
    if not logger.handlers:
        logger.addHandler(_Lines())
    logger.setLevel(_style.level)


def shows(level: int) -> bool:
    """Return whether lines of this level are printed."""
    return level >= _style.level


def is_json() -> bool:
    """Return whether each line is a JSON object."""
    return _style.format == "json"


def write_line(what: str, text: str, level: int = logging.INFO, **fields: Any) -> None:
    """Print a line of `what`, a command, with `fields` of its own where lines are JSON."""
    plain = f"{what}: {printable(text)}" if what else printable_lines(text)
    _print(f"hwmark.{what}" if what else "hwmark", plain, text, level, fields)


class _Lines(logging.Handler):
    """Records of the program's own loggers, a line each."""

    def emit(self, record: logging.LogRecord) -> None:
        text = logging.Formatter("%(message)s").format(record)
        _print(record.name, printable_lines(text), text, record.levelno, {})


def _print(logger: str, plain: str, text: str, level: int, fields: Mapping[str, Any]) -> None:
    """Print a line in the chosen style: `plain`, or an object of the others."""
    if not shows(level):
        return
    if is_json():
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"ts": now, "level": logging.getLevelName(level).lower(), "logger": logger, "message": text, **fields}
        plain = json.dumps(line, default=str)
    print(plain, file=sys.stderr, flush=True)
