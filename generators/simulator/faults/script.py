"""Faults as values: what happens to a cluster, when, and for how long; written in one line or in TOML.

`12s freeze 3 for 20s` is the same as `[[fault]] at = "12s", do = "freeze", broker = 3, for = "20s"`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.faults.forms import FORMS
from generators.simulator.faults.spans import length, written
from pipelines.errors import UsageError, nearest


class Shape(NamedTuple):
    """The notation of a kind of fault: its target, and its options, each with its form."""

    on: str
    options: Mapping[str, str]
    purpose: str
    optional: bool = False
    """Whether the target may be left out."""

    @property
    def needed(self) -> list[str]:
        return [option for option in self.options if option in ("to", "by")]


_FOR = {"for": "length"}
_ROLLING = {"for": "length", "every": "length"}
SHAPES: dict[str, Shape] = {
    "kill": Shape("broker", _FOR, "the process dies at once (kill -9); after `for` it is started again"),
    "kill-between-lines": Shape(
        "broker", _FOR, "it dies as soon as it has printed a HW, before the fetch that moved it; `for` as above"
    ),
    "power-off": Shape("broker", _FOR, "the machine dies: what was not flushed is lost; `for` as above"),
    "stop": Shape("broker", _FOR, "a controlled shutdown; `for` as above"),
    "restart": Shape("broker", {}, "a broker that is down is started again"),
    "freeze": Shape("broker", _FOR, "the process stands still (kill -STOP)"),
    "thaw": Shape("broker", {}, "a frozen one goes on"),
    "lose-disk": Shape("broker", _FOR, "the broker dies and its disk is empty; `for` as above"),
    "lose-log-dir": Shape(
        "broker", _FOR, "one of its log directories fails; after `for` it starts again with an empty one in its place"
    ),
    "cut": Shape("link", _FOR, "nothing passes between two brokers"),
    "heal": Shape("link", {}, "it does again"),
    "throttle": Shape("broker", {"to": "records", **_FOR}, "its fetches take at most so many records per partition"),
    "unthrottle": Shape("broker", {}, "they take what they want again"),
    "clock-jump": Shape("broker", {"by": "jump"}, "its clock is set forward, or back"),
    "reassign": Shape("partition", {"to": "brokers"}, "the partition moves to these brokers"),
    "elect-preferred": Shape("partition", {}, "the first replica of each partition, or of this one, leads", True),
    "unclean-election": Shape("partition", {}, "anyone who is up may lead a partition that is offline"),
    "create-topic": Shape("spec", {}, "a topic comes"),
    "delete-topic": Shape("topic", {}, "a topic goes"),
    "configure": Shape("topic", {"to": "setting"}, "a topic's min.insync.replicas or unclean.leader.election.enable"),
    "delete-records": Shape("partition", {"to": "offset"}, "records below this offset are deleted"),
    "refuse-isr": Shape("share", _FOR, "so large a share of AlterPartition requests is refused"),
    "kill-controller": Shape("controller", _FOR, "the active controller, or this one, dies; `for` as above", True),
    "freeze-controller": Shape("controller", _FOR, "it stands still; another one becomes active in its place", True),
    "isolate-controller": Shape("controller", _FOR, "no other controller reaches it, but brokers do", True),
    "rolling-restart": Shape("", _ROLLING, "one broker after the other is stopped, down for `for`, and back"),
    "rolling-upgrade": Shape("", {"to": "version", **_ROLLING}, "the same, and each comes back as this version"),
}


class Fault(NamedTuple):
    """One fault at `at` microseconds after the start; `on` and `options` are read as its Shape says."""

    at: int
    do: str
    on: Any = None
    options: Mapping[str, Any] = {}

    @property
    def lasting(self) -> int | None:
        found: int | None = self.options.get("for")
        return found

    def written(self) -> str:
        """The line that `parse` reads back as this fault."""
        shape = SHAPES[self.do]
        on = [] if self.on is None else [FORMS[shape.on].write(self.on)]
        options = [
            part for key, value in self.options.items() for part in (key, FORMS[shape.options[key]].write(value))
        ]
        return " ".join([written(self.at), self.do, *on, *options])


def usage(do: str) -> str:
    """`AT freeze BROKER [for LENGTH]`."""
    shape = SHAPES[do]
    on = f" [{shape.on.upper()}]" if shape.optional else f" {shape.on.upper()}" if shape.on else ""
    options = [f"{k} {f.upper()}" if k in shape.needed else f"[{k} {f.upper()}]" for k, f in shape.options.items()]
    return " ".join([f"AT {do}{on}", *options])


def parse(line: str) -> Fault:
    """A fault of `AT DO [ON] [to|by|for|every VALUE]…`. Raises UsageError naming the line and what is wrong."""
    try:
        if len(line.split()) < 2:
            raise UsageError('it is written like "12s freeze 3 for 20s"')
        at, do, *rest = line.split()
        shape = _shape(do)
        on = rest.pop(0) if rest and rest[0] not in shape.options and shape.on else None
        if len(rest) % 2:
            raise UsageError(f"{rest[-1]!r} stands alone; it is written {usage(do)}")
        return _fault(at, do, on, dict(zip(rest[::2], rest[1::2], strict=True)))
    except UsageError as error:
        raise UsageError(f"fault {line!r}: {error}") from error


def read(file: Path) -> list[Fault]:
    """The faults of a TOML file's `[[fault]]` tables. Raises UsageError naming the file and the table."""
    return [_of_table(entry, f"{file}: fault {n}") for n, entry in enumerate(content(file).get("fault", []), 1)]


def content(file: Path) -> dict[str, Any]:
    """A fault file: `[[fault]]` tables and a `[rates]` table. Raises UsageError."""
    try:
        found = tomllib.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"cannot read the faults {file}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    for key in found:
        if key not in ("fault", "rates"):
            raise UsageError(f"{file}: there is nothing called {key}; {nearest(key, ['fault', 'rates'])}")
    return found


def _of_table(table: Mapping[str, Any], where: str) -> Fault:
    values = {k: ",".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in table.items()}
    try:
        do = values.pop("do", "")
        shape = _shape(do)
        if "at" not in values:
            raise UsageError(f'{do} does not say when: at = "12s"')
        return _fault(values.pop("at"), do, values.pop(shape.on, None), values)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _shape(do: str) -> Shape:
    if do not in SHAPES:
        raise UsageError(f"there is no fault {do!r}; {nearest(do, SHAPES)}")
    return SHAPES[do]


def _fault(at: str, do: str, on: str | None, options: Mapping[str, str]) -> Fault:
    shape = SHAPES[do]
    if shape.on and on is None and not shape.optional:
        raise UsageError(f"{do} does not say which {shape.on}; it is written {usage(do)}")
    for option in options:
        if option not in shape.options:
            raise UsageError(f"{do} takes no {option!r}; it is written {usage(do)}")
    for option in shape.needed:
        if option not in options:
            raise UsageError(f"{do} lacks {option!r}; it is written {usage(do)}")
    target = None if on is None else FORMS[shape.on].read(on)
    return Fault(
        length(at), do, target, {w: FORMS[shape.options[w]].read(options[w]) for w in shape.options if w in options}
    )


def checked(faults: Iterable[Fault], settings: Settings) -> list[Fault]:
    """The faults in the order of their times, all of brokers and topics there are. Raises UsageError."""
    ordered = sorted(faults, key=lambda fault: fault.at)
    topics = {topic.name: topic for topic in settings.topics}
    for fault in ordered:
        try:
            _check(fault, settings, topics)
        except UsageError as error:
            raise UsageError(f"fault {fault.written()!r}: {error}") from error
        if fault.do == "create-topic":
            topics[fault.on.name] = fault.on
    return ordered


def _check(fault: Fault, settings: Settings, topics: Mapping[str, Topic]) -> None:
    form = SHAPES[fault.do].on
    named = {"broker": (fault.on,), "link": fault.on}.get(form, ()) if fault.on is not None else ()
    for broker in (*named, *(fault.options.get("to", ()) if fault.do == "reassign" else ())):
        if broker not in settings.brokers:
            near = min(settings.brokers, key=lambda known: abs(known - broker))
            raise UsageError(f"there is no broker {broker}; the nearest is {near}")
    if form == "controller":
        _check_controller(fault.on, settings)
    if fault.on is None or form not in ("topic", "partition"):
        return
    name, index = fault.on if form == "partition" else (fault.on, 0)
    if name not in topics:
        raise UsageError(f"there is no topic {name} then; {nearest(name, topics)}")
    if index >= topics[name].partitions:
        raise UsageError(f"{name} has no partition {index}; the last one is {topics[name].partitions - 1}")


def _check_controller(id: int | None, settings: Settings) -> None:
    if len(settings.controllers) == 1:
        raise UsageError("there is one controller, which never fails; the nearest that may are controllers = 3")
    if id is not None and id not in settings.controllers:
        near = min(settings.controllers, key=lambda known: abs(known - id))
        raise UsageError(f"there is no controller {id}; the nearest is {near}")


def rates(values: Mapping[str, float], known: Iterable[str]) -> dict[str, float]:
    """Rates per minute of kinds of fault that may be drawn by chance. Raises UsageError."""
    allowed = list(known)
    for do, rate in values.items():
        if do not in allowed:
            raise UsageError(f"{do!r} does not come by chance; {nearest(do, allowed)}")
        if not isinstance(rate, int | float) or rate < 0:
            raise UsageError(f"the rate {do}={rate} is no number of times a minute; the nearest allowed is 0")
    return dict(values)
