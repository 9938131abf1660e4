"""The section `[notify]`: Alertmanagers, channels, and what is sent to them."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

from pipelines.settings.values import STRICT, Reference, Seconds, Zone

_NAME = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")


IDENTIFYING = {"alertname", "cluster", "alert_id", "incident", "severity", "owner", "broker", "rack"}
"""The labels by which an Alertmanager knows an alert of hwmark's."""


def _public_url(value: str) -> str:
    if not re.fullmatch(r"https?://[^@\s]+", value):
        raise ValueError("write http://HOST:PORT or https://..., without a user or password in it")
    return value


class _Section(BaseModel):
    model_config = STRICT


class AlertmanagerSettings(_Section):
    """One Alertmanager, and what it asks for."""

    url: Annotated[str, AfterValidator(_public_url)]
    username: str = ""
    password: Reference = ""
    bearer: Reference = ""
    ca_file: str = ""


class ChannelSettings(_Section):
    """One channel of Apprise's."""

    url: Annotated[Reference, Field(min_length=1)]
    severity: Literal["info", "warning", "critical"] = "warning"


class Notify(_Section):
    """Where incidents, or alerts, are sent."""

    per: Literal["incident", "rule"] = "incident"
    timezone: Zone = "UTC"
    every: Seconds = 5.0
    hold: Seconds = 3600.0
    retry_max: Seconds = 600.0
    heartbeat: Reference = ""
    heartbeat_method: Literal["GET", "POST"] = "GET"
    runbook_url: str = ""
    page_url: str = ""
    labels: dict[Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")], str] = {}
    alertmanagers: dict[Annotated[str, _NAME], AlertmanagerSettings] = {}
    channels: dict[Annotated[str, _NAME], ChannelSettings] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Notify:
        if self.hold <= 4 * self.every:
            raise ValueError(
                f"notify.hold is {self.hold:g} s: it must exceed 4 x notify.every ({4 * self.every:g} s), so that the "
                "watchdog ends before any alert"
            )
        names = [*self.alertmanagers, *self.channels, "heartbeat"]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"notify has two channels named {min(twice)}: call one of them otherwise")
        if own := self.labels.keys() & IDENTIFYING:
            raise ValueError(f"notify.labels has {min(own)}, which hwmark sets: call it otherwise")
        return self
