"""The parts of every channel: a name, its rows of the ledger, and a trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pipelines.notify.config import Timing
from pipelines.notify.episodes import Episode
from pipelines.notify.http import NotAccepted
from pipelines.notify.ledger import Delivery, Ledger, Outcome
from pipelines.notify.look import Round

Say = Callable[[str], None]


class Channel(Protocol):
    """A receiver of notifications."""

    name: str

    def deliver(self, seen: Round) -> bool:
        """Send all that is due; return whether all of it was accepted. Raises LeaseLost."""
        ...

    def test(self) -> None:
        """Send a test message. Raises NotAccepted."""
        ...


@dataclass(frozen=True)
class Post:
    """The ledger, printer, clock and settings of a channel."""

    name: str
    ledger: Ledger
    timing: Timing
    clock: Callable[[], datetime]
    say: Say

    def begin(self, seen: Round) -> None:
        """Begin a channel at its first round, or its first with incidents: ended episodes are history, and not sent."""
        if self.ledger.began(self.name, seen.per):
            return
        now = self.clock()
        ended = [e for e in seen.episodes if not e.firing]
        each = {one.key: one for e in ended for one in (e, *e.by_severity())}.values()
        skipped = [self.row(e, Outcome.SKIPPED, 0, now, "ended before the channel was first used") for e in each]
        self.ledger.record(Delivery(self.name, Outcome.BEGAN, 0, now, rule=seen.per), *skipped)

    def row(self, episode: Episode, outcome: Outcome, attempt: int, at: datetime, error: str | None = None) -> Delivery:
        """A row about the notification of an episode's present state."""
        state = episode.last
        return Delivery(
            self.name, outcome, attempt, at, state.alert_id, episode.first.first_ts, state.rule, state.state,
            episode.key, error,
        )  # fmt: skip

    def due(self, last: Delivery | None, now: datetime) -> bool:
        """Whether it is time for the next attempt; one that a kill cut off, or that a clock which was ahead dates later
        than now, is made again at once."""
        if last is None or last.outcome is not Outcome.FAILED:
            return True
        return not last.sent_at <= now < last.sent_at + self.timing.backoff(last.attempt)

    def worked(self, *news: Delivery) -> None:
        """Record accepted messages and, after failures, that the channel works again."""
        last = self.ledger.last(self.name)
        if last is not None and last.outcome is Outcome.FAILED:
            self.say(f"{self.name}: accepts again")
            news = (*news, Delivery(self.name, Outcome.SENT, 1, self.clock()))
        if news:
            self.ledger.record(*news)

    def failed(self, error: NotAccepted) -> None:
        """Record that the whole channel accepts nothing, less often the longer that lasts."""
        last, now = self.ledger.last(self.name), self.clock()
        if self.due(last, now):
            attempt = last.attempt + 1 if last is not None and last.outcome is Outcome.FAILED else 1
            self.say(f"{self.name}: not accepted: {error}")
            self.ledger.record(Delivery(self.name, Outcome.FAILED, attempt, now, error=str(error)))
