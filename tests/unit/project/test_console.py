"""What goes to stderr: one line of ours, not what libraries print past Python."""

import logging
import os

import pytest

from pipelines.commands.progress import libraries_silent


@pytest.fixture
def level(request):
    """The level of hwmark's logger, which a command with --debug has changed for its process."""
    logger = logging.getLogger("hwmark")
    before = logger.level
    logger.setLevel(request.param)
    yield
    logger.setLevel(before)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("level", [logging.INFO], indirect=True)
def test_what_a_library_prints_past_python_is_not_shown(capfd):
    with libraries_silent():
        os.write(2, b"thread 'tokio' panicked")
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("level", [logging.DEBUG], indirect=True)
def test_it_is_shown_to_who_looks_for_a_fault(capfd):
    with libraries_silent():
        os.write(2, b"thread 'tokio' panicked")
    assert capfd.readouterr().err == "thread 'tokio' panicked"
