"""Which groups have read what is gone: losses, log ends and committed offsets made by hand."""

from pipelines.verdict.lost_reads import Read, lost_reads


def loss(**values):
    given = {"topic": "clicks", "partition": 0, "regression_id": "r1", "lost_from": 120, "lost_to": 300}
    return given | {"start_offset": 120} | values


AT = ("clicks", 0)


def one(committed, end, **values):
    found = lost_reads([loss(**values)], {AT: end} if end is not None else {}, {"billing": {AT: committed}})
    return [(read.above, read.lost_read, read.read) for read in found]


def test_a_group_above_the_log_end_has_read_what_is_gone():
    assert one(300, 150) == [(150, 180, Read.ABOVE_LOG_END)]
    assert one(200, 150) == [(50, 80, Read.ABOVE_LOG_END)]


def test_a_group_inside_a_log_that_has_grown_since_may_have_read_either():
    assert one(200, 1_000) == [(0, 80, Read.MAYBE)]
    assert one(900, 1_000) == [(0, 180, Read.MAYBE)]


def test_a_group_at_or_below_the_start_of_the_loss_has_read_nothing_of_it():
    assert one(120, 150) == []
    assert one(3, 150) == []


def test_without_a_log_end_nothing_is_certain():
    assert one(300, None) == [(None, 180, Read.MAYBE)]


def test_where_the_range_is_not_known_only_the_log_end_speaks():
    unknown = {"lost_from": None, "lost_to": None, "start_offset": None}
    assert one(300, 150, **unknown) == [(150, None, Read.RANGE_NOT_KNOWN)]
    assert one(100, 150, **unknown) == []
    assert one(200, 150, lost_from=None, lost_to=None) == [(50, None, Read.RANGE_NOT_KNOWN)]


def test_groups_of_other_partitions_are_not_named_and_the_furthest_comes_first():
    committed = {"a": {("orders", 0): 500}, "b": {AT: 200}, "c": {AT: 300}}
    assert [read.group for read in lost_reads([loss()], {AT: 150}, committed)] == ["c", "b"]
