"""The alert rules: which there are, and their settings, read from TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field
from dataclasses import dataclass as plain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, create_model
from pydantic.dataclasses import dataclass

from pipelines.alerting import behind, controllers, failing, falls, lasting, occurrences, silence
from pipelines.alerting.rule import STRICT, AlertRule, RuleSettings, S, Seconds
from pipelines.errors import UsageError, nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

RULES: Mapping[str, AlertRule[Any]] = {
    rule.name: rule
    for module in (falls, lasting, controllers, occurrences, silence, behind, failing)
    for rule in module.RULES
}
"""Every rule by its name, in the order of conf/alerts.toml."""


@dataclass(frozen=True, config=STRICT)
class ControlledRestart:
    """A controlled restart is given `limit_s` seconds."""

    limit_s: Seconds = 900


@dataclass(frozen=True, config=STRICT)
class History:
    """Seconds of event time that an evaluation looks back from the end of the one before it."""

    silver_s: Seconds = 604_800
    bronze_s: Seconds = 21_600


@plain(frozen=True)
class AlertRules:
    """The settings in force of all rules, by rule, and those that no single rule has."""

    settings: Mapping[str, RuleSettings] = field(default_factory=lambda: {n: r.defaults for n, r in RULES.items()})
    controlled_restart: ControlledRestart = field(default_factory=ControlledRestart)
    history: History = field(default_factory=History)

    @property
    def severities(self) -> dict[str, str]:
        """The severity of what each rule finds."""
        return {name: one.severity for name, one in self.settings.items()}

    @property
    def group_s(self) -> dict[str, int]:
        """Seconds by rule: conditions of one cluster that begin closer together are one alert; 0: they never are."""
        return {name: getattr(one, "group_s", 0) for name, one in self.settings.items()}

    def key(self, rule: str) -> str:
        """The key of a rule in a step; a rule with other settings counts as never evaluated."""
        return f"{rule} {self.settings[rule]}"

    def judged_otherwise(self, keys: Iterable[str]) -> list[str]:
        """The rules that are on here, and that a step has evaluated with other settings only."""
        own = {name: self.key(name) for name, one in self.settings.items() if one.enabled}
        other = {key.partition(" ")[0] for key in keys} - {name for name, key in own.items() if key in keys}
        return [name for name in own if name in other]

    def of(self, rule: AlertRule[S]) -> S:
        """The settings of one rule."""
        return cast(S, self.settings[rule.name])


def load(path: str | Path | None = None) -> AlertRules:
    """The rules of a TOML file, by default as they are declared. Raises UsageError naming the bad key or value."""
    if not path:
        return AlertRules()
    try:
        return parse(tomllib.loads(Path(path).read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}; name a readable file of alert rules") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error


def parse(sections: Mapping[str, Any], name: str = "alerts.toml") -> AlertRules:
    """The rules of parsed TOML; missing keys keep their defaults. Raises UsageError."""
    try:
        given = _File(**sections)
    except ValidationError as error:
        raise UsageError("; ".join(f"{name}: {_words(e)}" for e in error.errors())) from error
    rules = AlertRules({n: getattr(given, n) for n in RULES}, given.controlled_restart, given.history)
    durations = [d for one in rules.settings.values() for key, d in asdict(one).items() if key in _LASTING]
    if rules.history.silver_s <= (longest := max(durations)):
        raise UsageError(f"{name}: history.silver_s is {rules.history.silver_s}; it must exceed every rule ({longest})")
    return rules


_LASTING = ("for_s", "one_replica_s", "resolve_after_s")


class _Common(BaseModel):
    model_config = ConfigDict(extra="forbid")
    controlled_restart: ControlledRestart = ControlledRestart()
    history: History = History()


def _over(defaults: RuleSettings) -> Callable[[Any], Any]:
    """Fill a section with its rule's own defaults, which are not those of the settings class."""
    return lambda given: {**asdict(defaults), **given} if isinstance(given, Mapping) else given


_File = create_model(
    "_File",
    __base__=_Common,
    **{
        rule.name: (Annotated[type(rule.defaults), BeforeValidator(_over(rule.defaults))], rule.defaults)
        for rule in RULES.values()
    },  # type: ignore[call-overload]
)


def _words(error: ErrorDetails) -> str:
    """The fault of a section, a key or a value, and what to write instead."""
    section, *keys = map(str, error["loc"])
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        if not keys:
            return f"unknown section [{section}]; {nearest(section, _File.model_fields)}"
        known = _File.model_fields[section].default.__dataclass_fields__
        return f"{section}.{keys[0]} is not known; {nearest(keys[0], known)}"
    if not keys:
        return f"{section} is {error['input']!r}; write a section [{section}]"
    return f"{section}.{keys[0]} is {error['input']!r}; {error['msg'].removeprefix('Value error, ')}"
