"""When buckets write how partitions stand: in another interval of the wall clock than they did last, whichever."""

import pytest

from pipelines.lake.lake import Lake
from pipelines.replication import Rules
from pipelines.streaming.stateful.bucket_processor import BucketProcessor

NOW, HOUR, YEAR = 1_790_000_005, 3600, 366 * 86_400


@pytest.mark.parametrize(
    ("every_s", "batch_s", "written_s", "due"),
    [
        pytest.param(10, NOW, 0, True, id="never written"),
        pytest.param(10, NOW + 4, NOW, False, id="same interval"),
        pytest.param(10, NOW + 5, NOW, True, id="next interval"),
        pytest.param(10, NOW - 5, NOW, False, id="set back inside the interval"),
        pytest.param(10, NOW - HOUR, NOW, True, id="set back by an hour"),
        pytest.param(10, NOW, NOW + YEAR, True, id="was a year ahead once"),
        pytest.param(0, NOW, NOW, True, id="every batch"),
    ],
)
def test_the_present_is_due_in_another_interval_than_it_was_written_in(every_s, batch_s, written_s, due):
    processor = BucketProcessor(Rules(), [0], every_s, Lake("lake"), tasks=1)
    assert processor.is_health_due(batch_s * 1_000_000, written_s * 1_000_000) == due
