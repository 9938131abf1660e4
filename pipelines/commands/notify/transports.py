"""The transports of the configured channels, or functions that print instead."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pipelines.errors import UsageError
from pipelines.notify.alertmanager import Alert
from pipelines.notify.channel import Say
from pipelines.notify.http import NotAccepted, request
from pipelines.notify.notice import Notice
from pipelines.notify.patience import PATIENCE_S, within
from pipelines.secret import Secret

if TYPE_CHECKING:
    from pipelines.settings import AlertmanagerSettings, Notify

T = TypeVar("T")
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Transports:
    """The real ones. Every secret is read once as a channel is made, so that a missing one is known at the start."""

    notify: Notify

    def alertmanager(self, name: str) -> Callable[[Sequence[Alert]], None]:
        """The function that posts alerts to an Alertmanager."""
        there = self.notify.alertmanagers[name]
        _authorization(name, there)
        return _in_time(partial(_post_alerts, name, there))

    def message(self, name: str) -> Callable[[Notice], None]:
        """The function that sends a message through Apprise."""
        from pipelines.notify.apprise_sender import sender

        return _in_time(sender(Secret(self.notify.channels[name].url, f"notify.channels.{name}.url"), name))

    def heartbeat(self) -> Callable[[], None]:
        """The function that requests the heartbeat's URL."""
        url = Secret(self.notify.heartbeat, "notify.heartbeat")
        url.reveal()
        method = self.notify.heartbeat_method
        return partial(within, PATIENCE_S, lambda: request(_revealed(url), method, b"" if method == "POST" else None))


@dataclass(frozen=True)
class Printed(Transports):
    """Transports that print what would be sent; they need no secret."""

    echo: Say

    def alertmanager(self, name: str) -> Callable[[Sequence[Alert]], None]:
        url = self.notify.alertmanagers[name].url
        return lambda alerts: self.echo(f"{name} ({url}):\n{json.dumps(alerts, indent=2, ensure_ascii=False)}")

    def message(self, name: str) -> Callable[[Notice], None]:
        return lambda message: self.echo(f"{name}:\n{message.title}\n{message.body}\n")

    def heartbeat(self) -> Callable[[], None]:
        return lambda: self.echo("heartbeat")


def _in_time(send: Callable[[T], None]) -> Callable[[T], None]:
    return lambda what: within(PATIENCE_S, partial(send, what))


def _post_alerts(name: str, there: AlertmanagerSettings, alerts: Sequence[Alert]) -> None:
    try:
        headers = {**JSON, **_authorization(name, there)}
    except UsageError as error:
        raise NotAccepted(str(error)) from None
    body = json.dumps(alerts).encode()
    request(f"{there.url.rstrip('/')}/api/v2/alerts", "POST", body, headers, there.ca_file)


def _authorization(name: str, there: AlertmanagerSettings) -> dict[str, str]:
    """The header that an Alertmanager asks for. Raises UsageError."""
    setting = f"notify.alertmanagers.{name}"
    if there.bearer:
        return {"Authorization": f"Bearer {Secret(there.bearer, f'{setting}.bearer').reveal()}"}
    if there.username:
        password = Secret(there.password, f"{setting}.password").reveal() if there.password else ""
        pair = base64.b64encode(f"{there.username}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}


def _revealed(url: Secret) -> str:
    try:
        return url.reveal()
    except UsageError as error:
        raise NotAccepted(str(error)) from None
