"""Names that others chose are printed so that they can do nothing to a terminal, a page or a table."""

import csv
import io
import json
import logging
import os
from collections import Counter

import pytest
from typer.testing import CliRunner

from generators.brokerlogs.parsing.parse_report import ParseReport
from generators.brokerlogs.tailing.summary import IngestSummary, SourceSummary
from pipelines.cli import app
from pipelines.commands import log, progress
from pipelines.commands.show import tables
from pipelines.printable import file_name, printable, printable_lines
from tests.unit.project.lakes import at, health, loss, sound, write

HARMFUL = ["\x00", "\t", "\n", "\r", "\x1b", "\x7f", "\x80", "\x9b", "\u2028", "\u202a", "\u202e", "\u2066", "\u2069"]
EVIL = "evil\x1b[2J\x9b\u202e\u2066\n\x7fname"
SHOWN = "evil\\x1b[2J\\x9b\\u202e\\u2066\\x0a\\x7fname"


@pytest.mark.parametrize("harmful", HARMFUL, ids=ascii)
def test_what_could_harm_is_escaped(harmful):
    shown = printable(f"a{harmful}b")
    assert shown.isprintable()
    assert shown in (f"a\\x{ord(harmful):02x}b", f"a\\u{ord(harmful):04x}b")


@pytest.mark.parametrize("text", ["orders-1", "é ü 日本 …", "a\\b", ""])
def test_all_else_stays(text):
    assert printable(text) == text == file_name(text) or "\\" in text


def test_the_lines_of_a_text_stay():
    assert printable_lines("a\x1b\nb\n") == "a\\x1b\nb\n"


def test_a_file_name_that_is_no_utf8_is_printed_by_its_bytes():
    printable(os.fsdecode(b"server-\xff.log")).encode()
    assert printable(os.fsdecode(b"server-\xff.log")) == "server-\\xff.log"


def test_two_file_names_are_never_one_identifier():
    names = [b"a\xff.log", b"a\xfe.log", rb"a\xff.log", rb"a\\xff.log", b"a.log", "aÿ.log".encode()]
    ids = [file_name(os.fsdecode(name)) for name in names]
    assert len(set(ids)) == len(names)
    assert all(one.encode() for one in ids)
    assert ids[4:] == ["a.log", "aÿ.log"]


def harmless(text):
    """Whether only ends of lines are not printable in it."""
    return all(line.isprintable() for line in text.split("\n"))


def test_cells_of_tables_json_and_csv():
    rows = [{"topic": EVIL, "partition": 0, "isr": [1, 2], "labels": {"name": EVIL}}]
    table = tables.as_table(rows, ["topic_partition", "isr"])
    assert table.splitlines()[1].split("  ") == [f"{SHOWN}-0", "1,2"]
    text = tables.as_json(rows)
    assert json.loads(text)[0]["topic"] == EVIL
    assert harmless(text)
    text = tables.as_csv(rows, ["topic", "labels"])
    assert next(csv.DictReader(io.StringIO(text)))["topic"] == SHOWN
    assert harmless(text)


@pytest.mark.parametrize("format", ["table", "json", "csv"])
@pytest.mark.parametrize("view", ["verdict", "health", "regressions"])
def test_show(tmp_path, view, format):
    lake = str(tmp_path / "lake")
    sound(lake, health(EVIL, 0, under_min_isr=True, osr=[3], isr=[1]))
    write(lake, "hw_regressions", loss(ts=at(45), topic=EVIL))
    done = CliRunner().invoke(app, ["show", view, "--lake", lake, "--format", format])
    assert done.exit_code == 0
    assert harmless(done.output)
    assert format != "table" or view == "verdict" or SHOWN in done.output


def test_the_error_line_and_its_trace():
    for debug in ([], ["--debug"]):
        done = CliRunner().invoke(app, ["show", "hw", "--lake", f"/nowhere/{EVIL}", *debug])
        assert done.exit_code == 2
        assert harmless(done.output)
        assert "evil\\x1b" in done.output


def test_the_summary_of_an_ingest_has_a_line_per_line():
    report = ParseReport(lines=3, broken=1, shapes=Counter(["Partition: " + EVIL]))
    report.examples["Partition: " + EVIL] = EVIL
    source = SourceSummary(EVIL, report)
    summary = IngestSummary(EVIL, [source], [f"{EVIL}: left out"], 1.0)
    assert all(line.isprintable() for line in summary.lines())
    assert any(SHOWN in line for line in summary.lines())


def test_progress_and_log_lines(capsys):
    with progress.progress("ingest") as say:
        say(EVIL)
    assert capsys.readouterr().err == f"ingest: {SHOWN}\n"
    log.set_style()
    logging.getLogger("hwmark").error("%s", "a\x1b[2J")
    assert capsys.readouterr().err == "a\\x1b[2J\n"
