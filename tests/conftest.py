"""Tests use the compiled kernels that set-up left; those that start Spark have a run, with a session a process.

Marks: `long` is left out by `make unit`; of `sampled(n)` CI runs every n-th case of a test, of `nightly` none, and
`make nightly` (--all) runs all.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from pipelines.setup import jars_dir

# On a machine that is busy, or compiles a kernel, an example takes as long as it takes.
settings.register_profile("hwmark", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hwmark")


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also what CI runs a sample of, or leaves to make nightly")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--all"):
        return
    kept, left, cases = [], [], Counter()
    for item in items:
        (kept if in_sample(item, cases) else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def in_sample(item, cases):
    """Whether CI runs this case of a test; counts the cases of each test seen so far."""
    if item.get_closest_marker("nightly"):
        return False
    sampled = item.get_closest_marker("sampled")
    test = item.nodeid.partition("[")[0]
    cases[test] += 1
    return sampled is None or cases[test] % sampled.args[0] == 1


@pytest.fixture(scope="session")
def spark():
    """One Spark session, in a JVM as `hwmark run` starts it: what the thorough compiler costs no test earns back."""
    from pipelines.streaming.session import PASSES_BLOBS, session

    return session(master="local[2]", jars_dir=jars_dir(), conf=PASSES_BLOBS)
