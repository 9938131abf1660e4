"""Records of what controllers and brokers say of brokers, configs and partition epochs, as of a time.

Those that a kernel looks up are sorted by (key, ts). A key of a broker or a topic is cluster << 32 | its id or number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pipelines.replication.compiled.records import record_layout
from pipelines.replication.compiled.types import NULL, NULL32

BROKERS = record_layout(key=0, ts=0, serving=0, epoch=NULL, started=NULL, failed=0)
"""A state of a broker: its incarnation, and when that registered, where known; `failed`: a log directory of it is gone,
else it is as before."""

CONFIGS = record_layout(key=0, ts=0, min_isr=NULL32, lag=NULL, topic_id=-1)

BROKER_VERSIONS = record_layout(key=0, ts=0, reported=0, value=0)
"""What a broker says of the rules it follows, see kafka_versions."""

RECORDED_EPOCHS = record_layout(key=0, ts=NULL, topic_id=-1, isr=0, led=NULL)
"""When a controller recorded a partition epoch, and the ISR in it as a hash; the key is partition << 32 | partition
epoch. `led`: leader epoch << 32 | leader, where both are told."""

RECORD_GRACES = 4
"""For so many graces such a record counts; batches keep it for longer (clock_offsets.KEPT_GRACES), whichever way rows
are cut."""

REPORTED_EPOCHS = record_layout(key=0, ts=NULL, topic_id=-1, broker=NULL32, series=-1, led=NULL)
"""When a broker reported a partition epoch that no controller has reported yet."""

REQUESTED_EPOCHS = record_layout(key=0, ts=NULL, topic_id=-1, isr=0, series=-1)
"""When a leader asked for an ISR, by the partition epoch that it would have."""

CLOCK_OFFSETS = record_layout(key=0, ts=NULL, clock_offset=0)
"""By how much a broker's clock is ahead of the controller's since `ts`; the key is partition << 32 | broker."""


class Timeline(NamedTuple):
    """Broker states, configs, versions of brokers, what controllers recorded of partitions and brokers whose clocks are
    apart from theirs, as of a time."""

    brokers: Any
    configs: Any
    versions: Any
    recorded_epochs: Any
    clock_offsets: Any
