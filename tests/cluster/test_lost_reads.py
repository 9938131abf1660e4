"""`hwmark show loss --bootstrap` beside a fake Kafka: groups, log ends, and rights that are missing."""

import json

import pytest
from typer.testing import CliRunner

from generators.cluster.committed import Stable, ask_committed
from generators.cluster.watcher import WatchOptions
from pipelines.alerting.lookup import read_incidents
from pipelines.alerting.state import AlertState
from pipelines.cli import app
from pipelines.commands.notify.groups import Groups
from pipelines.lake.lake import Lake
from pipelines.notify.episodes import Episode
from pipelines.notify.incidents import NOT_ASKED
from pipelines.notify.look import Round
from pipelines.settings import load
from schemas import notes
from tests.cluster.fake_admin import FakeGroup
from tests.cluster.fake_kafka import FakeCluster
from tests.unit.project.lakes import at, health, loss, sound, write

CLICKS = ("clicks", 0)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HWMARK_WATCH__TIMEOUT", "1s")
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(85))


@pytest.fixture
def lake(tmp_path):
    path = str(tmp_path / "lake")
    sound(path, health("clicks", 0))
    write(path, "hw_regressions", loss())
    return path


@pytest.fixture
def cluster():
    with FakeCluster() as fake:
        (partition,) = fake.topic("clicks", [2, 1, 3]).partitions
        partition.write(150)
        fake.groups = {
            "billing": FakeGroup(1, {CLICKS: 300}),
            "search": FakeGroup(2, {CLICKS: 140}),
            "slow": FakeGroup(3, {CLICKS: 100}),
            "other": FakeGroup(1),
        }
        yield fake


def show(lake, cluster, *options, what="loss"):
    server = ":".join(map(str, cluster.bootstrap()))
    done = CliRunner().invoke(app, ["show", what, "--lake", lake, "--bootstrap", server, *options])
    return done.exit_code, done.output


def below(text):
    lines = text.splitlines()
    return lines[next(k for k, line in enumerate(lines) if "roups" in line or "group has" in line) :]


def test_groups_above_the_log_end_come_first_with_what_they_have_read(lake, cluster):
    status, text = show(lake, cluster)
    heading, columns, first, second = below(text)
    assert (status, heading) == (0, "Groups that have read what is gone, or may have:")
    assert columns.split()[:3] == ["partition", "group", "committed"]
    assert first.split()[:6] == ["clicks-0", "billing", "300", "150", "150", "180"]
    assert first.endswith("has read what is gone; its next fetch is out of range")
    assert second.split()[:6] == ["clicks-0", "search", "140", "150", "0", "20"]


def test_as_data_the_groups_alone(lake, cluster):
    status, text = show(lake, cluster, "--format", "json")
    found = json.loads(text)
    assert (status, [(row["group"], row["above_log_end"], row["lost_read"]) for row in found]) == (
        0,
        [("billing", 150, 180), ("search", 0, 20)],
    )


def test_consumers_with_read_committed_that_wait_below_the_hw_are_told_with_kafkas_command(lake, cluster, monkeypatch):
    monkeypatch.setattr("generators.cluster.committed.STANDS_S", 0.0)
    assert "read_committed: no consumer waits below the HW in the 1 partition that answered" in show(lake, cluster)[1]
    cluster.topics["clicks"].partitions[0].lso = 120
    lines = show(lake, cluster)[1].splitlines()
    at_ = next(k for k, line in enumerate(lines) if line.startswith("read_committed"))
    assert lines[at_ : at_ + 2] == [
        "read_committed: consumers of clicks-0 stand at 120, 30 offsets below the HW, which did not go on either: "
        "whether a transaction holds them is not known; ask again",
        f"  kafka-transactions.sh --bootstrap-server {':'.join(map(str, cluster.bootstrap()))} find-hanging "
        "--topic clicks --partition 0",
    ]


@pytest.mark.parametrize(
    ("lso", "waits"), [pytest.param(120, True, id="it stands"), pytest.param(130, False, id="it goes on")]
)
def test_a_last_stable_offset_below_the_hw_is_asked_again_while_the_hw_moves(cluster, lso, waits):
    (partition,) = cluster.topics["clicks"].partitions
    partition.lso = 120

    def pause(_):
        partition.write(160)
        partition.lso = lso

    host, port = cluster.bootstrap()
    options = WatchOptions(((host, port),), timeout_s=5)
    (found,) = ask_committed(options, [CLICKS], pause).stable.values()
    assert (found, found.waits) == (Stable(120, 150, (lso, 160)), waits)


def test_an_incident_keeps_who_read_what_it_lost_and_when_that_was_asked(lake, cluster):
    lists = {name: [] for name in ("alert_ids", "firing", "brokers", "topics")}
    own = lists | {"incident_id": "i1", "partitions": ["clicks-0"], "lost_offsets": 180, "written_at": at(50)}
    write(lake, "incidents", own, own | {"incident_id": "i2", "partitions": ["orders-0"]})
    assert show(lake, cluster)[1].splitlines()[-1] == "kept with incident i1"
    rows = {row.incident_id: row for row in read_incidents(Lake(lake))}
    assert [(rows[name].groups, rows[name].groups_asked) for name in ("i1", "i2")] == [
        (["billing", "search"], at(85)),
        (None, None),
    ]
    assert [rows[name].readers for name in ("i1", "i2")] == [{"clicks-0": "billing, search"}, None]


@pytest.fixture(params=["election", "isr"], ids=["a controller told", "a watcher told"])
def offline_lake(tmp_path, request):
    """A lake in which clicks-0 was offline and is back; its incident is open, and one of other partitions too."""
    path = str(tmp_path / "lake")
    sound(path, health("clicks", 0))
    told = {"event_type": request.param, "topic": "clicks", "leader_id": -1, "ts": at(40)}
    write(path, "replication_events", told)
    lists = {name: [] for name in ("alert_ids", "firing", "brokers", "topics")}
    own = lists | {"incident_id": "i1", "partitions": ["clicks-0"], "state": "open", "written_at": at(50)}
    write(path, "incidents", own | {"offline": 1}, own | {"written_at": at(60)}, own | {"incident_id": "i2"})
    return path


def test_groups_of_an_offline_partition_and_its_last_stable_offset_are_asked_for(offline_lake, cluster, monkeypatch):
    """Also once it is back; its incident keeps them, one that never had it offline does not."""
    monkeypatch.setattr("generators.cluster.committed.STANDS_S", 0.0)
    (partition,) = cluster.topics["clicks"].partitions
    partition.lso = 120
    lines = show(offline_lake, cluster)[1].splitlines()
    assert any("consumers of clicks-0 stand at 120, 30 offsets below the HW" in line for line in lines)
    assert any(line.endswith("find-hanging --topic clicks --partition 0") for line in lines)
    found = {line.split()[1]: line for line in lines if line.startswith("clicks-0")}
    assert found.keys() == {"billing", "search", "slow"}
    assert all(line.endswith("reads a partition that is or was offline") for line in found.values())
    assert lines[-1] == "kept with incident i1"
    rows = {row.incident_id: row for row in read_incidents(Lake(offline_lake))}
    assert (rows["i1"].groups, rows["i1"].groups_asked) == (["billing", "search", "slow"], at(85))
    assert rows["i2"].groups is None


@pytest.mark.parametrize(
    ("isr", "eligible", "words"),
    [
        ([3], [], "broker 3 must come back: it alone may lead it without loss"),
        ([], [1], "broker 1 must come back: it alone may lead it without loss"),
        ([], [2, 1], "one of brokers 1, 2 must come back: they may lead it without loss"),
        ([3], [1], "one of brokers 1, 3 must come back: they may lead it without loss"),
        ([], [], "which broker may lead it without loss is not known"),
    ],
    ids=["last of the ISR", "one eligible leader replica", "several", "both", "none told"],
)
def test_who_must_come_back_to_an_offline_partition_is_asked_for(offline_lake, cluster, isr, eligible, words):
    (partition,) = cluster.topics["clicks"].partitions
    partition.leader, partition.isr, partition.eligible = -1, isr, eligible
    said = f"offline: clicks-0: {words}"
    for _ in range(2):
        assert said in show(offline_lake, cluster)[1].splitlines()
    noted = Lake(offline_lake).read(notes.TABLE, notes.ARROW).to_pylist()
    assert [(row["incident_id"], row["text"], row["author"]) for row in noted] == [("i1", said, "hwmark")]


def test_nobody_must_come_back_to_a_partition_with_a_leader(offline_lake, cluster):
    assert "must come back" not in show(offline_lake, cluster)[1]


def test_an_incident_whose_groups_could_not_all_be_asked_keeps_none_as_nobody(offline_lake, cluster):
    """Though another one, of an offline partition, keeps those that answered."""
    write(offline_lake, "hw_regressions", loss(partition=1))
    lists = {name: [] for name in ("alert_ids", "firing", "brokers", "topics")}
    lost = {"incident_id": "i3", "partitions": ["clicks-1"], "lost_offsets": 180, "written_at": at(50)}
    write(offline_lake, "incidents", lists | lost)
    cluster.groups["slow"].refused = True
    assert show(offline_lake, cluster)[1].splitlines()[-1] == "kept with incident i1"
    rows = {row.incident_id: row for row in read_incidents(Lake(offline_lake))}
    assert (rows["i1"].groups, rows["i3"].groups_asked) == (["billing", "search"], None)


def test_a_partition_that_was_offline_days_ago_is_asked_for_no_more(offline_lake, cluster, monkeypatch):
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(40 + 86_401))
    assert "No loss is known there, nor a partition that is offline or was within" in show(offline_lake, cluster)[1]


@pytest.mark.parametrize(("watched", "asked"), [("prod", True), ("other", False), ("", False)])
def test_notify_asks_once_which_groups_read_a_loss_of_the_cluster_that_it_watches(lake, cluster, watched, asked):
    server, said = ":".join(map(str, cluster.bootstrap())), []
    settings = load(flags={"watch": {"bootstrap": server, "cluster": watched}, "lake": {"path": lake}})
    loss_of_prod = AlertState(
        "i1", "incident", "critical", "firing", "broker 2", at(0), at(50), "LOST prod", {"cluster": "prod",
        "groups": NOT_ASKED}, at(50))  # fmt: skip
    groups = Groups(settings, said.append)
    for _ in range(2):
        groups.see(Round(at(85), (Episode(loss_of_prod, loss_of_prod),)))
        groups.ask(at(85))
    assert len(said) == asked
    assert all(line.startswith("consumer groups asked for: ") for line in said)


def test_no_group_has_read_it(lake, cluster):
    cluster.groups = {"slow": FakeGroup(3, {CLICKS: 100})}
    assert below(show(lake, cluster)[1]) == ["No group has committed an offset above the start of a loss."]


def test_a_group_that_may_not_be_described_is_named_and_the_others_are_asked(lake, cluster):
    cluster.groups["billing"].refused = True
    lines = below(show(lake, cluster)[1])
    assert lines[2].split()[1] == "search"
    assert lines[3:] == ["not known: what group billing has committed: allow DESCRIBE on it"]


def test_without_describe_on_the_cluster_there_may_be_other_groups(lake, cluster):
    cluster.describe_cluster, cluster.groups = False, {}
    assert below(show(lake, cluster)[1]) == [
        "Of the groups that could be asked none has committed an offset above the start of a loss.",
        "not known: whether there are other groups: allow DESCRIBE on the cluster, or on every group",
    ]


def test_a_coordinator_that_hangs_is_named(lake, cluster):
    cluster.brokers[3].hung = True
    lines = below(show(lake, cluster)[1])
    assert lines[-1] == "not known: the groups that broker 3 coordinates: it does not answer in time"


def test_a_topic_that_may_not_be_described_is_named(lake, cluster):
    cluster.topics["clicks"].refused = True
    assert any(
        "clicks: the topic is gone, or DESCRIBE on it is not allowed" in x for x in below(show(lake, cluster)[1])
    )


def test_a_topic_that_was_created_anew_is_not_compared(tmp_path, cluster):
    path = str(tmp_path / "anew")
    sound(path, health("clicks", 0))
    write(path, "hw_regressions", loss(topic_id="AAAAAAAAAAAAAAAAAAAAAQ"))
    assert below(show(path, cluster)[1])[-1] == "not known: 1 topic created anew since the loss: clicks"


def test_bootstrap_is_for_losses_alone(lake, cluster):
    status, text = show(lake, cluster, what="hw")
    assert (status, text) == (2, "hwmark: --bootstrap is for `show loss`: leave it out of `show hw`\n")
