"""The channels of the settings, and a notifier on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pipelines.commands import clock, jobs
from pipelines.commands.notify.groups import Groups
from pipelines.commands.notify.transports import Transports
from pipelines.commands.progress import progress
from pipelines.errors import UsageError
from pipelines.lake.file_systems import local_path
from pipelines.lake.roles import hold
from pipelines.notify import look as looking
from pipelines.notify.alertmanager import Alertmanager
from pipelines.notify.channel import Channel, Post, Say
from pipelines.notify.config import Links, Timing
from pipelines.notify.episodes import INCIDENT
from pipelines.notify.heartbeat import NAME as HEARTBEAT
from pipelines.notify.heartbeat import Heartbeat
from pipelines.notify.http import NotAccepted
from pipelines.notify.ledger import Delivery, Ledger, from_arrow, to_arrow
from pipelines.notify.messages import Messages
from pipelines.notify.rounds import Schedule, rounds
from pipelines.notify.runbooks import default_folder
from pipelines.streaming.signals import stoppable
from schemas import deliveries

if TYPE_CHECKING:
    from pipelines.settings import Settings


def notify(settings: Settings, *, once: bool) -> list[str]:
    """Rounds until the process is asked to stop, or one; the channels that did not accept everything.

    Raises RoleHeld while another process notifies for the lake.
    """
    lake = settings.tables
    with progress("notify") as say, hold(lake.root, "notify", lake.storage_options) as held:

        def write(rows: Sequence[Delivery]) -> None:
            held.check()
            lake.append(deliveries.TABLE, to_arrow(rows))

        ledger = Ledger(from_arrow(lake.read(deliveries.TABLE, deliveries.ARROW)), write)
        channels = _Channels(settings, ledger, say).all(Transports(settings.notify))
        with suppress(Exception):  # what cannot be read keeps the watchdog from being sent, and ends no message
            if off := jobs.clock_off(settings, clock.now()):
                say(off)
        stop, how = threading.Event(), Schedule(settings.notify.every, once, clock.now)
        groups = Groups(settings, say)

        def look(now: datetime) -> looking.Round:
            groups.ask(now)
            seen = _look(settings, now)
            groups.see(seen)
            return seen

        with stoppable(stop):
            failed = rounds(look, channels, how, stop, say)
            if once:
                groups.ask(clock.now())
            return failed


def dry_run(settings: Settings, echo: Say) -> None:
    """Print what a round would send, through the code that sends it; the lake stays as it is."""
    from pipelines.commands.notify.transports import Printed

    lake = settings.tables
    ledger = Ledger(from_arrow(lake.read(deliveries.TABLE, deliveries.ARROW)), lambda rows: None)
    seen = _look(settings, clock.now(), write=False)
    for why in seen.wrong:
        echo(f"watchdog withheld: {why}")
    for channel in _Channels(settings, ledger, lambda text: None).all(Printed(settings.notify, echo)):
        channel.deliver(seen)


def test(settings: Settings, echo: Say) -> list[str]:
    """Send a test message through every channel but the heartbeat; those that did not accept it."""
    ledger, failed = Ledger((), lambda rows: None), []
    for channel in _Channels(settings, ledger, echo).all(Transports(settings.notify)):
        if channel.name == HEARTBEAT:
            continue
        try:
            channel.test()
            echo(f"{channel.name}: accepted")
        except NotAccepted as error:
            echo(f"{channel.name}: not accepted: {error}")
            failed.append(channel.name)
    return failed


def _look(settings: Settings, now: datetime, *, write: bool = True) -> looking.Round:
    return looking.look(
        settings.tables, jobs.limits(settings), settings.alerts.rules_file, settings.run.interval, now,
        per=INCIDENT if settings.notify.per == INCIDENT else None, owners=jobs.owners(settings), write=write,
    )  # fmt: skip


@dataclass(frozen=True)
class _Channels:
    """Every channel of the settings on one ledger."""

    settings: Settings
    ledger: Ledger
    say: Callable[[str], None]

    def all(self, transports: Transports) -> list[Channel]:
        """The channels, the Alertmanagers first. Raises UsageError where there is none, or a secret is missing."""
        chosen = self.settings.notify
        found = list(self._each(transports))
        if not found and not chosen.heartbeat:
            raise UsageError(
                "notify has nobody to notify: name a channel under [notify.alertmanagers], [notify.channels] or as "
                "notify.heartbeat (docs/notify.md)"
            )
        if chosen.heartbeat:
            beat, names = transports.heartbeat(), [channel.name for channel in found]
            found.append(Heartbeat(self._post(HEARTBEAT), beat, names))
        return found

    def _each(self, transports: Transports) -> Iterator[Channel]:
        chosen = self.settings.notify
        folder = chosen.runbook_url or default_folder()
        lake = self.settings.lake.path
        here = local_path(lake)
        links = Links(str(here.absolute()) if here else lake, folder, chosen.page_url, chosen.labels, chosen.timezone)
        for name in chosen.alertmanagers:
            yield Alertmanager(self._post(name), links, transports.alertmanager(name))
        for name, channel in chosen.channels.items():
            yield Messages(self._post(name), links, transports.message(name), channel.severity)

    def _post(self, name: str) -> Post:
        chosen = self.settings.notify
        timing = Timing(chosen.every, chosen.hold, chosen.retry_max)
        return Post(name, self.ledger, timing, clock.now, self.say)
