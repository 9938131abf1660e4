"""A lake written at the table level, and a client of the page over it, at a moment of the wall clock."""

from datetime import timedelta

import pytest
from starlette.testclient import TestClient

from pipelines.lake.lake import Lake
from pipelines.verdict import Limits
from pipelines.web.app import create_app
from pipelines.web.snapshot import Reader
from tests.web.lakes import NOW, incident


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")


def client_of(lake, refresh_s):
    limits = Limits(since=timedelta(days=1))
    reader = Reader(Lake(lake), limits, lambda: NOW, refresh_s)
    return TestClient(create_app(reader), raise_server_exceptions=False)


@pytest.fixture
def ask(lake):
    """Asks the page of the lake, looked at anew for every request, and answers with the response.

    A reader that is told to refresh after 0 s would open each table anew for each part of a page, which nobody's does.
    """
    reader = Reader(Lake(lake), Limits(since=timedelta(days=1)), lambda: NOW, 3600)
    client = TestClient(create_app(reader), raise_server_exceptions=False)

    def get(path, **more):
        reader._read_at = reader._opened_at = -float("inf")
        return client.get(path, **more)

    return get


@pytest.fixture(scope="session")
def standing(tmp_path_factory):
    """The root of a lake with an incident that no test changes, and a client that looks at it once."""
    lake = str(tmp_path_factory.mktemp("standing") / "lake")
    incident(lake)
    return lake, client_of(lake, 3600)
