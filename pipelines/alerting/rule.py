"""Alert rules: their settings, the conditions that they find in the evidence, and their sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass as plain
from enum import Enum
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator, ConfigDict
from pydantic.dataclasses import dataclass

from pipelines.alerting.conditions import Ask, Condition
from pipelines.alerting.restarts import Restarts

SEVERITIES = ("info", "warning", "critical")
GAP_KINDS = ("gap", "late", "reset", "clock", "contradiction")
STRICT = ConfigDict(extra="forbid")
WITHDRAWN = "found no more"


def _must_be(words: str, fits: Callable[[Any], bool]) -> BeforeValidator:
    """Return a validator that refuses other values with a message that names the valid ones."""

    def check(value: Any) -> Any:
        if not fits(value):
            raise ValueError(f"it must be {words}")
        return value

    return BeforeValidator(check)


Switch = Annotated[bool, _must_be("true or false", lambda value: isinstance(value, bool))]
Severity = Annotated[str, _must_be(f"one of {', '.join(SEVERITIES)}", lambda value: value in SEVERITIES)]
Seconds = Annotated[int, _must_be("a whole number of seconds, 0 or more", lambda v: type(v) is int and v >= 0)]
Intervals = Annotated[int, _must_be("a whole number, 1 or more", lambda value: type(value) is int and value >= 1)]
Kinds = Annotated[
    tuple[str, ...],
    _must_be(
        f"a list out of {', '.join(GAP_KINDS)}",
        lambda value: isinstance(value, list | tuple) and all(kind in GAP_KINDS for kind in value),
    ),
]


@dataclass(frozen=True, config=STRICT)
class RuleSettings:
    """Settings that every rule has; `severity` is one of SEVERITIES."""

    enabled: Switch = True
    severity: Severity = "warning"


@dataclass(frozen=True, config=STRICT)
class LastingSettings(RuleSettings):
    """Fires when a state has lasted for `for_s` seconds of event time.

    States of the same brokers are one alert, and states that begin up to `group_s` seconds apart, 0: they are not.
    """

    for_s: Seconds = 300
    group_s: Seconds = 60


@dataclass(frozen=True, config=STRICT)
class OccurrenceSettings(RuleSettings):
    """Fires at once, and ends when nothing of the kind came for `resolve_after_s` seconds.

    What begins up to `group_s` seconds apart is one alert.
    """

    resolve_after_s: Seconds = 3_600
    group_s: Seconds = 60


S = TypeVar("S", bound=RuleSettings)


class About(Enum):
    """The kind of thing that a rule is about: it decides an alert's subject and labels."""

    PARTITIONS = "partitions"
    BROKERS = "partitions, because of brokers that are missing"
    SOURCES = "telemetry sources"
    CLUSTER = "a cluster as a whole"
    CHANNEL = "a notification channel, not a cluster"


@plain(frozen=True)
class Evaluation:
    """The input of every rule.

    `ask` queries the evidence; `restarts` are the controlled ones; `now` is the wall clock in microseconds since 1970.
    """

    ask: Ask
    restarts: Restarts
    now: int


@plain(frozen=True)
class AlertRule(Generic[S]):
    """One rule; conf/alerts.toml has a section of its name with its default settings.

    Attributes:
        conditions: finds what is wrong; gets the rule's name and settings.
        sentence: words the conditions of one alert; nothing in it may change while only time passes.
        needs: the evidence without which nothing can be said, not even that an alert is over.
        withdrawn: is said of an alert whose conditions are not in the evidence any more.
        ends: is said of an alert that stopped firing.
        from_told: whether an alert ends `resolve_after_s` seconds of the wall clock after it was told.
        look: the view of `hwmark show` to type first.
    """

    name: str
    defaults: S
    conditions: Callable[[str, S, Evaluation], Iterator[Condition]]
    sentence: Callable[[Sequence[Condition]], str]
    needs: tuple[str, ...]
    about: About = About.PARTITIONS
    withdrawn: str = WITHDRAWN
    ends: str = "resolved"
    from_told: bool = False
    look: str = "verdict"
