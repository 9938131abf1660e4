"""A year at the level of its tables: what is measured is a lake that can be read."""

from pipelines.bench.measure import months


def test_a_row_for_each_table_with_what_it_holds(monkeypatch):
    monkeypatch.setattr(months, "DAYS", 3)
    monkeypatch.setattr(months, "TODAY", 4)
    hws, health = months.measured(10 * months.INTERVAL_S / 3600)
    assert (hws["table"], health["table"]) == ("silver/partition_hw", "gold/partition_health")
    # Three days, four files of today, and the one that these are copies of.
    assert hws["files"] == str(3 + 4 + 1)
    assert int(hws["entries of the log"]) >= 10
    assert set(hws) == set(health) == set(months.COLUMNS)
