"""Small lakes made of rows."""

import pyarrow as pa
from deltalake import write_deltalake


class Lake:
    """A lake that is written row by row; what a row leaves out is null."""

    def __init__(self, path):
        self.path = path

    def uri(self, module):
        return f"{self.path}/{module.TABLE.path}"

    def put(self, module, *rows, mode="append"):
        write_deltalake(self.uri(module), pa.Table.from_pylist(list(rows), schema=module.ARROW), mode=mode)
