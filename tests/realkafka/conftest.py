"""The run that all tests of this folder judge, on the version of Kafka that --kafka names."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.local_kafka.versions import DEFAULT, VERSIONS, Version
from tests.realkafka import verdicts, zookeeper
from tests.realkafka.faults import FAULTS, SAMPLE
from tests.realkafka.story import Story, run

HERE = Path(__file__).parent
KEPT = Path(__file__).parents[2] / "build" / "realkafka"
KNOWN = {**VERSIONS, **zookeeper.VERSIONS}
PLAYED_WITH_ZOOKEEPER = ("test_real_kafka.py", "test_harness.py")
"""The others ask a quorum of controllers, or what brokers of that age do not answer."""
REPORTS = "realkafka_reports"
_reports: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kafka", default=DEFAULT, choices=KNOWN, help=f"version of Kafka; {DEFAULT} by default")
    names = f"{', '.join(FAULTS)}; {' and '.join(SAMPLE)} by default"
    parser.addoption("--faults", default=",".join(SAMPLE), help=f"faults of test_both_roads: all, or some of {names}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ZooKeeper the story alone is played."""
    if config.getoption("--kafka", DEFAULT) in zookeeper.VERSIONS:
        skipped = pytest.mark.skip(reason="not played with ZooKeeper")
        for item in items:
            if item.path.parent == HERE and item.path.name not in PLAYED_WITH_ZOOKEEPER:
                item.add_marker(skipped)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each fault that was asked for is a run of its own."""
    if "fault" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--faults", ",".join(SAMPLE))
        names = list(FAULTS) if chosen == "all" else chosen.split(",")
        if unknown := set(names) - set(FAULTS):
            raise pytest.UsageError(f"there is no fault {sorted(unknown)[0]!r}: there are {', '.join(FAULTS)}")
        metafunc.parametrize("fault", names, scope="module")


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Version:
    return KNOWN[request.config.getoption("--kafka", DEFAULT)]


@pytest.fixture(scope="session")
def reports() -> list[str]:
    """Lines that are printed at the end, whoever passed."""
    return _reports


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


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that runs some of the files hands what it has to report to the one that prints it."""
    if (handed := getattr(session.config, "workeroutput", None)) is not None:
        handed[REPORTS] = _reports


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _reports.extend(getattr(node, "workeroutput", {}).get(REPORTS, []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _reports:
        terminalreporter.write_line(line)
