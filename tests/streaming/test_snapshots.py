"""A snapshot of gold ten minutes old is read by Spark, too, though the job has removed dead files since."""

from datetime import UTC, datetime, timedelta

import pytest

from pipelines.lake.lake import Lake
from pipelines.streaming.dead_files import remove_replaced
from pipelines.streaming.tables import create_tables
from tests.unit.streaming.test_gold_retention import HEALTH, KEPT, replaced


@pytest.mark.spark
def test_a_snapshot_ten_minutes_old_is_read_by_spark(tmp_path, spark):
    lake = Lake(str(tmp_path))
    create_tables(lake)
    version = replaced(lake, 1)
    replaced(lake, 2, 3)
    assert remove_replaced(lake, KEPT, datetime.now(UTC) + timedelta(minutes=10)) == 0
    for asked, hw in ((version, 1), (lake.open(HEALTH).version(), 3)):
        rows = spark.read.format("delta").option("versionAsOf", asked).load(lake.uri(HEALTH)).collect()
        assert [row["hw"] for row in rows] == [hw]
