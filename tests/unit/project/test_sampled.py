"""What CI leaves out of a test that is marked `sampled` or `nightly`, and --all does not."""

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("k", range(7))
def test_of_many(k):
    pass

@pytest.mark.nightly
def test_long():
    pass

def test_always():
    pass
"""


@pytest.mark.parametrize(("options", "passed", "left"), [((), 4, 5), (("--all",), 9, 0)])
def test_ci_runs_every_nth_case_and_all_is_run_when_asked_for(pytester, options, passed, left):
    pytester.makeconftest("from tests.conftest import in_sample, pytest_addoption, pytest_collection_modifyitems")
    pytester.makepyfile(TESTS)
    pytester.runpytest("-p", "no:cacheprovider", *options).assert_outcomes(passed=passed, deselected=left)
