"""Lost records that are still on the disk of a broker that is down: its start cuts them away."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from pipelines.lake.lags import present_brokers
from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, select_rows
from pipelines.verdict import words
from pipelines.verdict.incident import read_evidence
from schemas import hw_regressions

_AWAY = {"fenced": "is down", "down": "is down", "no_answer": "does not answer", "unregistered": "is unregistered"}
"""States of a broker that replicates nothing, in words."""
_STORED_BY = "stored by broker "
BEFORE_START = "Before any start: "
"""The words of a message before such a sentence, which count in its length."""
AT_ONCE = timedelta(seconds=60)
"""A broker that went away before the election, or at most so long after it, has not been back since."""


@dataclass(frozen=True)
class LastCopy:
    """A broker that is away, the losses whose records it led or had stored, and whether it has been away since."""

    cluster: str
    broker_id: int
    state: str
    since_then: bool
    losses: tuple[Row, ...]

    def text(self, lake: str) -> str:
        """`broker 1 is down and has offsets 120..299 of a-0: copy its log directory before you start it; or run …`."""
        first = self.losses[0]
        ranges = [f"offsets {one['lost_from']}..{one['lost_to'] - 1} of {one['topic']}-{one['partition']}"
                  for one in self.losses]  # fmt: skip
        has = "has" if self.since_then else "may have"
        about = ["--topic", first["topic"], "--partition", str(first["partition"])]
        about += ["--offsets", f"{first['lost_from']}..{first['lost_to'] - 1}", "--out", "FILE"]
        if len(self.losses) > 1:
            about = ["--all", "--cluster", self.cluster, "--lake", lake, "--out", "FOLDER"]
        run = shlex.join(["hwmark", "rescue", "--from", "DIR", *about])
        who = f"broker {self.broker_id} {_AWAY[self.state]}"
        for named in range(words.NAMED, -1, -1):
            lost = words.listed(ranges, named) if named else words.count(len(ranges), "lost range")
            said = f"{who} and {has} {lost}: copy its log directory before you start it"
            if len(BEFORE_START) + len(said) <= words.SENTENCE:
                break
        return f"{said}; or run `{run}`"


def last_copies(lake: Lake, wanted: Filter) -> list[LastCopy]:
    """The copies of records that are lost, or may be, on brokers that are away; by cluster and broker."""
    lost = f"{VIEWS['serious'].select(wanted)} AND lost_from IS NOT NULL AND lost_to > lost_from"
    fallen = select_rows(lake, hw_regressions.TABLE, lost)
    return copies_on(present_brokers(lake, wanted.cluster), fallen) if fallen else []


def copies_on(brokers: Iterable[Row], losses: Iterable[Row]) -> list[LastCopy]:
    """The copies of lost records on the brokers (rows of gold/brokers) that are away."""
    away = {(row["cluster"], row["broker_id"]): row for row in brokers if row["state"] in _AWAY}
    found: Mapping[tuple[str, int, bool], list[Row]] = defaultdict(list)
    for loss in sorted(losses, key=lambda one: (one["topic"], one["partition"], one["ts"])):
        for broker in _holders(loss):
            if row := away.get((loss["cluster"], broker)):
                gone = row["state_ts"]
                found[*(loss["cluster"], broker), gone is not None and gone <= loss["ts"] + AT_ONCE].append(loss)
    return [
        LastCopy(cluster, broker, away[cluster, broker]["state"], since_then, tuple(rows))
        for (cluster, broker, since_then), rows in sorted(found.items())
    ]


def _holders(loss: Row) -> set[int]:
    """The brokers that had the lost records: their leader, and a broker known to have stored a HW above them."""
    hw = read_evidence(loss).get("hw")
    by = str(hw.get("by", "")) if isinstance(hw, dict) else ""
    stored = by.removeprefix(_STORED_BY)
    known = {int(stored)} if by.startswith(_STORED_BY) and stored.isdecimal() else set()
    before = loss["leader_id_before"]
    return known | ({before} if before is not None and before not in (-1, loss["leader_id"]) else set())
