"""Sending through Apprise: one URL is one channel, and nothing of the URL is printed or kept."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace

import apprise

from pipelines.errors import UsageError
from pipelines.notify.http import NotAccepted
from pipelines.notify.notice import Notice
from pipelines.secret import Secret

_TYPES = {
    "critical": apprise.NotifyType.FAILURE,
    "warning": apprise.NotifyType.WARNING,
    "info": apprise.NotifyType.INFO,
    "over": apprise.NotifyType.SUCCESS,
}
_STATUS = re.compile(r"\berror=(\d{3})\b")


def sender(url: Secret, channel: str) -> Callable[[Notice], None]:
    """Return a function that sends a notice to this URL, read anew each time. Raises UsageError for an unknown URL."""
    _silence()
    _service(url, channel)

    def send(message: Notice) -> None:
        try:
            service = _service(url, channel)
        except UsageError as error:
            raise NotAccepted(str(error)) from None
        # PagerDuty's key of an incident: what fires and its end are the same one, and so is a double.
        if getattr(service, "dedup", "") is not None:
            _send(service, message)
            return
        over = [(key, replace(message, weight="over")) for key in message.ended]
        for key, each in over if message.alert_id in message.ended else [*over, (message.alert_id, message)]:
            service.dedup = key  # type: ignore[attr-defined]
            _send(service, each)

    return send


def _send(service: apprise.NotifyBase, message: Notice) -> None:
    through, logged = apprise.Apprise(asset=service.asset), list[str]()
    through.add(service)
    try:
        result = through.notify(
            body=message.body,
            title=message.title,
            notify_type=_TYPES[message.weight],
            body_format=apprise.NotifyFormat.TEXT,
            log_callback=lambda entry, _: logged.append(str(entry.message)),
        )
    except Exception as error:  # whatever a service's own code does not foresee; its words may hold the URL
        raise NotAccepted(type(error).__name__) from None
    if not result:
        raise NotAccepted(_reason(" ".join(logged)))


def _service(url: Secret, channel: str) -> apprise.NotifyBase:
    # Its own timeouts wait on threads that a process which ends would wait for: see `pipelines.notify.patience`.
    asset = apprise.AppriseAsset(
        app_id="hwmark", app_desc="hwmark", async_mode=False, http_redirects=False, service_timeout=0
    )
    service = apprise.Apprise.instantiate(url.reveal(), asset=asset, suppress_exceptions=True)
    if service is None:
        raise UsageError(f"notify.channels.{channel}.url: {url!r} contains no URL that Apprise knows")
    if service.overflow_mode == apprise.OverflowMode.UPSTREAM:
        service.overflow_mode = apprise.OverflowMode.TRUNCATE
    return service


def _reason(logged: str) -> str:
    """The reason for a failure in words of our own: Apprise's log lines may contain hosts and tokens."""
    if found := _STATUS.search(logged):
        return f"HTTP {found[1]}"
    return "no connection" if "onnection" in logged else "not accepted"


def _silence() -> None:
    """Silence log lines of Apprise and of its HTTP client, which may contain hosts and tokens."""
    for name in ("apprise", "urllib3"):
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.handlers = [logging.NullHandler()]
