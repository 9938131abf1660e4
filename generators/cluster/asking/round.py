"""One round of one broker: all its replicas, and the cluster's metadata and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic, time_ns

import numpy as np
from kafka.protocol.metadata.metadata import MetadataRequest

from generators.cluster.asking import decoded, requests
from generators.cluster.asking.decoded import Described, TopicFilter
from generators.cluster.asking.link import BrokerLink
from generators.cluster.asking.plan import Chunk, Plan
from generators.cluster.metadata.lists import I64
from generators.cluster.observing.answers import NO_ANSWER, UNKNOWN, Answer, Instant, Terms
from generators.cluster.observing.settings import LAG, MIN_ISR, BrokerSettings
from schemas.event_types import KEPT_EPOCHS

TOPICS_OF_A_REQUEST = 1_000
TERMS_OF_A_REQUEST = 2_000


@dataclass
class Outcome:
    """The result of a round; with both an answer and an error, the answer has only a part of the replicas."""

    answer: Answer | None = None
    error: Exception | None = None
    settings: Settings | None = None
    listed: tuple[int, ...] | None = None
    """The brokers that this one lists as up; None if it did not answer."""
    kafka: str | None = None
    """Its Kafka release, as far as ApiVersions shows it."""


@dataclass
class Settings:
    """A broker's settings and those of topics, and the error code of each refused resource."""

    broker: BrokerSettings = field(default_factory=BrokerSettings)
    topics: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    at: Instant = field(default_factory=lambda: Instant(0, 0.0))


@dataclass(frozen=True)
class Pace:
    """The most partitions that are requested of one broker a second; 0 is no limit."""

    partitions_per_s: int = 0

    def pause_s(self, asked: int, since: float) -> float:
        """Seconds to wait before the next request, after `asked` partitions since `since` (monotonic seconds)."""
        return max(0.0, since + asked / self.partitions_per_s - monotonic()) if self.partitions_per_s else 0.0


class Watch:
    """Measures a request: the middle of the time between question and answer, and half that time."""

    def __init__(self) -> None:
        self._wall_ns, self._began = time_ns(), monotonic()

    def instant(self) -> Instant:
        """The moment of the answer, and how far it may be off."""
        half = (monotonic() - self._began) / 2
        return Instant(self._wall_ns // 1000 + round(half * 1e6), half * 1000)


async def ask_metadata(link: BrokerLink, topics: TopicFilter) -> tuple[Described, Instant]:
    """The cluster as this broker knows it, the same object where it says the same. Raises kafka-python's errors."""
    await ask_listed(link)
    version = await link.version(MetadataRequest, requests.METADATA)
    watch = Watch()
    answer = await link.ask(requests.metadata(topics.names, version))
    if link.described is None or not answer.says_the_same(link.described[0]):
        link.described = answer, decoded.described(answer.decoded(), topics)
    return link.described[1], watch.instant()


async def ask_listed(link: BrokerLink) -> tuple[int, ...]:
    """The brokers that this one knows to be up: the question by which it shows that it answers. Raises kafka-python's
    errors."""

    async def listed() -> tuple[int, ...]:
        version = await link.version(MetadataRequest, requests.METADATA)
        answer = await link.ask(requests.metadata([], version))
        return tuple(broker.node_id for broker in answer.decoded().brokers)

    found: tuple[int, ...] = await link.probe(listed)
    return found


async def ask_round(link: BrokerLink, plan: Plan, terms: Terms, pace: Pace, about: Sequence[str] | None) -> Outcome:
    """Everything once: who is up, where terms begin, HW and LEO of every replica, and settings.

    `about`: the topics whose settings are asked for, beside the broker's own; None: no settings.
    """
    outcome, columns = Outcome(), _Columns(plan)
    try:
        outcome.listed = await ask_listed(link)
        outcome.kafka = await link.kafka_version()
        if about is not None:
            outcome.settings = await ask_settings(link, plan.broker, list(about))
        if len(terms.rows):
            await _ask_terms(link, plan, terms, columns)
        began, asked = monotonic(), 0
        for chunk in plan.chunks:
            if pause := pace.pause_s(asked, began):
                await link.sleep(pause)
            await _ask_chunk(link, plan, chunk, columns)
            asked += len(chunk.rows)
    except Exception as error:
        outcome.error = error
    if outcome.error is None or columns.asked.any():
        outcome.answer = columns.answer(complete=outcome.error is None)
    return outcome


class _Columns:
    """The columns of an answer, filled request by request."""

    def __init__(self, plan: Plan) -> None:
        count = plan.slots.stop - plan.slots.start
        self.plan = plan
        self.asked = np.zeros(count, np.bool_)
        self.leo, self.hw, self.term_start = (np.full(count, UNKNOWN, np.int64) for _ in range(3))
        self.error, self.hw_error = (np.full(count, NO_ANSWER, np.int32) for _ in range(2))
        self.log_epoch = np.full(count, UNKNOWN, np.int32)
        self.epochs: dict[int, tuple[tuple[int, int], ...]] = {}
        self.ts_us, self.ts_error_ms = np.zeros(count, np.int64), np.zeros(count)
        self.at = Watch().instant()

    def places(self, rows: I64) -> I64:
        """The positions of these rows of `Partitions` in the columns, -1 for those without one."""
        slots = self.plan.replicas.slots_of(self.plan.broker, rows)
        return np.where(slots >= 0, slots - self.plan.slots.start, -1)

    def begin_epochs(self, rows: I64, epochs: I64, starts: I64) -> None:
        """Prepend a leader epoch and its start offset to those known for each of these rows."""
        new = np.array([row not in self.epochs for row in rows.tolist()], np.bool_)
        _put(self, rows[new], (self.term_start, starts[new]))
        for row, epoch, start in zip(rows.tolist(), epochs.tolist(), starts.tolist(), strict=True):
            self.epochs[row] = ((epoch, start), *self.epochs.get(row, ()))

    def answer(self, *, complete: bool) -> Answer:
        plan = self.plan
        whole = Answer(
            broker=plan.broker, partitions=plan.partitions, replicas=plan.replicas,
            slots=np.arange(plan.slots.start, plan.slots.stop), leo=self.leo, error=self.error,
            log_epoch=self.log_epoch, leads=plan.leads, hw=self.hw, hw_error=self.hw_error,
            term_start=self.term_start, ts_us=self.ts_us, ts_error_ms=self.ts_error_ms, at=self.at, complete=complete,
            epochs=self.epochs,
        )  # fmt: skip
        return whole if complete else whole.only(self.asked)


async def _ask_chunk(link: BrokerLink, plan: Plan, chunk: Chunk, columns: _Columns) -> None:
    """The HW first: asked after the LEO it might lie above it. A broker answers one connection in order."""
    watch, partitions = Watch(), plan.partitions
    hw = await link.ask(chunk.hw) if chunk.hw else None
    leo = await link.ask(chunk.leo)
    columns.at = watch.instant()
    at = slice(chunk.slots.start - plan.slots.start, chunk.slots.stop - plan.slots.start)
    columns.asked[at], columns.ts_us[at], columns.ts_error_ms[at] = True, columns.at.ts_us, columns.at.error_ms
    if hw is not None:
        rows, offsets, codes, _ = decoded.offsets(hw, partitions)
        _put(columns, rows, (columns.hw, offsets), (columns.hw_error, codes))
    rows, offsets, codes, epochs = decoded.offsets(leo, partitions)
    _put(columns, rows, (columns.leo, offsets), (columns.error, codes), (columns.log_epoch, epochs))


def _put(columns: _Columns, rows: I64, *filled: tuple[np.ndarray, np.ndarray]) -> None:
    at = columns.places(rows)
    for column, values in filled:
        column[at[at >= 0]] = values[at >= 0]


async def _ask_terms(link: BrokerLink, plan: Plan, terms: Terms, columns: _Columns) -> None:
    """Ask for the start of terms: where the leader's log leaves the epoch before. Epoch 0 begins with the log.

    Go on with earlier epochs down to the last one with a reported HW, KEPT_EPOCHS in all at most.
    """
    epochs = plan.partitions.leader_epoch[terms.rows].astype(np.int64)
    first_epoch = epochs == 0
    _put(columns, terms.rows[first_epoch], (columns.term_start, np.zeros(int(first_epoch.sum()), np.int64)))
    rows, epochs, told = (values[~first_epoch] for values in (terms.rows, epochs, terms.told))
    starts = np.full(len(rows), np.iinfo(np.int64).max)
    for _ in range(KEPT_EPOCHS):
        earlier = np.full(len(rows), UNKNOWN, np.int64)
        for first in range(0, len(rows), TERMS_OF_A_REQUEST):
            some = slice(first, first + TERMS_OF_A_REQUEST)
            response = await link.ask(requests.ends_of_epochs(plan.partitions, rows[some], epochs[some] - 1))
            answered = decoded.ends(response, plan.partitions)
            wanted = np.isin(answered[0], rows[some])
            found, ended, ends = (values[wanted] for values in answered)
            at = first + np.searchsorted(rows[some], found)
            new = ends < starts[at]  # below the log's first epoch each ends where that begins
            columns.begin_epochs(found[new], epochs[at[new]], ends[new])
            starts[at], earlier[at] = ends, np.where(new & (ended < epochs[at]), ended, UNKNOWN)
        left = earlier > np.maximum(told, 0)
        rows, epochs, told, starts = (values[left] for values in (rows, earlier, told, starts))


async def ask_settings(link: BrokerLink, broker: int, topics: list[str]) -> Settings:
    """A broker's answer about its own settings and those of topics. Raises kafka-python's errors."""
    watch, name = Watch(), str(broker)
    values, refused = decoded.settings(await link.ask(requests.settings(requests.BROKER, [name], [LAG, MIN_ISR])))
    own = values.get(name, {})
    found = Settings(BrokerSettings(own.get(LAG), own.get(MIN_ISR)), refused=refused)
    for first in range(0, len(topics), TOPICS_OF_A_REQUEST):
        some = topics[first : first + TOPICS_OF_A_REQUEST]
        values, refused = decoded.settings(await link.ask(requests.settings(requests.TOPIC, some, [MIN_ISR])))
        found.topics |= {name: keys[MIN_ISR] for name, keys in values.items() if MIN_ISR in keys}
        found.refused |= {f"topic {name}": code for name, code in refused.items()}
    found.at = watch.instant()
    return found
