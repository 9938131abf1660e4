"""The alert rules: what fires, after how long, how loudly; read from TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from pipelines.errors import UsageError, nearest

SEVERITIES = ("info", "warning", "critical")
GAP_KINDS = ("gap", "late", "reset", "clock")


@dataclass(frozen=True)
class Rule:
    """Something to be told of; `severity` is one of SEVERITIES."""

    enabled: bool = True
    severity: str = "warning"


@dataclass(frozen=True)
class LastingRule(Rule):
    """Fires when a state has lasted for `for_s` seconds of event time.

    States of the same brokers are one alert, and states that begin up to `group_s` seconds apart, 0: they are not.
    """

    for_s: int = 300
    group_s: int = 60


@dataclass(frozen=True)
class HappeningRule(Rule):
    """Fires at once, and ends when nothing of the kind came for `resolve_after_s` seconds of event time.

    What begins up to `group_s` seconds apart is one alert.
    """

    resolve_after_s: int = 3_600
    group_s: int = 60


@dataclass(frozen=True)
class LossRule(HappeningRule):
    """A loss pages on its own: only falls up to `group_s` seconds apart are one alert, and no others."""

    resolve_after_s: int = 86_400


@dataclass(frozen=True)
class GapRule(HappeningRule):
    """Fires for rows of `silver/telemetry_gaps` of these kinds."""

    kinds: tuple[str, ...] = ("gap", "clock")


@dataclass(frozen=True)
class StaleRule(Rule):
    """Fires when a source has told nothing for `stale_after_s` seconds of the wall clock."""

    stale_after_s: int = 300


@dataclass(frozen=True)
class JobBehindRule(Rule):
    """Fires when `run` has not read a commit of bronze for `after_s` seconds of the wall clock, or for so many of its
    intervals, whichever is longer; and at once for a cluster of which nothing was ever reconstructed."""

    after_s: int = 300
    intervals: int = 3

    def limit_s(self, interval_s: float) -> float:
        """Seconds after which a job that takes what is new so often is behind."""
        return max(self.after_s, self.intervals * interval_s)


@dataclass(frozen=True)
class ControlledRestart:
    """A controlled restart is given `limit_s` seconds."""

    limit_s: int = 900


@dataclass(frozen=True)
class History:
    """Seconds of event time that an evaluation looks back, and after which a silent partition is forgotten."""

    silver_s: int = 604_800
    bronze_s: int = 21_600
    forget_s: int = 86_400


@dataclass(frozen=True)
class AlertRules:
    """All rules; conf/alerts.toml has a section for each field."""

    loss: LossRule = field(default_factory=lambda: LossRule(severity="critical"))
    unproven_loss: LossRule = field(default_factory=LossRule)
    loss_not_excluded: LossRule = field(default_factory=lambda: LossRule(severity="info"))
    offline: LastingRule = field(default_factory=lambda: LastingRule(severity="critical"))
    under_min_isr: LastingRule = field(default_factory=lambda: LastingRule(severity="critical"))
    out_of_sync: LastingRule = field(default_factory=lambda: LastingRule(for_s=600, group_s=0))
    disagreement: HappeningRule = field(default_factory=HappeningRule)
    gap: GapRule = field(default_factory=GapRule)
    stale_source: StaleRule = field(default_factory=StaleRule)
    job_behind: JobBehindRule = field(default_factory=lambda: JobBehindRule(severity="critical"))
    controlled_restart: ControlledRestart = field(default_factory=ControlledRestart)
    history: History = field(default_factory=History)


def load(path: str | Path | None = None) -> AlertRules:
    """The rules of a TOML file, by default the packaged one. Raises UsageError naming the bad key or value."""
    source = Path(path) if path else files("pipelines.alerting").joinpath("alerts.toml")
    try:
        return parse(tomllib.loads(source.read_text(encoding="utf-8")), str(path or "alerts.toml"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}; name a readable file of alert rules") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error


def parse(sections: Mapping[str, Any], name: str = "alerts.toml") -> AlertRules:
    """The rules of parsed TOML; what is left out keeps its default. Raises UsageError."""
    defaults = AlertRules()
    known = {f.name: getattr(defaults, f.name) for f in fields(AlertRules)}
    for section, values in sections.items():
        if section not in known:
            raise UsageError(f"{name}: unknown section [{section}]; {nearest(section, known)}")
        if not isinstance(values, Mapping):
            raise UsageError(f"{name}: {section} is {values!r}; write a section [{section}]")
        known[section] = _section(known[section], values, f"{name}: {section}")
    return _checked(AlertRules(**known), name)


def _section(default: Any, values: Mapping[str, Any], place: str) -> Any:
    current = {f.name: getattr(default, f.name) for f in fields(default)}
    for key, value in values.items():
        if key not in current:
            raise UsageError(f"{place}.{key} is not known; {nearest(key, current)}")
        current[key] = _value(key, value, current[key], f"{place}.{key}")
    return type(default)(**current)


def _value(key: str, value: Any, default: Any, place: str) -> Any:
    if isinstance(default, bool) and not isinstance(value, bool):
        raise UsageError(f"{place} is {value!r}; it must be true or false")
    if key == "severity" and value not in SEVERITIES:
        raise UsageError(f"{place} is {value!r}; it must be one of {', '.join(SEVERITIES)}")
    if key == "kinds":
        if not isinstance(value, list) or not set(value) <= set(GAP_KINDS):
            raise UsageError(f"{place} is {value!r}; it must be a list out of {', '.join(GAP_KINDS)}")
        return tuple(value)
    if key.endswith("_s") and (type(value) is not int or value < 0):
        raise UsageError(f"{place} is {value!r}; it must be a whole number of seconds, 0 or more")
    if key == "intervals" and (type(value) is not int or value < 1):
        raise UsageError(f"{place} is {value!r}; it must be a whole number, 1 or more")
    return value


def _checked(rules: AlertRules, name: str) -> AlertRules:
    durations = (
        getattr(section, key)
        for section in (getattr(rules, one.name) for one in fields(rules))
        for key in ("for_s", "resolve_after_s")
        if hasattr(section, key)
    )
    if rules.history.silver_s <= (longest := max(durations)):
        raise UsageError(f"{name}: history.silver_s is {rules.history.silver_s}; it must exceed every rule ({longest})")
    return rules
