"""Values in faults and how they are written: brokers, links, partitions, settings, versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.faults import spans
from pipelines.errors import UsageError, nearest


class Form(NamedTuple):
    """`read` raises UsageError naming the text; `write` is its inverse; `example` is what a hint shows."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]
    example: str


def whole(text: str, what: str, least: int = 0) -> int:
    """A whole number, at least `least`. Raises UsageError."""
    if not re.fullmatch(r"-?\d+", text):
        raise UsageError(f"{text!r} is no {what}: a whole number, such as {max(least, 3)}")
    if int(text) < least:
        raise UsageError(f"{what} {text} is too small; the nearest allowed is {least}")
    return int(text)


def _link(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if not match or match[1] == match[2]:
        raise UsageError(f"{text!r} is no link between two brokers: write 1-2")
    return int(match[1]), int(match[2])


def _partition(text: str) -> tuple[str, int]:
    topic, _, index = text.rpartition("-")
    if not topic or not index.isdecimal():
        raise UsageError(f"{text!r} is no partition: write TOPIC-NUMBER, such as orders-0")
    return topic, int(index)


def _brokers(text: str) -> tuple[int, ...]:
    found = tuple(whole(part.strip(), "broker") for part in text.strip("[]").split(","))
    if len(set(found)) < len(found):
        raise UsageError(f"{text} names a broker twice")
    return found


def share(text: str) -> float:
    """A number from 0 to 1. Raises UsageError."""
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{text!r} is no share: a number from 0 to 1, such as 0.5") from None
    if not 0 <= value <= 1:
        raise UsageError(f"a share of {text} cannot be; the nearest allowed is {1 if value > 1 else 0}")
    return value


def _version(text: str) -> str:
    if text not in VERSIONS:
        raise UsageError(f"there are no rules of version {text}; {nearest_version(text)}")
    return text


def nearest_version(text: str) -> str:
    """The version whose rules a broker of version `text` follows: the last known one that is not newer."""
    match = re.match(r"(\d+)\.(\d+)", text)
    if not match:
        return f"known: {', '.join(VERSIONS)}"
    wanted = int(match[1]), int(match[2])
    older = [name for name in VERSIONS if tuple(map(int, name.split("."))) <= wanted]
    return f"the nearest allowed is {older[-1] if older else next(iter(VERSIONS))}"


def _setting(text: str) -> dict[str, int | bool]:
    """`min-isr=2`, `unclean=on`, or both with a comma."""
    values: dict[str, int | bool] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key == "min-isr":
            values["min_isr"] = whole(value, "min-isr", 1)
        elif key == "unclean" and value in ("on", "off"):
            values["unclean"] = value == "on"
        elif key == "unclean":
            raise UsageError(f"unclean={value} is neither unclean=on nor unclean=off")
        else:
            raise UsageError(f"there is no setting {key} here; {nearest(key, ['min-isr', 'unclean'])}")
    return values


def _setting_written(values: dict[str, int | bool]) -> str:
    names = {"min_isr": "min-isr", "unclean": "unclean"}
    switch: dict[int | bool, str] = {True: "on", False: "off"}
    return ",".join(f"{names[k]}={switch[v] if isinstance(v, bool) else v}" for k, v in values.items())


FORMS: dict[str, Form] = {
    "broker": Form(lambda text: whole(text, "broker"), str, "3"),
    "controller": Form(lambda text: whole(text, "controller"), str, "3000"),
    "link": Form(_link, "{0[0]}-{0[1]}".format, "1-2"),
    "topic": Form(lambda text: text, str, "orders"),
    "partition": Form(_partition, "{0[0]}-{0[1]}".format, "orders-0"),
    "brokers": Form(_brokers, lambda found: ",".join(map(str, found)), "2,3,4"),
    "spec": Form(spans.topic, spans.topic_written, "orders:6x3"),
    "share": Form(share, str, "0.5"),
    "records": Form(lambda text: whole(text, "number of records"), str, "100"),
    "offset": Form(lambda text: whole(text, "offset"), str, "100"),
    "jump": Form(spans.span, spans.written, "-5s"),
    "length": Form(spans.length, spans.written, "20s"),
    "version": Form(_version, str, "4.1"),
    "setting": Form(_setting, _setting_written, "min-isr=2"),
}
