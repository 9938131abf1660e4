"""The types of events in `bronze/replication_events`, and what a row of each must hold."""

import re
from collections.abc import Mapping, Sequence

REQUIRED: dict[str, tuple[str, ...]] = {
    "leader": ("leader_epoch", "leo", "hw", "isr"),
    "follower": ("leo", "hw"),
    "election": ("leader_id", "leader_epoch"),
    "append": ("leader_leo",),
    "fetch": ("replica_id", "leo"),
    "hw": ("replica_id", "hw"),
    "isr_proposed": ("isr",),
    "isr": ("isr",),
    "isr_rejected": (),
    "truncate": ("replica_id", "leo"),
    "broker_state": ("replica_id",),
    "config": (),
    "replica_leo": ("replica_id", "leo"),
    "progress": (),
    "lost": (),
    "sample": ("replica_id",),
    "unread": (),
}
"""Event types, and the columns that must not be null in each. State and compiled code number them in this order."""
EVENT_TYPES = tuple(REQUIRED)

RACK = "rack="
"""How the detail of a `config` row begins that has the rack of the broker `replica_id`."""

CLEAN_START, UNCLEAN_START = "start=clean", "start=unclean"
"""The detail of a `config` row that says as a broker starts whether it found the file of a clean shutdown."""
ACTIVE_CONTROLLER = "controller=active"
"""The detail of a controller's `config` row that says which node it has learnt to be the active one: `replica_id`."""
SESSION_EXPIRED = "session=expired"
"""The detail of a `config` row of a broker whose ZooKeeper session expired: it registers again and goes on."""
TOPIC_DELETED = "topic=deleted"
"""The detail of a controller's `config` row of a topic that is deleted, or of whose deletion ZooKeeper was told."""

LOG_EPOCH = "log_epoch="
"""How the detail of a `sample` begins that has the latest leader epoch in the replica's log."""
DISK_EPOCHS = "epochs="
"""How the detail of a `sample` from a disk begins, which has the entries of its leader-epoch-checkpoint."""
FIRST_ROUND = "first round"
"""How the detail of a watcher's first `progress` begins: what was before it, it has not seen."""
HOLDS = "holds "
"""How the detail of a watcher's `progress` ends, `holds 10 s`: how long a claim of the present may rest on that round."""
UNANSWERED = "without an answer"
"""What stands in the detail of a watcher's `lost` row for rounds that the broker did not answer."""
NOT_ASKED, DROPPED = "not asked", "dropped"
"""What stands there for rounds that the watcher itself has missed, and for those whose rows it could not keep."""
TOPIC_GONE = "the topic is no longer in the cluster's metadata"
"""How the detail of a watcher's `lost` row begins of a partition that it sees no more."""

ANSWERS, NO_ANSWER, NOT_LISTED = "answers", "no_answer", "not listed"
"""How the detail of a watcher's `broker_state` begins: `answers`, or `no_answer: refused`; and how it ends where most
of the brokers that answered did not list this one: `no_answer: refused, not listed`."""
FENCED, UNREGISTERED = "fenced", "unregistered"
"""The words that follow there if the controllers say so: `answers, not listed, fenced`."""
CAUGHT_UP_MS = 2_000
"""A voter that has fetched what the leader wrote so long ago is caught up: the active controller writes twice a
second, and a voter that has not fetched for 2 s (controller.quorum.fetch.timeout.ms) wants an election."""
QUORUM = "quorum"
"""How the detail of a watcher's `broker_state` begins that says what `replica_id` was told of the controllers."""
NO_CONTROLLER, NOT_LOOKED_AT, NONE_TO_SPARE = f"{QUORUM}: none", f"{QUORUM}: not looked at", "none to spare"
NOT_REACHED = f"{QUORUM}: not known"
"""How it begins where no broker reached a controller, and where the right to ask is missing; and how it ends where the
next controller that fails leaves no majority."""

_WITHOUT = re.compile(r", without ((?:\d+ )*\d+)")
_HOLDS = re.compile(rf"{HOLDS}(\d+) s$")
_ENTRY = re.compile(r"(\d{1,10}):(\d{1,19})")
KEPT_EPOCHS = 8
POSITION = "read="
_CUT = re.compile(r"(?:hw|read)=(\d+) epoch=(\d+) end=(\d+)")

DETAILS = {
    "broker_state": (
        "started",
        "controlled_shutdown",
        "fenced",
        "unfenced",
        "unregistered",
        "log_dir_offline",
        ANSWERS,
        NO_ANSWER,
        QUORUM,
    ),
    "isr": ("alter_partition", "metadata", "controller"),
    "isr_proposed": ("shrink", "expand"),
}
"""The values of `detail`, for the event types where it carries meaning; of a watcher's how they begin."""


def cut_detail(hw: int, epoch: int, end: int) -> str:
    """The detail of a `truncate` row: the replica's HW before, and the end below it of this leader epoch, the last one of
    both logs, that the leader answered."""
    return f"hw={hw} epoch={epoch} end={end}"


def position_detail(position: int, epoch: int, end: int) -> str:
    """The same of a consumer (KIP-320), `replica_id` is the leader that answered: up to where it had read before."""
    return f"{POSITION}{position} epoch={epoch} end={end}"


def cut_answer(detail: str | None) -> tuple[int, int, int] | None:
    """HW or position, epoch and end of a `cut_detail` or `position_detail`, None of any other."""
    found = _CUT.fullmatch(detail or "")
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def epochs_detail(entries: Sequence[tuple[int, int]]) -> str:
    """The detail of a disk's `sample`: the newest entries (leader epoch, offset at or below which it began)."""
    return DISK_EPOCHS + " ".join(f"{epoch}:{start}" for epoch, start in entries[-KEPT_EPOCHS:])


def epoch_entries(detail: str | None) -> list[tuple[int, int]]:
    """The entries of an `epochs_detail`, none of any other."""
    pairs = [(int(epoch), int(start)) for epoch, start in _ENTRY.findall(detail or "")]
    return pairs if detail and detail.startswith(DISK_EPOCHS) else []


def holds_s(detail: str | None) -> int | None:
    """For how many seconds a claim of the present may rest on a watcher's round; None: its `progress` does not say."""
    found = _HOLDS.search(detail or "")
    return int(found[1]) if found else None


def known_detail(event_type: str, detail: str | None) -> bool:
    """Whether events of this type may have this detail."""
    if detail is None:
        return event_type != "broker_state"
    return detail in DETAILS[event_type] or (event_type == "broker_state" and by_watcher(detail))


def by_watcher(detail: str | None) -> bool:
    """Whether the detail of a `broker_state` says how a broker answered a watcher."""
    return detail is not None and detail.split(":")[0].split(",")[0] in (ANSWERS, NO_ANSWER, QUORUM)


def without(voters: Mapping[int, bool | None]) -> str:
    """`, without 3 4`: which controllers of a quorum are not caught up; empty if all are."""
    missing = sorted(voter for voter, caught_up in voters.items() if caught_up is False)
    return f", without {' '.join(map(str, missing))}" if missing else ""


def describe_quorum(seen: Mapping[int, bool | None]) -> str:
    """`quorum: 3 voters, 2 caught up, without 3, none to spare`; of less than three there is never one to spare."""
    voters, majority = len(seen), len(seen) // 2 + 1
    if None in seen.values():
        return f"{QUORUM}: {voters} voters"
    caught_up = sum(map(bool, seen.values()))
    spare = f", {NONE_TO_SPARE}" if caught_up <= majority < voters else ""
    return f"{QUORUM}: {voters} voters, {caught_up} caught up{without(seen)}{spare}"


def missing_voters(detail: str) -> list[int]:
    """The inverse of `without`; empty if an earlier version wrote it."""
    found = _WITHOUT.search(detail)
    return [int(one) for one in found[1].split()] if found else []
