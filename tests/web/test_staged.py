"""The staged lakes do not contradict themselves: what one table says of now another says, too."""

import pytest
from deltalake import DeltaTable

from tests.web import staged


@pytest.fixture(scope="module", params=staged.KINDS)
def tables(request, tmp_path_factory):
    lake = str(tmp_path_factory.mktemp(request.param) / "lake")
    staged.write_lake(lake, request.param)
    return lambda path: DeltaTable(f"{lake}/{path}").to_pyarrow_table().to_pylist()


def latest(rows):
    found = {}
    for row in sorted(rows, key=lambda row: row["ts"]):
        found[row["topic"], row["partition"]] = row
    return found


def test_the_history_of_a_partition_ends_as_its_header_says(tables):
    health = {(row["topic"], row["partition"]): row for row in tables("gold/partition_health")}
    heads = latest(tables("silver/partition_hw"))
    row, head = health[staged.LOSER], heads[staged.LOSER]
    assert {name: row[name] for name in ("hw", "leader_leo", "isr", "leader_id", "leader_epoch")} == {
        name: head[name] for name in ("hw", "leader_leo", "isr", "leader_id", "leader_epoch")
    }
    leads = {place: one["leader_id"] for place, one in heads.items()}
    assert {place: one["leader_id"] for place, one in health.items() if not one["offline"]} == {
        place: broker for place, broker in leads.items() if not health[place]["offline"]
    }


def test_a_replica_in_the_isr_follows_to_the_end_and_one_that_is_away_to_its_end(tables):
    health = next(row for row in tables("gold/partition_health") if (row["topic"], row["partition"]) == staged.LOSER)
    away = [row["broker_id"] for row in tables("gold/brokers") if row["state"] != "answers"]
    ends = {row["replica_id"]: row for row in sorted(tables("silver/replica_sync"), key=lambda row: row["ts"])}
    for broker in {*health["isr"]} - {health["leader_id"], *away}:
        assert health["leader_leo"] - ends[broker]["leo"] <= 2
    for broker in away:
        assert broker not in ends or ends[broker]["ts"] <= staged.GONE


def test_counts_of_the_last_minute_brokers_and_partitions_agree(tables):
    health, last = tables("gold/partition_health"), max(tables("gold/cluster_minute"), key=lambda row: row["minute"])
    assert {name: last[name] for name in ("offline", "under_min_isr", "under_replicated")} == {
        "offline": sum(row["offline"] for row in health),
        "under_min_isr": sum(row["under_min_isr"] for row in health),
        "under_replicated": sum(row["under_replicated"] and not row["offline"] for row in health),
    }
    for row in tables("gold/brokers"):
        led = sum(one["leader_id"] == row["broker_id"] for one in health)
        outside = sum(row["broker_id"] in one["ar"] and row["broker_id"] not in one["isr"] for one in health)
        assert (row["led"], row["outside_isr"], row["led"] + row["followed"]) == (led, outside, row["replicas"])


def test_a_broker_that_does_not_answer_has_no_lag_of_later(tables):
    since = {row["broker_id"]: row["since"] for row in tables("gold/brokers") if row["state"] != "answers"}
    assert [row for row in tables("gold/broker_lag") if row["ts"] > since.get(row["broker_id"], row["ts"])] == []


def test_alerts_count_the_partitions_of_now(tables):
    health = tables("gold/partition_health")
    found = {row["rule"]: dict(row["labels"]).get("count") for row in tables("ops/alerts") if row["state"] == "firing"}
    risk = sum(row["under_replicated"] and not row["offline"] for row in health)
    assert found.get("offline", "0") == str(sum(row["offline"] for row in health))
    assert found.get("at_risk", "0") == str(risk)
