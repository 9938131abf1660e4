"""One Spark session for all quality suites, and small lakes made of rows."""

import os

import pyarrow as pa
import pytest
from deltalake import write_deltalake


@pytest.fixture(scope="session")
def spark():
    from pipelines.streaming.session import session

    return session(master="local[2]", jars_dir=os.environ.get("HWMARK_RUN__JARS_DIR"))


@pytest.fixture
def lake(tmp_path):
    return Lake(str(tmp_path / "lake"))


class Lake:
    """A lake that is written row by row; what a row leaves out is null."""

    def __init__(self, path):
        self.path = path

    def uri(self, module):
        return f"{self.path}/{module.TABLE.path}"

    def put(self, module, *rows, mode="append"):
        write_deltalake(self.uri(module), pa.Table.from_pylist(list(rows), schema=module.ARROW), mode=mode)
