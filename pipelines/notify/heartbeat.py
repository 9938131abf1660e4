"""A dead man's switch outside: its URL is asked for in rounds in which everything is judged and fresh, in no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pipelines.notify.channel import Post
from pipelines.notify.http import NotAccepted
from pipelines.notify.look import Round

NAME = "heartbeat"


class Heartbeat:
    """`beat` asks for the URL or raises NotAccepted; silent, too, while none of the `channels` accepts anything."""

    def __init__(self, post: Post, beat: Callable[[], None], channels: Iterable[str]) -> None:
        self.name, self._post, self._beat, self._channels = post.name, post, beat, tuple(channels)

    def deliver(self, seen: Round) -> bool:
        """Send a heartbeat unless it has to be withheld; return False only if it was sent and not accepted."""
        ledger = self._post.ledger
        if not seen.fresh or ledger.unsaved or (self._channels and all(map(ledger.failing, self._channels))):
            return True
        try:
            self._beat()
        except NotAccepted as error:
            self._post.failed(error)
            return False
        self._post.worked()
        return True

    def test(self) -> None:
        """Send a heartbeat. Raises NotAccepted."""
        self._beat()
