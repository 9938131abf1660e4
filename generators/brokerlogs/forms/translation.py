"""Lines of any layout and envelope, written in a pattern that the scanner reads.

A stream that is in one of these patterns passes as it is. Else the first line that is in none of them names the rule,
the envelope or layout that fits it. The rule rewrites every line that it fits, and the next line that is left is asked.
So a form is found from the lines themselves, and anew where it changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from generators.brokerlogs.forms.envelopes import ANSI, ENVELOPES, INSIDE, unfinished
from generators.brokerlogs.forms.json_lines import json_rule
from generators.brokerlogs.forms.layouts import LAYOUTS, full_logger, layout_rule
from generators.brokerlogs.forms.rule import Rule
from generators.brokerlogs.scanning.masking import masked_line

_HEADER = re.compile(
    rb"^(?:[^\n]{0,160}?(?:\d\d:\d\d:\d\d|\d{8}T\d{6}|(?<!\d)\d{13}(?!\d))|[^\S\n]*[\[,]?\{\"|[A-Z_]+=)[^\n]*\n?",
    re.MULTILINE,
)
"""How a line looks that is no continuation of one before it."""
_EVIDENCE = re.compile(
    rb"^(?!\| offset:|baseOffset:|Dumping )[^\n]{0,160}?(?:\d\d:\d\d:\d\d|(?<!\d)\d{13}(?!\d)|\{\")[^\n]*?"
    rb"(?:\[Partition [^\n\]]* broker=\d|\[Broker id=\d|\[ReplicaFetcher replicaId=|Log partition="
    rb"|\[(?:Quorum)?Controller id=\d)[^\n]*\n?",
    re.MULTILINE,
)
"""How a line looks that tells of replication, whatever its layout."""
_PADDED = re.compile(rb"^(\[.{23}\] [A-Z]{4,5}) {2,}(?=\S)", re.MULTILINE)
_THREAD_FIRST = re.compile(
    rb"^\[.{23}\] [A-Z]{4,5} \[[^\]\n]*\] \[(?:Broker id|Partition |ReplicaFetcher|UnifiedLog|Log partition"
    rb"|QuorumController|Controller id|BrokerLifecycleManager|BrokerServer|KafkaServer|ControllerServer)",
    re.MULTILINE,
)
_LINE_NUMBER = re.compile(rb"^(\[.{23}\] [A-Z]{4,5} .*\([\w.$]+):\d+\)$", re.MULTILINE)
_THREAD = re.compile(rb"^(\[.{23}\] [A-Z]{4,5}) \[[^\]\n]*\] ", re.MULTILINE)
_SHORT_LOGGERS = (b"(logger)\n", b".c.logger)\n", b"(Partition)\n", b"(ReplicaFetcherThread)\n", b"(UnifiedLog)\n")
_SHORT_LOGGER = re.compile(rb"^(\[.{23}\] [A-Z]{4,5} )(.*)\((\w+|(?:\w\.)+logger)\)$", re.MULTILINE)
_HEAD = 4096
_INDENTED = re.compile(rf"^[ \t][^\n]{{0,400}}?{INSIDE}".encode(), re.MULTILINE)
_MOST_RULES, _MOST_TRIES = 12, 40
_DUMP = (b"| offset:", b"baseOffset:", b"Dumping ", b"Log starting offset")


@dataclass
class Translation:
    """Rewrites the lines of one source; `found` names what its lines came in, `waiting` are parts of a line."""

    zone: str
    layout: str | None = None
    found: dict[str, None] = field(default_factory=dict)
    waiting: bytes = b""
    given_up: int = 0
    """Lines that tell of replication in a layout that is not known, up to the last `take_given_up`."""
    first_given_up: bytes = b""

    def dump(self) -> dict[str, Any]:
        """The state as JSON values, empty for lines that passed as they are."""
        form = {"found": [*self.found], "waiting": self.waiting.decode("latin-1")}
        return {"form": form} if self.found or self.waiting else {}

    def load(self, stored: Mapping[str, Any]) -> None:
        """Restore what `dump` gave."""
        form = stored.get("form", {"found": [], "waiting": ""})
        self.found, self.waiting = dict.fromkeys(form["found"]), form["waiting"].encode("latin-1")

    def rules(self) -> list[Rule]:
        """All rules, the layout that the user named first."""
        named = [layout_rule(self.layout, self.zone)] if self.layout else []
        layouts = [layout_rule(layout, self.zone) for layout in LAYOUTS]
        return [*named, *layouts, json_rule(self.zone), *ENVELOPES]

    def lines(self, lines: bytes) -> bytes:
        """These whole lines in a pattern that is read; a line of which a part is still to come is kept."""
        lines = self.waiting + lines
        end = unfinished(lines)
        lines, self.waiting = lines[:end], lines[end:]
        if lines.startswith(b"\xef\xbb\xbf"):
            lines = lines[3:]
        if b"\x1b[" in lines:
            lines = ANSI.sub(b"", lines)
            self.found["ANSI colours"] = None
        for _ in range(_MOST_RULES):
            rule = self._next_rule(lines)
            if rule is None:
                break
            self.found.setdefault(rule.name)
            lines = rule.apply(lines.replace(b"\r\n", b"\n"))
            lines += b"" if lines.endswith(b"\n") or not lines else b"\n"
        return self._stock(lines)

    def _next_rule(self, lines: bytes) -> Rule | None:
        """The rule for the first line that no pattern reads and for which there is one.

        Asked are the first lines that look like any, then some from all over of those that tell of replication, which
        are `given_up` where no rule fits.
        """
        rest = _without_native(lines)
        found = [match[0] for match in islice(_HEADER.finditer(rest), _MOST_TRIES)]
        if rule := self._rule_for(found):
            return rule
        told = _EVIDENCE.findall(rest) if rest else []
        if rule := self._rule_for(told[:: max(1, len(told) // _MOST_TRIES)]):
            return rule
        self.first_given_up = self.first_given_up or next(iter(told), b"")
        self.given_up += len(told)
        return None

    def _rule_for(self, lines: list[bytes]) -> Rule | None:
        """The rule that fits the first of these lines that one fits."""
        for line in lines:
            line = line.replace(b"\r\n", b"\n")
            fits = (rule for rule in self.rules() if rule.pattern.match(line) and rule.apply(line) != line)
            if not line.startswith(_DUMP) and (rule := next(fits, None)):
                return rule
        return None

    def take_given_up(self) -> str | None:
        """That lines were given up, in words, once."""
        count, first, self.given_up, self.first_given_up = self.given_up, self.first_given_up, 0, b""
        return f"{count} lines in a layout that is not known, the first: {masked_line(first)}" if count else None

    def _stock(self, lines: bytes) -> bytes:
        """Remove padding after the level, thread names and line numbers from lines in the stock pattern."""
        buf = np.frombuffer(lines, np.uint8)
        starts, ends = _bounds(lines)
        blank = [_at(buf, starts, ends, offset) == 32 for offset in (30, 31, 32)]
        if ((blank[1] & (blank[0] | blank[2])).any()) and _PADDED.search(lines):
            lines = _PADDED.sub(rb"\1 ", lines)
            self.found["padded levels"] = None
        last, before = buf[np.maximum(ends - 1, 0)], buf[np.maximum(ends - 2, 0)]
        if ((last == 41) & (before >= 48) & (before <= 57)).any() and _LINE_NUMBER.search(lines):
            lines = _LINE_NUMBER.sub(rb"\1)", lines)
            self.found["line numbers"] = None
        if _has_short_loggers(lines):
            lines = _SHORT_LOGGER.sub(lambda of: b"%b%b(%b)" % (of[1], of[2], full_logger(of[3], of[2])), lines)
            self.found["short names of loggers"] = None
        if b"] [" in lines and _THREAD_FIRST.search(lines):
            lines = _THREAD.sub(rb"\1 ", lines)
            self.found["threads"] = None
        return lines


def _has_short_loggers(lines: bytes) -> bool:
    """Whether loggers are printed without their packages: by the first lines, or those of loggers with evidence."""
    if lines[13:14] == b"|":
        return False
    named = any(name in lines for name in _SHORT_LOGGERS)
    return _SHORT_LOGGER.search(lines if named else lines[:_HEAD]) is not None


def _without_native(lines: bytes) -> bytes:
    """The lines that need a rule: no stack traces and the like, which begin with a blank; but where no line is in a
    pattern that is read, such lines, too, if one has a header."""
    buf, (starts, ends) = np.frombuffer(lines, np.uint8), _bounds(lines)
    native, blank = _native(buf, starts, ends)
    if native.any() or not _INDENTED.search(_lines_where(buf, starts, ends, blank)):
        native |= blank
    return b"" if native.all() else _lines_where(buf, starts, ends, ~native)


def _lines_where(
    buf: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], which: npt.NDArray[np.bool_]
) -> bytes:
    return buf[: len(buf)][np.repeat(which, ends - starts + 1)].tobytes()


def _bounds(lines: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Starts of the lines, and positions of their newlines."""
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == 10)
    return np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)[: len(ends)], ends


def _native(
    buf: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Whether each line is in a pattern that is read, and whether it begins with a blank, or is empty."""
    if not len(ends):
        return np.ones(0, bool), np.ones(0, bool)
    at = partial(_at, buf, starts, ends)
    last = buf[np.maximum(ends - 1, 0)]
    last = np.where(last == 13, buf[np.maximum(ends - 2, 0)], last)
    piped = at(13) == 124
    stock = (at(0) == 91) & (at(5) == 45) & (at(11) == 32) & (at(20) == 44) & (at(24) == 93) & (last == 41)
    blank = (at(0) == 32) | (at(0) == 9) | (starts >= ends)
    return piped | stock, blank


def _at(
    buf: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], offset: int
) -> npt.NDArray[np.uint8]:
    """The byte of each line at an offset, 0 behind its end."""
    found: npt.NDArray[np.uint8] = np.where(starts + offset < ends, buf[np.minimum(starts + offset, len(buf) - 1)], 0)
    return found
