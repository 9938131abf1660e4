"""hwmark beside a real Kafka under three faults says what happened: no more, no less, and while it happens."""

import pytest

from tests.realkafka import verdicts, zookeeper
from tests.realkafka.story import Story

pytestmark = pytest.mark.realkafka


def test_the_faults_had_their_effect(story: Story) -> None:
    assert verdicts.without_effect(story) == []


def test_lost_ranges_are_what_clients_lost(story: Story) -> None:
    assert verdicts.wrong_losses(story) == []


def test_isr_changes_are_those_of_the_metadata_log(story: Story) -> None:
    assert verdicts.wrong_isr_changes(story) == []


def test_no_report_of_a_broker_disagrees(story: Story) -> None:
    assert verdicts.disagreements(story) == []


def test_no_telemetry_is_missing_though_files_rotate(story: Story) -> None:
    assert verdicts.gaps(story) == []


def test_every_fault_had_its_row_and_its_alert_while_the_cluster_went_on(story: Story) -> None:
    assert [fault.name for fault in story.faults if None in (fault.row_ms, fault.alert_ms)] == []


def test_ingest_and_run_ended_when_asked_to(story: Story) -> None:
    assert story.statuses == {"ingest": 0, "run": 0}


def test_a_controlled_shutdown_is_logged_to_its_end(story: Story) -> None:
    """log4j's own shutdown hook would end all logging at SIGTERM (Kafka 4.4)."""
    logged = {node: lines.count("state.change.logger") > 0 for node, lines in story.logged_while_stopping.items()}
    assert logged == {1: True, 2: True}


def test_the_version_and_the_active_controller_are_in_replication_log(story: Story) -> None:
    """The rules of a version, and which controller's lines are committed, are known from our file alone."""
    logs = [broker.replication_log() for broker in story.cluster.brokers.values()]
    assert all(f"Kafka version: {story.kafka.kafka}" in log for log in logs)
    # A controller of ZooKeeper's says so in controller.log, which is beside it.
    if story.kafka.name not in zookeeper.VERSIONS:
        assert any("Becoming the active controller at epoch" in log for log in logs)
