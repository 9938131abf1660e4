"""Lines of Kafka's loggers that carry evidence, made of its sources, and what the reader of logs makes of each."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from generators.brokerlogs.messages.harmless import HARMLESS
from tests.unit.brokerlogs.log_lines import ID, events, leader, line
from tests.wordings.statements import statements

STATE = "state.change.logger"
_FILE = re.compile(r"(.*)/(\w+)\.(?:scala|java)$")
_CONTROLLER = ("PartitionStateMachine", "ReplicaStateMachine", "ControllerChannelManager", "TopicDeletionManager")
_LOGGERS = {"AbstractFetcherThread": "ReplicaFetcherThread"} | {
    name: f"Default{name}" for name in ("AlterPartitionManager", "AlterIsrManager")
}
EVIDENT = {*HARMLESS, "SubscriptionState", "MetadataCache", "ReplicaManager", *_LOGGERS, *_CONTROLLER}
_FETCHER = "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] "
_QUORUM = "[QuorumController id=1] "
_PREFIXES = {
    "Partition": "[Partition orders-1 broker=1] ",
    "ReplicaFetcherThread": _FETCHER,
    "AbstractFetcherThread": _FETCHER,
    "Log": "[Log partition=orders-1, dir=/d] ",
    "UnifiedLog": "[UnifiedLog partition=orders-1, dir=/d] ",
    "KafkaController": "[Controller id=1] ",
    "BrokerLifecycleManager": "[BrokerLifecycleManager id=1] ",
    "QuorumController": _QUORUM,
} | {name: _QUORUM for name in HARMLESS if name.endswith(("ControlManager", "HeartbeatManager"))}
_REGISTRATION = (
    "replicas=[1, 2], isr=[1, 2], removingReplicas=[], addingReplicas=[], leader=1, leaderEpoch=7, partitionEpoch=9"
)
_SENT = "LeaderAndIsr(leader=1, leaderEpoch=7, isr=List(1, 2), "
_CHANGE = (
    "PartitionChangeRecord(partitionId=1, topicId="
    + ID
    + ", isr=[1], leader=-2, replicas=null, removingReplicas=null, "
    "addingReplicas=null, leaderRecoveryState=-1)"
)
_BROKER = "brokerId=2, incarnationId=x, brokerEpoch=11, endPoints=[], rack=null, fenced=true)"
_POSITION = "FetchPosition{{offset={}, offsetEpoch=Optional[6], currentLeader=LeaderAndEpoch{{{}}}}}"
_LEADER_OF = "leader=Optional[b:9092 (id: 2 rack: null)], epoch=7"
_FORMS: tuple[tuple[str, str], ...] = (
    (r"(.*All current LEOs are )7",
     r"\1Set(replica 1: (offset=9, segment=[0:9]), replica 2: (offset=7, segment=[0:9]))"),
    (r"(ISR updated (?:from AlterIsr )?to )1,2 1,2( and .*)", r"\g<1>1,2 \2"),
    (r"(Leader .* ISR )1,2,? ?(adding\w* ?[Rr]eplicas )1,2 ?,?((?:and )?removing ?[Rr]eplicas )1,2(?: 1,2)?(.*)",
     r"\1[1,2], \2[] \3[] \4"),
    (r"(Skipped the become-\w+ state change for orders-1 with topic id )" + ID + r"( and partition state )Online(.*)",
     rf"\1Some({ID})\2LeaderAndIsrPartitionState(topicName='orders', partitionIndex=1, controllerEpoch=-1, leader=1, "
     r"leaderEpoch=7, isr=[1, 2], partitionEpoch=9, replicas=[1, 2], leaderRecoveryState=0)\3"),
    (r"(Skipped the become-\w+ state change for orders-1 with topic id )" + ID + r"(, partition registration )7(.*)",
     rf"\1Some({ID})\2PartitionRegistration({_REGISTRATION})\3"),
    (r"(Sending ISR|Submitting ISR state change) (?:1,2|Online|7)",
     rf"\1 PendingExpandIsr(newInSyncReplicaId=2, sentLeaderAndIsr={_SENT}leaderRecoveryState=RECOVERED, "
     "partitionEpoch=9), leaderRecoveryState=RECOVERED, lastCommittedState=CommittedPartitionState(isr=Set(1), "
     "leaderRecoveryState=RECOVERED))"),
    (r"(Failed to alter partition to )1,2( since the controller rejected the request with ).*?(\. Partition state .*"
     r" state )\S+",
     r"\1PendingExpandIsr(newInSyncReplicaId=2)\2INELIGIBLE_REPLICA\3CommittedPartitionState(isr=Set(1), "
     "leaderRecoveryState=RECOVERED)."),
    (r"(Controller successfully handled AlterPartition request for ).*",
     r"\1orders-1: PartitionData(partitionIndex=1, errorCode=0, leaderId=1, leaderEpoch=7, isr=[1, 2], "
     "leaderRecoveryState=0, partitionEpoch=9)"),
    (r"(Follower received high watermark 7 from the leader) .*",
     r"\1 which updated replica high watermark to 7 for partition orders-1"),
    (r"(Truncating partition orders-1 with )\w+( due to local high watermark 7)",
     r"\1TruncationState(offset=7, completed=true)\2"),
    (r"(Truncating partition orders-1 with )\w+( due to leader epoch and offset )7",
     r"\1TruncationState(offset=7, completed=true)\2EpochEndOffset(errorCode=0, partition=1, leaderEpoch=6, "
     "endOffset=7)"),
    (r"(ISR for partition orders-1 updated to )1,2\.", rf"\1{_SENT}zkVersion=9)."),
    (r"(Changed partition orders-1) from (?:orders-1|1,2) to Online with state (?:orders-1|1,2)",
     rf"\1 from OfflinePartition to OnlinePartition with state {_SENT}zkVersion=9)"),
    (r"(Changed partition orders-1 state) from orders-1 to Online with assigned replicas orders-1",
     r"\1 from NonExistentPartition to NewPartition with assigned replicas 1,2"),
    (r"(Partition orders-1 state changed to )7( after .*)",
     r"\1(Leader:1,ISR:1,LeaderEpoch:7,ZkVersion:9,ControllerEpoch:7)\2"),
    (r"(Sending )Online( LeaderAndIsr request )Online( to broker )7( for partition orders-1)",
     r"\1become-leader\2LeaderAndIsrPartitionState(topicName='orders', partitionIndex=1, controllerEpoch=7, leader=1, "
     r"leaderEpoch=7, isr=[1, 2], zkVersion=9, replicas=[1, 2], isNew=false)\g<3>2\4"),
    (r"(Registered new broker|Re-registered broker incarnation|Re-registered broker id 2): 7",
     rf"\1: RegisterBrokerRecord({_BROKER}"),
    (r"(Fence|Unfence)d( broker: )7", r"\1d\2\1BrokerRecord(id=2, epoch=11)"),
    (r"(Unregistered broker: )7", r"\1UnregisterBrokerRecord(brokerId=2, brokerEpoch=11)"),
    (r"(Replayed .*RegisterBrokerRecord .*broker 2: )7", rf"\1RegisterBrokerRecord({_BROKER}"),
    (r"Replayed 7( modifying the registration for broker 2: )7",
     r"Replayed BrokerRegistrationChangeRecord\1BrokerRegistrationChangeRecord(brokerId=2, brokerEpoch=11, fenced=1, "
     "inControlledShutdown=0, logDirs=[])"),
    (r"Replayed 7", "Replayed UnregisterBrokerRecord(brokerId=2, brokerEpoch=11)"),
    (r"7(: set configuration )orders( to 7)", r"ConfigResource(type=TOPIC, name='orders')\1min.insync.replicas\2"),
    (r"(Replayed ConfigRecord for )\S+( which set configuration )\S+( to 7)",
     r"\1ConfigResource(type=TOPIC, name='orders')\2min.insync.replicas\3"),
    (r"(Created partition )7 and 7\.", rf"\1orders-1 with topic ID {ID} and PartitionRegistration({_REGISTRATION})."),
    (r"(Replayed PartitionRecord for \w+ partition )7 and 7\.",
     rf"\1orders-1 with topic ID {ID} and PartitionRegistration({_REGISTRATION})."),
    (r"(Replayed partition (?:assignment )?change )7( for topic orders\. )\(.*", rf"\1{_CHANGE}\2(isr: [1, 2] -> [1], "
     "replicaSet: [1, 2] -> [1, 2], partitionEpoch: 9, leaderEpoch: 7)"),
    (r"(Replayed partition (?:assignment )?change )7( for topic orders)", rf"\1{_CHANGE}\2"),
    (r"7(: changing .*)", r"handleBrokerFenced\1"),
    (r"7( already exists\.)", r"Log\1"),
    (r"(Truncation detected for partition orders-1 at offset )7( \(the end offset from the broker is )7(.*)",
     rf"\1{_POSITION.format(7, _LEADER_OF)}\2OffsetAndMetadata{{offset=5, leaderEpoch=6, metadata=''}}\3"),
    (r"(Truncation detected for partition orders-1 at offset )7(, .*diverge )7",
     rf"\1{_POSITION.format(7, _LEADER_OF)}\2{_POSITION.format(5, _LEADER_OF)}"),
)  # fmt: skip
"""Lines whose arguments have a form that the reader looks at: what a call prints, and how it really looks."""


_FOLLOWS = (
    "[Broker id=1] Follower orders-1 starts at leader epoch 0 from offset 9 with partition epoch 0 and high watermark "
    "9. Current leader is 2. Previous leader None and previous leader epoch was -1."
)


def lines(folder: str, name: str, source: str) -> Iterator[tuple[str, str]]:
    """Return (logger, line) of each log statement of a file that may carry evidence; `folder` is its package."""
    for statement in statements(source) if name in EVIDENT else ():
        if statement.of_state_changes:
            of_broker = name in ("Partition", "ReplicaManager", "MetadataCache")
            logger, prefix = STATE, "[Broker id=1] " if of_broker else "[Controller id=1 epoch=7] "
        elif name in _CONTROLLER or name in ("MetadataCache", "ReplicaManager"):
            continue
        else:
            logger, prefix = f"{folder.replace('/', '.')}.{_LOGGERS.get(name, name)}", _PREFIXES.get(name, "")
        yield logger, prefix + _formed(statement.example)


def _formed(example: str) -> str:
    for pattern, form in _FORMS:
        if found := re.fullmatch(pattern, example):
            return found.expand(form)
    return example


def lines_of_jar(jar: Path) -> Iterator[tuple[str, str]]:
    """The same of a jar with sources."""
    with zipfile.ZipFile(jar) as packed:
        for entry in packed.namelist():
            if file := _FILE.match(entry):
                yield from lines(file[1], file[2], packed.read(entry).decode())


def made_of(logger: str, text: str) -> str:
    """Types of the rows that the reader makes of a line, on a leader of the partition or a follower; else `nothing`."""
    kinds = set[str]()
    for before in (leader(leo=9, hw=5), line(_FOLLOWS, STATE)):
        known = len(events(before, broker_id=1))
        kinds |= {row["event_type"] for row in events(before, line(text, logger, ms=1000), broker_id=1)[known:]}
    return ", ".join(sorted(kinds)) or "nothing"
