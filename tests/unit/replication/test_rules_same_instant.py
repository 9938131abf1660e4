"""In one millisecond: within a source its numbers decide, between sources what happens first by Kafka's rules."""

from pipelines.replication import replay
from tests.unit.replication.bronze import Source, controller, table, values_of


def cluster(*states, at=100):
    """Broker 3 leaves the ISR in the millisecond in which the controller reports these states of it."""
    leader = Source().leader(0, 0, 0, 0, [1, 2, 3]).isr(at, [1, 2], 1, "metadata").progress(30_000)
    telemetry = controller(controller_epoch=1, committed=True)
    for k, state in enumerate(states):
        if state == "isr":
            telemetry.isr(at, [1, 2], 1, "controller", leader_id=1, leader_epoch=0)
        else:
            detail, epoch = state
            telemetry.broker_state(at if k else 0, 3, detail, epoch)
    return replay(table(leader, telemetry.progress(30_000)))


def causes(*states):
    return values_of(cluster(*states).isr_changes, "cause", change="shrink")


def test_states_of_a_broker_in_one_millisecond_stand_in_the_order_of_their_source():
    begun = ("started", 3)
    assert causes(begun, ("unfenced", 3), ("fenced", 3), "isr") == ["controller_fenced"]
    assert causes(begun, ("unfenced", 3), ("controlled_shutdown", 3), "isr") == ["controlled_shutdown"]
    assert causes(begun, ("unfenced", 3), ("controlled_shutdown", 3), "isr", ("fenced", 3)) == ["controlled_shutdown"]


def test_what_a_controller_reports_behind_a_change_does_not_undo_its_cause():
    states = ("started", 3), ("unfenced", 3), ("fenced", 3), "isr", ("started", 4), ("unfenced", 4)
    assert causes(*states) == ["controller_fenced"]


def restarted(hw=1):
    """A broker that cuts at its own HW when it starts again (before Kafka 0.11), in the millisecond of its start."""
    leader = Source().leader(0, 0, 0, 0, [1, 2]).append(10, 2).fetch(20, 2, 2, 2).hw(20, 2).progress(60_000)
    follower = Source("broker-2/replication.log").follower(0, 0, 0, 0, 1)
    if hw:
        follower.follower_hw(30, hw, 1)
    follower.truncate(1_000, 1).follower(1_000, 0, 1, 1, 1).progress(60_000)
    return replay(table(leader, follower, controller().progress(60_000)))


def test_a_cut_ahead_of_the_line_of_its_start_is_explained_by_the_terms_before():
    rows = values_of(restarted().hw_regressions, "regression_id", "class", "hw_before", "hw_after", "leader_epoch")
    assert [row[1:] for row in rows if "cut" in row[0]] == [("loss_not_excluded", 2, 1, 0)]


def test_a_replica_that_reported_no_hw_may_not_have_fetched_yet():
    rows = values_of(restarted(hw=0).hw_regressions, "regression_id", "class")
    assert [row for row in rows if "cut" in row[0] and row[1] == "loss_not_excluded"] == []
