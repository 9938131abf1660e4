"""What the job's own records say of how silver comes about."""

import json

from pipelines.lake.lake import Lake
from pipelines.streaming.reconstruction import reconstruction


def test_a_mark_of_a_rebuild_that_cannot_be_read_does_not_say_that_it_is_over(tmp_path):
    lake = Lake(str(tmp_path))
    lake.write_durably("_run/query.json", json.dumps({"query_id": "q", "rules": {}}).encode())
    assert not reconstruction(lake).rebuilding
    lake.write_durably("_run/rebuild.json", b'{"query_id": "q", "to')
    assert reconstruction(lake).rebuilding
