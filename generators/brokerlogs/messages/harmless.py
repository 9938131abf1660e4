"""Messages of the loggers with evidence that are known to add nothing to other lines.

In the wording of Kafka's sources (1.1 to 4.4), with `{}` for arguments. A message that is neither here nor
matches a pattern may be evidence in a new wording.
"""

from __future__ import annotations

import re

_PARTITION = """
No checkpointed highwatermark is found for partition {}
Lagging replicas are {}
Replica {} received offset {}
{} acks satisfied with acks = -1
Leader does not have a local log
Sent `AlterIsr` request to change state to {}
Log loaded for partition {} with initial high watermark {}
Future UnifiedLog already exists.
Log already exists.
Future Log already exists.
Enqueued ISR change to state {}
ISR update in-flight, {}
Controller failed to update ISR to {}
Failed to update ISR to {} since {}
Failed to update ISR to {} due to invalid version. {}
Failed to update ISR to {} because the version is invalid. {}
Failed to alter partition to {} since there is a pending AlterPartition still inflight. {}
Ignoring ISR from AlterIsr with {}
Failed to enqueue ISR change state {}
Current log directory {} is same as requested log dir {}
The future log dir {} of {} is different from the requested log dir {}
Ignoring failed ISR update to {} since we have already updated state to {}
Failed to alter partition to {} since the controller doesn't know about this topic
Failed to alter partition to {} since the leader epoch is old.
Failed to alter partition to {} because the partition epoch is invalid.
Failed to alter partition to {} because the request is invalid.
The alter partition request successfully updated the partition state to {} but this replica got removed
Failed to update ISR to {} due to unexpected {}. Retrying.
Ignoring new ISR {} since we have a stale leader epoch {}
Ignoring new ISR {} since we have a newer version {}
Unexpected offset in append to {}. First offset {} is less than log start offset {}
Leader {} failed to record follower {}'s position {}
The replica state of replica ID:[{}] doesn't exist in the leader node.
Skipping creation of log because there are potentially offline log directories
"""
_STATE_CHANGE = """
Transitioning {} partition(s) to local leaders.
Transitioning {} partition(s) to local followers.
Started fetchers as part of become-follower for {} partitions
Stopped fetchers as part of become-follower for {} partitions
Stopped fetchers as part of become-follower request from controller {}
Stopped fetchers as part of become-leader request from controller {}
Started fetcher to new leader as part of become-follower request from controller {}
Truncated logs and checkpointed recovery boundaries for partition {} as part of become-follower request {}
Stopped fetchers as part of controlled shutdown for {} partitions
Stopped fetchers as part of LeaderAndIsr request {}
Deleting {} partition(s).
Unable to delete replica {} because {}
Unable to delete stray replica {} because {}
Expected partition {} with topic id {} to exist, but it was missing. Creating...
Unable to bring up new local leader {} because it resides in an offline log directory.
Unable to start fetching {}
Skipped the become-leader state change for {} with topic id {} due to a storage error {}
Skipped the become-leader state change with correlation id {}
Skipped the become-leader state change after marking its partition as leader {}
Skipped the become-leader state change for {} because this partition is already a local leader.
Skipped the become-leader state change for {} due to disk error {}
Skipped the become-follower state change after marking its partition as follower {}
Skipped the become-follower state change with correlation id {}
Skipped the adding-fetcher step of the become-follower state change {}
Skipped the update topic ID step of the become-follower state change {}
Applying metadata delta
A ZooKeeper client exception has occurred
While handling full LeaderAndIsr request from KRaft {}
Topic ID in memory: {} does not match the topic ID for partition {}
Topic Id in memory: {} does not match the topic Id for partition {}
Updating log for {} to assign topic ID {}
Updating PartitionFetchState for {} to remove log topic ID {}
Handling {} request correlationId {}
Received {} request
Received LeaderAndIsrRequest with correlation id {}
Ignoring LeaderAndIsr request from {}
Ignoring StopReplica request {}
Handling stop replica {}
Ignoring stop replica {}
Finished handling stop replica {}
Finished LeaderAndIsr request in {}
Completed LeaderAndIsr request correlationId {}
Error while processing LeaderAndIsr request {}
Add {} partitions and deleted {} partitions from metadata cache
Cached leader info {} for partition {} in response to UpdateMetadata request {}
Deleted partition {} from metadata cache in response to UpdateMetadata request {}
Changed partition {} state from {}
Changed state of replica {} for partition {}
Controller {} epoch {} failed to change state for partition {}
Controller {} epoch {} initiated state change of replica {}
Sending {} LeaderAndIsr request {}
Sending LeaderAndIsr request to broker {}
Sending UpdateMetadata request {}
Sending StopReplica request {}
Sent LeaderAndIsr request {}
Failed to send LeaderAndIsr request {}
Received response {}
Received error {} in {}
Received error in LeaderAndIsr response {}
Mark replicas {} on broker {} as offline
"""
_ALTER_PARTITION = """
Sending AlterPartition to controller {}
Received AlterPartition response {}
Received an unexpected topic {} in the alter partition response
Broker had a stale broker epoch {}
Broker is not authorized to send AlterPartition to controller
Controller returned an invalid leader recovery state {}
Controller returned an unexpected top-level error when handling AlterPartition request
Partition {} was sent but not included in the response
Encountered unexpected timeout when sending AlterPartition to the controller
Failed to enqueue ISR change state {}
Attempting to clear AlterPartition in-flight flag when no apparent request is in-flight
Writing new ISR {} to ZooKeeper
"""
_REPLICATION_CONTROL = """
Node {} has altered ISR for {}-{}
No stale brokers found.
CreateTopics result(s): {}
createTopics result(s): {}
Validate-only CreateTopics result(s): {}
Topic creation of {} partitions not allowed because quota is violated.
Topic deletion of {} partitions not allowed because quota is violated.
Partition creation of {} partitions not allowed because quota is violated.
Unknown server error validating Create Topic
Starting deletion of topic with ID {}
Unexpected deleteTopics error for {}
DeleteTopics result(s): {}
Deleting topic {} with ID {} and {} partitions
Checked for a partition change quota on topic {} with ID {}
Rejecting AlterPartition request {}
Rejecting alterIsr request {}
AlterIsr request from node {} for {}-{} completed the ongoing partition reassignment
AlterPartition request from node {} for {}-{} completed the ongoing partition reassignment
handleBroker{}: changing {}
enterControlledShutdown[{}]: changing {}
handleDirectoriesOffline[{}]: changing {}
offline-dir-assignment: changing {}
Directories {} in broker {} marked cordoned
processExpiredBrokerHeartbeat: controller event queue overloaded.
Removing heartbeat tracker entry for {}
Skipping unknown imbalanced topic {}
Skipping unknown imbalanced partition {}
Can't find the min isr config for topic: {}
Can't find the replication factor for topic: {}
Triggering unclean leader election for offline partition {}
Cannot trigger unclean leader election for offline partition {}
Unexpected createPartitions error for {}
Unable to alter partition reassignment for {}
Successfully altered {} out of {} partition reassignment(s).
AssignReplicasToDirsRequest from broker {} references {}
Broker {} assigned partition {}:{} to {} dir {}
{} has overlapping ISR={} and ELR={}
"""
_CLUSTER_CONTROL = """
No previous registration found for broker {}
Registering a new incarnation of broker {}
Amending registration of broker {}
Ignoring no-op registration change for {}
Broker {} registered with version range {}
Broker {} registered with feature {} that is unknown to the controller
Added new fenced broker: {}
Added new unfenced broker: {}
Removed broker: {}
Received an unclean shutdown request
Replayed RegisterControllerRecord {}
Replayed UnregisterControllerRecord{}
"""
_CONFIGURATION_CONTROL = """
Replayed ConfigRecord for {} which set configuration {} to {}
Skipping unsupported config {} for resource {} during replay
Unknown server error validating Alter Configs
Generating cluster-level min.insync.replicas of {}
Removing broker-level min.insync.replicas for brokers: {}
"""
_HEARTBEATS = """
Updated the controlled shutdown offset for broker {} to {}
Fenced broker {} has requested and been granted an immediate shutdown.
Unfenced broker {} has requested and been granted fencing
The request from broker {} to unfence has been granted because {}
The request from broker {} to unfence cannot yet be granted because {}
The request from broker {} to shut down has been granted since {}
The request from broker {} to shut down can not yet be granted because {}
Broker {} is in controlled shutdown state, but can not shut down because {}
"""
_QUORUM = """
{}: event failed with {}
{}: event unable to start processing because of {}
Performing controller activation.
"""
_FETCHER = """
Handling errors in {} for partitions {}
Failed to truncate {}
Unexpected error occurred during truncation for {} at offset {}
Truncate fully and reset fetch offset for partition {}
Based on {} leader epoch, leader replied with {}
Leader or {} is on protocol version where leader epoch is not considered in the OffsetsForLeaderEpoch response.
"""
_LOG_LAYER = """
Setting high watermark {}
Deleting segments as part of log truncation: {}
Corruption found in segment {}
"""
_ZOOKEEPER_CONTROLLER = """
Failed to update ISR {}
Rejecting AlterPartition {}
"""
_LIFECYCLE = """
Beginning controlled shutdown.
Skipping controlled shutdown because we are in state {}
Attempted to enter pending controlled shutdown state, but we are already in that state.
The controller has asked us to exit controlled shutdown.
The controlled has asked us to exit controlled shutdown.
Transitioning from {} to {}
Sending broker registration {}
Unable to register {}
Shutting down because we were unable to register with the controller quorum.
The broker is SHUTTING_DOWN. Ignoring heartbeat response.
"""


def _pattern(shapes: str) -> re.Pattern[str]:
    each = (re.escape(shape).replace(r"\{\}", ".*?") for shape in shapes.strip().splitlines())
    return re.compile("|".join(each), re.DOTALL)


HARMLESS: dict[str, re.Pattern[str]] = {
    "Partition": _pattern(_PARTITION),
    "state.change.logger": _pattern(_STATE_CHANGE),
    "AlterPartitionManager": _pattern(_ALTER_PARTITION),
    "ReplicationControlManager": _pattern(_REPLICATION_CONTROL),
    "ClusterControlManager": _pattern(_CLUSTER_CONTROL),
    "ConfigurationControlManager": _pattern(_CONFIGURATION_CONTROL),
    "BrokerHeartbeatManager": _pattern(_HEARTBEATS),
    "QuorumController": _pattern(_QUORUM),
    "ReplicaFetcherThread": _pattern(_FETCHER),
    "UnifiedLog": _pattern(_LOG_LAYER),
    "BrokerLifecycleManager": _pattern(_LIFECYCLE),
    "KafkaController": _pattern(_ZOOKEEPER_CONTROLLER),
    "OfflinePartitionLeaderSelector": re.compile(r"(?!)"),
    "MergedLog": _pattern(_LOG_LAYER),
    "Log": _pattern(_LOG_LAYER),
}
"""By the class of the logger."""
