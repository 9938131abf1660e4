"""Summary of an ingest as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.parsing.parse_report import ParseReport
from generators.brokerlogs.scanning.line_record import LONGEST
from generators.brokerlogs.tailing.progress import times
from generators.brokerlogs.tailing.tailer import Tailer
from pipelines.printable import printable
from pipelines.replication.events.row_rules import split

LEVELS = ("stock INFO", "polled offsets", "lean TRACE", "full TRACE")


MOST_SHAPES = 8
_LEVEL_0 = "their information is lost, and their logs count as level 0 from there to the next start of the broker"
_NAMELESS = "{:,} lines before any that names the broker, left out: put its server.properties beside the logs"
_UNREAD = (
    "nothing of it was understood, its first line is {!r}: leave it out if it is no broker's log, else name its layout "
    "with --pattern, as log4j's PatternLayout has it"
)


@dataclass
class SourceSummary:
    """One source: its lines and what was made of them; `first_ts`, `last_ts` in microseconds."""

    source_id: str
    report: ParseReport = field(default_factory=ParseReport)
    events: int = 0
    first_ts: int | None = None
    last_ts: int | None = None
    level: int = 0
    left_out: int = 0
    tells_nothing: bool = False
    """Whether none of its lines was ever understood."""
    form: tuple[str, ...] = ()
    """What its lines came in, where that is none of the two patterns."""

    def line(self) -> str:
        """The source in one line."""
        if not self.first_ts or not self.last_ts:
            nothing = "not all of it was read" if self.left_out or self.tells_nothing else "nothing new"
            events = "no events in them" if self.report.lines else nothing
            return f"{self.source_id}: {self.report.lines:,} lines, {events}"
        text = f"{_timestamp(self.first_ts)} to {_timestamp(self.last_ts)}"
        of = f", as {' in '.join(self.form)}" if self.form else ""
        return (
            f"{self.source_id}: {self.report.lines:,} lines, {self.events:,} events, {text}, {LEVELS[self.level]}{of}"
        )


@dataclass
class IngestSummary:
    """All sources of one call, and messages on what went wrong."""

    cluster: str
    sources: list[SourceSummary]
    problems: list[str]
    seconds: float
    broken: Counter[str] = field(default_factory=Counter)
    """Events that break the contract, by the rule."""
    missing: int = 0
    """Paths given where nothing is."""
    printed: Sequence[str] = ()
    """A line on each print of Kafka's tools that was read."""
    unread_prints: Sequence[str] = ()
    printed_events: int = 0

    @property
    def events(self) -> int:
        return sum(source.events for source in self.sources) + self.printed_events

    @property
    def line_count(self) -> int:
        return sum(source.report.lines for source in self.sources)

    @property
    def lines_per_second(self) -> float:
        return self.line_count / self.seconds if self.seconds else 0.0

    def unread(self) -> list[str]:
        """A line for each source of which nothing was understood."""
        nothing = [one for one in self.sources if one.tells_nothing or one.report.tells_nothing]
        return [*self.unread_prints, *(f"{one.source_id}: {_UNREAD.format(one.report.first_line)}" for one in nothing)]

    @property
    def left_out(self) -> int:
        """The number of files and folders that were not read."""
        return sum(source.left_out for source in self.sources)

    def lines(self) -> list[str]:
        """The summary, line by line."""
        rate = f"{self.lines_per_second:,.0f} lines/s"
        text = [f"{self.cluster}: {self.events:,} events of {self.line_count:,} lines in {self.seconds:.1f} s, {rate}"]
        text.extend(f"  {line}" for line in (*(source.line() for source in self.sources), *self.printed))
        text.extend(f"  {line}" for line in (*_not_understood(self.sources), *_of_unknown_loggers(self.sources)))
        reports = {one.source_id: one.report for one in self.sources}
        text.extend(f"  {name}: {_NAMELESS.format(one.nameless)}" for name, one in reports.items() if one.nameless)
        text.extend(f"  {_unreadable(name, one)}" for name, one in reports.items() if one.broken)
        blind = [name for name, one in reports.items() if one.lines and not one.has_sn]
        if blind:
            text.append(
                f"  no line numbers (%sn) in {_first_few(blind)}: losses before the reader cannot be seen there"
            )
        text.extend(
            f"  {name}: lines are missing in {one.lost:,} place{'s' * (one.lost > 1)}"
            for name, one in reports.items()
            if one.lost
        )
        text.extend(_broken(self.broken))
        text.extend(f"  {problem}" for problem in self.problems)
        text.extend(self.unread())
        return [printable(line) for line in text]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def count_rows(summary: SourceSummary, rows: pa.Table) -> None:
    """Add rows of the source that are in the lake now."""
    ts = times(rows)
    summary.events += rows.num_rows
    summary.first_ts = min(int(ts.min()), summary.first_ts or int(ts.min()))
    summary.last_ts = max(int(ts.max()), summary.last_ts or 0)
    summary.level = max(summary.level, pc.max(rows["level"]).as_py())


def count_lines(summary: SourceSummary, tailer: Tailer) -> None:
    """Set what was read of its lines from the report of the parser."""
    summary.report = tailer.parser.report.since(tailer.report_before)
    summary.tells_nothing = tailer.parser.report.tells_nothing
    summary.form, summary.left_out = tailer.parser.form, 0 if tailer.follow else len(tailer.missing.left_out)


def _unreadable(source_id: str, report: ParseReport) -> str:
    longer = f", {report.overlong:,} of them longer than {LONGEST >> 20} MB" if report.overlong else ""
    return f"{source_id}: {report.broken:,} lines cannot be read{longer}: their information is lost"


def _not_understood(sources: Sequence[SourceSummary]) -> list[str]:
    """Shapes of evidence in an unknown wording, the most frequent first, each with an example."""
    shapes = sum((source.report.shapes for source in sources), Counter[str]())
    if not shapes:
        return []
    examples = {
        shape: (one, one.report.examples.get(shape)) for one in reversed(sources) for shape in one.report.shapes
    }
    text = [f"{shapes.total():,} lines of evidence not understood: {_LEVEL_0}"]
    for shape, count in shapes.most_common(MOST_SHAPES):
        source, example = examples[shape]
        text.append(f"  {count:,} x {shape} ({source.source_id}: {example})")
    return text + ([f"  and {len(shapes) - MOST_SHAPES} more shapes"] if len(shapes) > MOST_SHAPES else [])


def _of_unknown_loggers(sources: Sequence[SourceSummary]) -> list[str]:
    loggers = sum((source.report.ignored for source in sources), Counter[str]())
    if not loggers:
        return []
    most = ", ".join(f"{name} {count:,}" for name, count in loggers.most_common(MOST_SHAPES))
    more = f" and {len(loggers) - MOST_SHAPES} more" if len(loggers) > MOST_SHAPES else ""
    return [f"{loggers.total():,} lines of loggers that are not known, left out: {most}{more}"]


def _broken(by_rule: Counter[str]) -> list[str]:
    rules = ", ".join(f"{name} {count:,}" for name, count in by_rule.most_common())
    return [f"  events that break the contract, which `run` will move to quarantine: {rules}"] if rules else []


def count_broken(by_rule: Counter[str], events: pa.Table) -> None:
    """Count the events of a round that break a rule, once for each rule.

    They are written to bronze like the others: left out, their numbers would be a gap. `run` moves them to quarantine,
    again after every rebuild.
    """
    _, rejected = split(events)
    for reasons in rejected["reasons"].to_pylist():
        by_rule.update(reason.partition(":")[0] for reason in reasons)


def _first_few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _timestamp(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
