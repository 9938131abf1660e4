"""What a benchmark writes into docs/benchmarks.md: by command, between its markers, and nothing else."""

import pytest
from typer.testing import CliRunner

from pipelines import bench
from pipelines.bench.report.readme import BACKLOG, BEGIN, END, PLOT, THROUGHPUT, Point, Section, write_readme
from pipelines.cli import app
from pipelines.errors import UsageError
from pipelines.settings import duration

BARS = [Point(THROUGHPUT, "replay", "dense", 6.5), Point(THROUGHPUT, "Spark job", "dense", 1.25)]
LINES = [Point(BACKLOG, "50,000 events/s", at, behind) for at, behind in ((5.0, 2), (10.0, 3))]
SECTIONS = [Section("Engines", "engine  events/s\nreplay  6,500,000", BARS), Section("Live", "p95 8.0 s", LINES)]


def report(tmp_path, text=f"above\n\n{BEGIN}\nold numbers\n{END}\n\nbelow\n"):
    file = tmp_path / bench.REPORT
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def test_what_stood_between_the_markers_is_replaced_and_the_rest_stays(tmp_path):
    file = report(tmp_path)
    for _ in range(2):
        write_readme(file, SECTIONS)
        text = file.read_text()
        assert text.startswith(f"above\n\n{BEGIN}\n\nMeasured on ")
        assert text.endswith(f"{END}\n\nbelow\n")
        assert "old numbers" not in text
        assert "**Engines**\n\n```\nengine  events/s\nreplay  6,500,000\n```" in text
        assert text.count("**Live**") == 1


def test_the_plot_shows_every_series_and_axis(tmp_path):
    file = report(tmp_path)
    write_readme(file, SECTIONS)
    drawn = (file.parent / PLOT).read_text()
    assert f"({PLOT.as_posix()})" in file.read_text()
    for words in ("replay", "Spark job", "50,000 events/s", THROUGHPUT.y, BACKLOG.x, BACKLOG.y):
        assert words in drawn


def test_without_points_there_is_no_plot(tmp_path):
    file = report(tmp_path)
    write_readme(file, [Section("Ingest", "lines")])
    assert not (file.parent / PLOT).exists()


@pytest.mark.parametrize(
    "text", ["no markers\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n", f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n"]
)
def test_a_report_without_a_place_for_it_is_refused_before_anything_is_measured(tmp_path, monkeypatch, text):
    file = report(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "_engines", lambda *a: pytest.fail("measured"))
    with pytest.raises(UsageError, match="add them where the report should be"):
        bench.main(1000, readme=True)
    assert file.read_text() == text


def test_the_report_of_the_project_has_the_markers(request):
    text = (request.config.rootpath / bench.REPORT).read_text()
    assert text.index(BEGIN) < text.index(END)


def test_every_part_is_printed_and_all_of_them_go_to_the_report(tmp_path, monkeypatch, capsys):
    file = report(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "_full", lambda *a: [lambda say, s=s: s for s in SECTIONS])
    bench.main(1000, full=True, readme=True)
    printed = capsys.readouterr().out
    assert all(s.title in printed and s.text in printed and s.text in file.read_text() for s in SECTIONS)


def test_full_measures_every_part_once_for_each_density_resolution_size_and_rate(monkeypatch, capsys):
    asked = []

    def part(name):
        return lambda *words, **named: asked.append((name, words, named)) or Section(name, "measured")

    for module, name in (
        (bench.throughput, "engines"), (bench.throughput, "sizes"), (bench.throughput, "scaling"),
        (bench.restart, "measure"), (bench.live, "measure"), (bench.ingested, "measure"),
        (bench.starts, "measure"), (bench.rolling_restart, "measure"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, part(f"{module.__name__.rpartition('.')[2]}.{name}"))
    bench.main(7_000, full=True, live_s=3.0)
    shapes = [(n.get("appends", 1), n["asked"].resolution_ms) for name, _, n in asked if name == "throughput.engines"]
    assert shapes == [(1, 1000), (7, 1000), (1, 0)]
    names = [name for name, *_ in asked]
    assert names[3:] == [
        "throughput.sizes",
        *["live.measure"] * 2,
        "restart.measure",
        "starts.measure",
        "ingested.measure",
        "incident.measure",
        "throughput.scaling",
    ]
    assert [words[:2] for name, words, _ in asked if name == "live.measure"] == [(300_000, 3.0), (50_000, 3.0)]
    assert capsys.readouterr().out.count("measured") == len(names)


@pytest.mark.parametrize(("words", "seconds"), [("1s", 1.0), ("500ms", 0.5), ("2m", 120.0), ("0", 0.0)])
def test_a_time_is_read(words, seconds):
    assert duration("--for", words) == seconds


@pytest.mark.parametrize("words", ["soon", "-1s", "-1", "nan", "inf"])
def test_what_is_no_time_is_named(words):
    with pytest.raises(UsageError, match=f"--for is '{words}'"):
        duration("--for", words)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--full", "--sparse"], "--full has its own"),
        (["--full", "--live", "50000"], "--full has its own"),
        (["--live", "50000", "--partitions", "10"], "--live has one partition"),
        (["--resolution", "fine"], "--resolution is 'fine'"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags, named):
    result = CliRunner().invoke(app, ["bench", *flags])
    assert result.exit_code == 2
    assert named in result.output


def test_each_number_of_partitions_is_a_part(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(bench.throughput, "engines", lambda events, rounds, say, **k: asked.append(k) or SECTIONS[0])
    result = CliRunner().invoke(
        app, ["bench", "--partitions", "5", "--partitions", "7", "--sparse", "--resolution", "0"]
    )
    assert result.exit_code == 0
    assert [(k["partitions"], k["appends"], k["asked"].resolution_ms) for k in asked] == [(5, 7, 0), (7, 7, 0)]
