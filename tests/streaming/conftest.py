"""One Spark session for all streaming tests."""

import os

import pytest

from pipelines.setup import jars_dir


@pytest.fixture(scope="session")
def spark():
    from pipelines.streaming.session import session

    return session(master="local[2]", jars_dir=jars_dir(os.environ.get("HWMARK_RUN__JARS_DIR", "")))
