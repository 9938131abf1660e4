"""Followers of the bulk load that fall silent, are dropped from the ISR, and come back."""

from __future__ import annotations

import numpy as np

from pipelines.bench.workloads.load_columns import ALTERED, EXPAND, FETCH, FULL, ISR, PROPOSED, SHRINK, SHRUNK, Rows

LAG_MAX_MS = 6_000
"""replica.lag.time.max.ms of the brokers that the load stands for: more than any follower takes that is not stalled."""
EPOCH_S = 12
_SILENT_S = 7
"""From the last fetch before it to the first after it, a silence is longer than the lag allows."""
_BEGIN_S = (2, 4)
"""Least and largest second of an epoch at which it falls silent: by then it has fetched twice at least."""


class Stalls:
    """Of each partition drawn, the first follower: silent for some seconds, dropped in the last of them, then back.

    `share` of the partitions, at least one, in each epoch of EPOCH_S seconds that fits before `seconds`; nobody
    where `share` is 0.
    """

    def __init__(self, leader: np.ndarray, brokers: int, share: float, seconds: int, seed: int) -> None:
        self._leader, self._brokers, self._seed = leader, brokers, seed
        self._count = max(1, round(share * len(leader))) if share else 0
        self._seconds = seconds
        self._epoch = np.zeros(len(leader), dtype=np.int32)
        self._held = np.zeros(len(leader), dtype=np.int64)
        self._partitions = self._begins = np.zeros(0, dtype=np.int64)
        self._dropped = self._back = self._partitions
        self.fetching = np.ones(len(leader), dtype=np.bool_)

    def begin(self, second: int, leo: np.ndarray) -> None:
        """Goes on to this second, at whose beginning the leaders' logs end at `leo`."""
        epoch, offset = divmod(second, EPOCH_S)
        if offset == 0:
            self._draw(epoch)
        silent = self._partitions[self._begins == offset]
        self.fetching[silent] = False
        self._held[silent] = leo[silent]
        self._dropped = self._partitions[self._begins + _SILENT_S - 1 == offset]
        self._back = self._partitions[self._begins + _SILENT_S == offset]

    def rows(self, slot: int, at: np.ndarray, grown: np.ndarray) -> list[Rows]:
        """What those who are dropped or come back add to the slots of this second."""
        if slot or not len(self._partitions):
            return []
        self.fetching[self._back] = True
        return [*self._shrink(self._dropped, at), *self._return(self._back, at, grown)]

    def _draw(self, epoch: int) -> None:
        random = np.random.default_rng([self._seed, epoch])
        count = self._count if (epoch + 1) * EPOCH_S <= self._seconds else 0
        self._partitions = np.sort(random.choice(len(self._leader), count, replace=False))
        self._begins = random.integers(_BEGIN_S[0], _BEGIN_S[1] + 1, count)

    def _shrink(self, of: np.ndarray, at: np.ndarray) -> list[Rows]:
        self._epoch[of] += 1
        proposed = self._about(of, at[of] + 20_000, PROPOSED) | {"isr": np.full(len(of), SHRUNK)}
        proposed["detail"] = np.full(len(of), SHRINK)
        return [proposed, self._committed(of, at[of] + 25_000, SHRUNK)]

    def _return(self, of: np.ndarray, at: np.ndarray, grown: np.ndarray) -> list[Rows]:
        """It fetches where it was, then at the end of the leader's log, at which the leader takes it in again."""
        self._epoch[of] += 1
        follower = {"replica": (self._leader[of] + 1) % self._brokers}
        fetches = [
            self._about(of, at[of] + 5_000, FETCH) | follower | {"leo": self._held[of]},
            self._about(of, at[of] + 15_000, FETCH) | follower | {"leo": grown[of]},
        ]
        proposed = self._about(of, at[of] + 15_001, PROPOSED) | {"isr": np.full(len(of), FULL)}
        proposed["detail"] = np.full(len(of), EXPAND)
        return [*fetches, proposed, self._committed(of, at[of] + 20_000, FULL)]

    def _committed(self, of: np.ndarray, ts: np.ndarray, isr: int) -> Rows:
        values = {"isr": np.full(len(of), isr), "detail": np.full(len(of), ALTERED), "partition_epoch": self._epoch[of]}
        return self._about(of, ts, ISR) | values

    def _about(self, of: np.ndarray, ts: np.ndarray, kind: int) -> Rows:
        return {"ts": ts, "broker": self._leader[of], "partition": of, "kind": np.full(len(of), kind)}
