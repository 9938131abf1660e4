"""All tests that start Spark run in one worker, first, so that they share one session."""

import pytest

from pipelines.setup import share_compiled_kernels

share_compiled_kernels()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    spark = [item for item in items if item.get_closest_marker("spark")]
    for item in spark:
        item.add_marker(pytest.mark.xdist_group("spark"))
    items[:] = spark + [item for item in items if item not in set(spark)]
