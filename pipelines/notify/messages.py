"""Messages to people: one for each change of an alert between firing and not, sent until it is accepted."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.alerting.rule import SEVERITIES
from pipelines.notify.channel import Post
from pipelines.notify.config import Links
from pipelines.notify.episodes import Episode
from pipelines.notify.http import NotAccepted
from pipelines.notify.ledger import Delivery, Outcome
from pipelines.notify.look import Round
from pipelines.notify.notice import Notice, notice
from pipelines.notify.runbooks import WATCHDOG, runbook

Send = Callable[[Notice], None]
GIVE_UP = 2
"""Failures in a row after which a channel waits for the next round."""


class Messages:
    """A channel for messages; `send` sends one or raises NotAccepted, `least` is the lowest severity it is for."""

    def __init__(self, post: Post, links: Links, send: Send, least: str = "info") -> None:
        self.name, self._post, self._links, self._send, self._least = post.name, post, links, send, least

    def deliver(self, seen: Round) -> bool:
        """Send every message that is due, the least often tried first; return whether none failed."""
        self._post.begin(seen)
        self._skip(seen)
        failures, complete = 0, True
        for episode in sorted(self._pending(seen), key=self._attempts):
            if failures == GIVE_UP:
                return False
            last = self._post.ledger.last(self.name, episode.key)
            if not self._post.due(last, self._post.clock()):
                complete = False
                continue
            accepted = self._deliver(episode, seen, last)
            failures = 0 if accepted else failures + 1
            complete = complete and accepted
        return complete

    def test(self) -> None:
        """Send a test message. Raises NotAccepted."""
        body = f"A test: nothing is wrong.\nRunbook: {runbook(self._links.runbook_url, WATCHDOG)}"
        self._send(Notice("test", "test", "info", "hwmark: a test", body))

    def _skip(self, seen: Round) -> None:
        """Record messages below the channel's severity as done, so that a lower setting applies to later ones only."""
        now, why = self._post.clock(), f"below severity {self._least}"
        rows = [self._post.row(e, Outcome.SKIPPED, 0, now, why) for e in self._open(seen) if not self._wants(e)]
        if rows:
            self._post.ledger.record(*rows)

    def _open(self, seen: Round) -> list[Episode]:
        return [e for e in seen.episodes if not self._post.ledger.done(self.name, e.key)]

    def _pending(self, seen: Round) -> list[Episode]:
        return [e for e in self._open(seen) if self._wants(e)]

    def _wants(self, episode: Episode) -> bool:
        # An incident is for a channel from the moment at which it is raised so far.
        own = episode.last if episode.raised else episode.first
        return SEVERITIES.index(own.severity) >= SEVERITIES.index(self._least)

    def _attempts(self, episode: Episode) -> int:
        last = self._post.ledger.last(self.name, episode.key)
        return last.attempt if last else 0

    def _deliver(self, episode: Episode, seen: Round, last: Delivery | None) -> bool:
        """Record the attempt, send, and record the outcome: see `pipelines.notify.ledger`."""
        post, attempt = self._post, (last.attempt if last else 0) + 1
        again = last is not None and last.outcome is Outcome.SENDING
        unseen = not episode.firing and not any(post.ledger.sent(self.name, key) for key in episode.earlier)
        message = notice(episode, self._links, seen, unseen=unseen, again=again)
        post.ledger.record(post.row(episode, Outcome.SENDING, attempt, post.clock()))
        try:
            self._send(message)
        except NotAccepted as error:
            post.ledger.record(post.row(episode, Outcome.FAILED, attempt, post.clock(), str(error)))
            post.say(f"{self.name}: attempt {attempt} not accepted: {error}: {message.title}")
            return False
        post.ledger.record(post.row(episode, Outcome.SENT, attempt, post.clock()))
        post.say(f"{self.name}: sent {message.title}")
        return True
