"""The kinds of lines that each logger prints, by its name, and loggers that print nothing on replication."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.byte_text import ends_with, literal
from generators.brokerlogs.scanning.line_record import ALTER, IGNORED, RARE, REQUEST

PARTITION, STATE, FETCHER, LOG_LAYER, QUORUM, DIRECTORIES = 101, 102, 103, 104, 105, 106
"""Loggers whose messages are of several kinds; of every other logger all are of one kind."""
_CLASSES = {
    ".Partition": PARTITION,
    "state.change.logger": STATE,
    "AlterPartitionManager": ALTER,
    ".ReplicaFetcherThread": FETCHER,
    ".UnifiedLog": LOG_LAYER,
    ".MergedLog": LOG_LAYER,
    "kafka.log.Log": LOG_LAYER,
    "kafka.request.logger": REQUEST,
    ".QuorumController": QUORUM,
    ".ReplicaManager": DIRECTORIES,
    ".LogManager": DIRECTORIES,
} | dict.fromkeys(
    [
        ".ReplicationControlManager",
        ".ClusterControlManager",
        ".ConfigurationControlManager",
        ".FeatureControlManager",
        ".BrokerHeartbeatManager",
        ".BrokerLifecycleManager",
        ".LogDirFailureChannel",
        ".FeaturesPublisher",
        ".Log4jControllerRegistration",
        ".Log4jControllerRegistration$",
        ".AppInfoParser",
        ".BrokerServer",
        ".ControllerServer",
        ".KafkaServer",
        ".KafkaController",
        ".KafkaZkClient",
        ".ZooKeeperClient",
        ".OfflinePartitionLeaderSelector",
        ".SubscriptionState",
    ],
    RARE,
)
"""By end of a logger's name, because classes move between packages."""
_ENDS = literal("\n".join([*_CLASSES, ""]))
_KINDS = np.array(list(_CLASSES.values()), np.int64)

_PACKAGES = """
kafka.admin kafka.authorizer kafka.common kafka.controller kafka.coordinator kafka.log.remote kafka.metrics
kafka.migration kafka.network kafka.raft kafka.security kafka.server.logger kafka.server.metadata kafka.server.share
kafka.utils kafka.zk kafka.zookeeper org.apache.kafka.clients org.apache.kafka.common org.apache.kafka.coordinator
org.apache.kafka.deferred org.apache.kafka.image org.apache.kafka.metadata org.apache.kafka.network
org.apache.kafka.queue org.apache.kafka.raft org.apache.kafka.security org.apache.kafka.server.config
org.apache.kafka.server.controller org.apache.kafka.server.fault org.apache.kafka.server.log.remote
org.apache.kafka.server.logger org.apache.kafka.server.metrics org.apache.kafka.server.network
org.apache.kafka.server.purgatory org.apache.kafka.server.quota org.apache.kafka.server.share
org.apache.kafka.server.transaction org.apache.kafka.server.util org.apache.kafka.snapshot
org.apache.kafka.storage.internals.checkpoint org.apache.kafka.storage.internals.epoch
org.apache.kafka.storage.internals.utils org.apache.kafka.storage.log org.apache.kafka.timeline
org.apache.zookeeper org.eclipse.jetty
"""
_CLASSES_OF_BROKERS = """
AbstractFetcherManager AclApis AclAuthorizer AddPartitionsToTxnManager AssignmentsManager BrokerConfigHandler
BrokerFeatures BrokerToControllerChannelManagerImpl BrokerToControllerRequestThread BrokerTopicStats
ClientMetricsConfigHandler ClientMetricsManager ClientQuotaManager ClientRequestQuotaManager ConfigAdminManager
ConfigHelper ControllerApis ControllerMutationQuotaManager ControllerRegistrationManager DefaultAutoTopicCreationManager
DelayedActionQueue DelayedDeleteRecords DelayedFetch DelayedOperation DelayedOperationPurgatory DelayedProduce
DelayedRemoteFetch DelegationTokenManager DynamicBrokerConfig DynamicConfigManager DynamicListenerConfig
DynamicLogConfig DynamicProducerStateManagerConfig DynamicRemoteLogConfig DynamicReplicationConfig
DynamicThreadPool FetchContext FetchManager FetchSession FetchSessionCacheShard FetcherLagStats
FinalizedFeatureChangeListener ForwardingManagerImpl FullFetchContext GroupConfigHandler IncrementalFetchContext
IpConfigHandler KafkaApis KafkaBroker KafkaConfig KafkaRaftServer KafkaRequestHandler KafkaRequestHandlerPool
KafkaServer LocalLeaderEndPoint NodeToControllerChannelManagerImpl NodeToControllerRequestThread QuotaFactory
RaftControllerNodeProvider RemoteLeaderEndPoint ReplicaAlterLogDirsManager ReplicaAlterLogDirsThread
ReplicaFetcherBlockingSend ReplicaFetcherManager ReplicationQuotaManager SessionErrorContext SessionlessFetchContext
SharedServer ThrottledChannel TierStateMachine TopicConfigHandler UserConfigHandler ZkAdminManager ZkConfigManager
AbstractIndex Cleaner LocalLog LogCleaner LogCleanerManager LogLoader LogSegment LogTruncation OffsetIndex
ProducerAppendInfo ProducerStateManager RemoteIndexCache RemoteLogManager RemoteStorageThreadPool SnapshotFile
TimeIndex TransactionIndex DelayedOperations Replica
AclControlManager ClientQuotaControlManager DelegationTokenControlManager EventPerformanceMonitor LogReplayTracker
OffsetControlManager PartitionChangeBuilder PeriodicTaskControlManager ProducerIdControlManager ScramControlManager
"""
_MIXED = """
kafka.cluster kafka.log kafka.server org.apache.kafka.controller org.apache.kafka.server org.apache.kafka.server.replica
org.apache.kafka.storage.internals.log
"""
"""Packages with loggers of both sorts: a class that is not listed above may be a new one with evidence."""
_SILENT_PACKAGES = tuple(f"{package}." for package in _PACKAGES.split())
_SILENT_CLASSES, _MIXED_PACKAGES = frozenset(_CLASSES_OF_BROKERS.split()), frozenset(_MIXED.split())


@lru_cache(maxsize=4096)
def class_name(name: str) -> str:
    """The class of a logger without its package; `state.change.logger` as it is."""
    return name if name.endswith("state.change.logger") else name.partition("$")[0].rpartition(".")[2]


@lru_cache(maxsize=4096)
def is_irrelevant(name: str) -> bool:
    """Whether lines of this logger are known to have no information on replication; False where that is not known."""
    outer, inner, _ = name.partition("$")
    package, _, of = outer.rpartition(".")
    if name.startswith(_SILENT_PACKAGES):
        return True
    return package in _MIXED_PACKAGES and (
        of in _SILENT_CLASSES or (bool(inner) and (f".{of}" in _CLASSES or outer in _CLASSES))
    )


@compiled
def logger_class(buf: Array, pos: int, end: int) -> int:
    """The class of a logger: one of the constants above, or the one kind of its lines."""
    start, k = 0, 0
    for at in range(_ENDS.size):
        if _ENDS[at] != 10:
            continue
        if ends_with(buf, pos, end, _ENDS[start:at]):
            return int(_KINDS[k])
        start, k = at + 1, k + 1
    return IGNORED
