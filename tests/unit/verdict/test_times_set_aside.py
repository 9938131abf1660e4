"""Rows that are set aside for their times count in minutes of their own, which begin and end nothing."""

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lake.lake import Lake
from pipelines.lake.queries import beginnings, presents
from tests.unit.project.lakes import NOON, at, health, reported, write


@pytest.mark.parametrize("year", [1970, 2200])
def test_a_cluster_neither_begins_nor_ends_with_them(tmp_path, year):
    lake = str(tmp_path)
    reported(lake, 1, 2, 3)
    write(lake, "partition_health", health("orders", 0))
    write(lake, "hw_regressions")
    write(lake, "brokers", *({"cluster": "prod", "broker_id": broker, "ts": at(60)} for broker in (1, 2, 3)))
    minutes = [{"cluster": "prod", "minute": minute} for minute in (NOON, datetime(year, 1, 1, tzinfo=UTC))]
    write(lake, "cluster_minute", *minutes)
    place = Lake(lake, {})
    assert (beginnings(place), presents(place)) == ({"prod": NOON}, {"prod": at(60)})
    write(lake, "partition_hw", *({"cluster": "prod", "ts": at(seconds)} for seconds in (-5, 11, 20, 70)))
    assert beginnings(place) == {"prod": at(11)}, "a verdict says nothing of what was before its first row"
    said = CliRunner().invoke(app, ["check", "--lake", lake]).output
    assert str(year) not in said
    assert "2026-09-01" in said
