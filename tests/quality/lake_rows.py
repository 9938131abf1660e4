"""Small lakes made of rows."""

import pyarrow as pa
from deltalake import write_deltalake


def put(lake, module, *rows, mode="append"):
    """Writes rows to a table; what a row leaves out is null."""
    write_deltalake(f"{lake}/{module.TABLE.path}", pa.Table.from_pylist(list(rows), schema=module.ARROW), mode=mode)
