"""Records are a view of the same bytes as rows of numbers."""

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.records import Arrays, as_records, copy_record, record_layout, records

POINT = record_layout(x=1, y=-2, z=1 << 62)


@kernel
def move(points, k, to):
    points[k].x += 5
    copy_record(points[to], points[k])


def test_what_is_written_to_a_record_is_written_to_its_row():
    rows = records(POINT, 3)
    move(as_records(POINT, rows), 0, 2)
    assert rows.tolist() == [[6, -2, 1 << 62], [1, -2, 1 << 62], [6, -2, 1 << 62]]


def test_a_layout_without_rows_has_records_too():
    assert len(as_records(POINT, records(POINT, 0))) == 0


def test_records_of_arrays_are_all_that_there_is_room_for():
    arrays = Arrays(POINT, width=2, count=3)
    arrays.records["y"][4] = 7
    assert arrays["y"].tolist() == [-2, -2, -2, -2, 7, -2]
    assert len(arrays.records) == len(arrays.data) > 6
