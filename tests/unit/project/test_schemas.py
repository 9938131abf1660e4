"""The declarations of the tables, and the comparison that lists every difference."""

import pyarrow as pa
import pytest

from schemas import MODULES, tables
from tests.schema_differences import differences

EXPECTED = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("hw", pa.int64()),
        pa.field("isr", pa.list_(pa.int32())),
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)


def test_equal_schemas_do_not_differ_whatever_their_order():
    assert differences(EXPECTED, pa.schema(reversed(list(EXPECTED)))) == []


def test_all_differences_are_listed_at_once():
    actual = pa.schema(
        [
            pa.field("cluster", pa.string()),
            pa.field("hw", pa.int32(), nullable=False),
            pa.field("ts", pa.timestamp("ms"), nullable=False),
            pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("extra", pa.string()),
        ]
    )
    assert differences(EXPECTED, actual) == [
        "column cluster allows null, expected not null",
        "column hw is int32, expected int64",
        "column hw refuses null, expected null allowed",
        "column isr is missing (expected list<item: int32>)",
        "column ts is there 2 times",
        "column ts is timestamp[ms], expected timestamp[us, tz=UTC]",
        "column extra is not expected",
    ]


@pytest.mark.parametrize("name", MODULES)
def test_arrow_and_spark_come_from_one_declaration(name):
    from pyspark.sql.pandas.types import to_arrow_schema

    table = tables()[name]
    spark = to_arrow_schema(table.spark(), timezone="UTC")
    assert spark.names == table.arrow().names
    assert [f.nullable for f in spark] == [f.nullable for f in table.arrow()]
    assert [str(f.type).split("<")[0] for f in spark] == [str(f.type).split("<")[0] for f in table.arrow()]


@pytest.mark.parametrize("name", MODULES)
def test_every_column_says_what_it_means(name):
    columns = tables()[name].columns
    assert [c.name for c in columns if not c.words] == []
    assert len({c.name for c in columns}) == len(columns)


def test_every_silver_row_says_where_when_and_under_which_leader():
    place = ["cluster", "topic", "topic_id", "partition", "ts", "leader_id", "leader_epoch", "level"]
    silver = {n: t for n, t in tables().items() if t.path.startswith("silver/")}
    assert {silver.pop(name).path for name in ("minute_stats", "coverage")}  # these are about brokers
    assert len(silver) == 6
    assert {n: [c for c in place if c not in t.arrow().names] for n, t in silver.items()} == {n: [] for n in silver}


def test_what_may_be_told_again_carries_a_revision():
    assert [n for n, t in tables().items() if "revision" in t.arrow().names] == ["isr_changes", "hw_regressions"]
