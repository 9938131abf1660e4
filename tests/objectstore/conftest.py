"""An S3-compatible server on this machine, and lakes on it."""

import itertools

import pytest

from tests.faults.stages import write_logs
from tests.objectstore.store import BUCKET, serving

_numbers = itertools.count()


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """The server, which does no harm until it is asked to."""
    with serving(tmp_path_factory.mktemp("store") / "said") as found:
        yield found


@pytest.fixture
def storage_options(store):
    store.faults()
    return store.options


@pytest.fixture
def lake():
    return f"s3://{BUCKET}/lake-{next(_numbers)}"


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    write_logs(folder)
    return folder
