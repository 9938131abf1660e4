"""Records of the controllers' log: what each prints, its effect on the image, and on brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from generators.simulator.cluster.metadata_log import Image, Record
from generators.simulator.cluster.registration import BrokerRegistration, Registration

if TYPE_CHECKING:
    from generators.simulator.cluster.broker import Broker

Publish = Callable[["Broker"], None]
"""How a broker applies a change of the metadata."""


def change_record(before: Registration | None, after: Registration) -> Record:
    """Return the record of a changed registration, with a line for a new leader epoch and one for a new ISR."""
    printed = []
    if before is None or after.leader_epoch != before.leader_epoch:
        printed.append(("election", _printed(after)))
    if before is not None and (after.isr != before.isr or after.replicas != before.replicas):
        printed.append(("isr", _printed(after, detail="controller")))
    return Record(printed, lambda image: image.partitions.update({after.key: after}), _of_partition(after))


def removal_record(last: Registration) -> Record:
    """Return the record of a deleted partition; `last` assigns it to no broker."""
    return Record((), lambda image: image.partitions.pop(last.key, None), _of_partition(last))


def settings_record(topic: str, topic_id: str, min_isr: int | None, changed: Sequence[Registration] = ()) -> Record:
    """Return the record of a topic's settings, which its partitions `changed` have; without them brokers know it."""

    def put(image: Image) -> None:
        for registration in changed:
            known = image.partitions.get(registration.key, registration)
            chosen = replace(known, min_isr=registration.min_isr, unclean=registration.unclean)
            image.partitions[registration.key] = chosen

    if min_isr is None:
        return Record((), put)
    printed = {"topic": topic, "topic_id": topic_id, "min_isr": min_isr}
    publish: Publish | None = (lambda broker: broker.configured(topic, topic_id, min_isr)) if changed else None
    return Record((("config", printed),), put, publish)


def broker_record(id: int, known: BrokerRegistration, state: str, lost: Iterable[tuple[str, int]] = ()) -> Record:
    """Return the record of a broker's state, with the replicas that it has lost with a log directory."""

    def put(image: Image) -> None:
        image.brokers[id] = replace(known)
        kept = {one for one in image.offline if state != "started" or one[0] != id}
        image.offline = kept | {(id, key) for key in lost}

    printed = {"replica": id, "broker_epoch": known.epoch, "detail": state}
    return Record((("broker_state", printed),), put, _of_broker(id, known))


def image_changes(image: Image) -> Iterable[Publish]:
    """Yield the whole image, for a broker that has just registered."""
    for id, known in image.brokers.items():
        yield _of_broker(id, known)
    for registration in image.partitions.values():
        yield _of_partition(registration)


def _printed(now: Registration, **more: Any) -> dict[str, Any]:
    """The fields that are printed of a partition."""
    return {
        "topic": now.topic, "topic_id": now.topic_id, "partition": now.partition, "leader": now.leader,
        "leader_epoch": now.leader_epoch, "partition_epoch": now.partition_epoch, "isr": now.isr,
        "replicas": now.replicas, "unclean": now.recovering, **more,
    }  # fmt: skip


def _of_partition(registration: Registration) -> Publish:
    return lambda broker: broker.apply(registration)


def _of_broker(id: int, registration: BrokerRegistration) -> Publish:
    now = replace(registration)
    return lambda broker: broker.learn(id, now)
