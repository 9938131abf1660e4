"""The run that all tests of this folder judge, on the version of Kafka that --kafka names."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.realkafka import verdicts
from tests.realkafka.story import Story, run
from tests.realkafka.versions import DEFAULT, VERSIONS, Version, version

KEPT = Path(__file__).parents[2] / "build" / "realkafka"
_reports: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kafka", default=DEFAULT, choices=VERSIONS, help=f"version of Kafka; {DEFAULT} by default")


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Version:
    return version(request.config.getoption("--kafka", DEFAULT))


@pytest.fixture(scope="session")
def story(kafka: Version, request: pytest.FixtureRequest) -> Iterator[Story]:
    """The story of one run. Its folder, with everything that was logged, is kept unless every test passed."""
    folder = KEPT / f"{kafka.name}-{time.strftime('%H%M%S')}"
    folder.mkdir(parents=True)
    failed = request.session.testsfailed
    try:
        played = run(kafka, folder)
    except BaseException:
        _reports.append(f"everything that was logged is kept in {folder}")
        raise
    _reports.extend(verdicts.report(played))
    yield played
    if request.session.testsfailed == failed:
        shutil.rmtree(folder)
    else:
        _reports.append(f"  everything that was logged is kept in {folder}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _reports:
        terminalreporter.write_line(line)
