"""A story as plain text for somebody who wants to see replication at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from generators.simulator.cluster.happening import CONTROLLER, Happening
from generators.simulator.scenarios.story import Act, Position, Step, View

WIDEST = 48
"""Logs that would be drawn wider are not drawn."""
COLUMNS = 100
HALF = (COLUMNS - 2) // 2
_LEGEND = (
    "A log is drawn record by record: the value of each or, where it has none, the leader epoch it was",
    "written in. The HW is at |: consumers see what is left of it.",
    "",
)


def lines(acts: Sequence[Act], result: str, steps: bool = True) -> Iterator[str]:
    """The acts, step by step, how they end side by side, and the result; within COLUMNS unless names are long."""
    yield from _LEGEND if steps or len(acts) > 1 else ()
    if steps:
        yield from _told(acts)
    if len(acts) > 1:
        yield from _side_by_side(acts)
    yield from wrap(f"Result: {result}", COLUMNS)


def _told(acts: Sequence[Act]) -> Iterator[str]:
    for act in acts:
        yield from ([act.title, "=" * len(act.title), ""] if act.title else [])
        for number, step in enumerate(act.steps, 1):
            yield from _step(number, step, alone=_partitions(act) == 1)


def _side_by_side(acts: Sequence[Act]) -> Iterator[str]:
    """Two acts in a row, or each below the other where they do not fit."""
    yield "In the end, side by side"
    yield ""
    for pair in (acts[at : at + 2] for at in range(0, len(acts), 2)):
        titles = max(len(wrap(act.title, HALF)) for act in pair)
        columns = [_end(act, titles) for act in pair]
        if all(len(line) <= HALF for column in columns for line in column):
            rows = zip_longest(*columns, fillvalue="")
            yield from ("  ".join(cell.ljust(HALF) for cell in row).rstrip() for row in rows)
        else:
            yield from (line for column in columns for line in column)
        yield ""


def _end(act: Act, titles: int) -> list[str]:
    """Its title, in so many lines, and how its partitions stand."""
    title = wrap(act.title, HALF)
    views = act.steps[-1].partitions.items()
    state = [line.removeprefix("    ") for key, view in views for line in _partition("{}-{}".format(*key), view)]
    return [*title, *[""] * (titles - len(title)), *state]


def _partitions(act: Act) -> int:
    return len({key for step in act.steps for key in step.partitions})


def _step(number: int, step: Step, alone: bool) -> Iterator[str]:
    yield f"{number:>2}. {step.text}"
    for said in dict.fromkeys(_sentence(happening, alone) for happening in step.happened):
        if said:
            yield f"      {said}"
    yield from (f"    {line}" for line in step.notes)
    for (topic, partition), view in step.partitions.items():
        yield from _partition(f"{topic}-{partition}", view)
    yield ""


def _partition(name: str, view: View) -> Iterator[str]:
    who = "nobody leads" if view.leader is None else f"leader {view.leader}"
    yield f"    {name}  {who}, epoch {view.leader_epoch}, ISR {_ids(view.isr)}"
    for broker, at in view.replicas.items():
        yield f"      broker {broker} {at.state:<7}  LEO {at.leo:>3}  HW {at.hw:>3}  {_drawn(at)}".rstrip()


def _ids(brokers: Sequence[int] | None) -> str:
    return ",".join(map(str, brokers)) if brokers else "empty"


def _drawn(at: Position) -> str:
    """`a b | c`: the records, with the HW between those that consumers see and those they do not."""
    visible = max(0, at.hw - at.log_start)
    gap = " " if any(len(record) > 1 for record in at.records) else ""
    drawn = f"{gap.join(at.records[:visible])} | {gap.join(at.records[visible:])}"
    return drawn if at.records and len(drawn) <= WIDEST else ""


def _sentence(what: Happening, alone: bool) -> str:
    tell = _SENTENCES.get(what.kind)
    said = tell(what) if tell else ""
    where = "" if alone or what.topic is None else f"{what.topic}-{what.partition}: "
    return where + said if said else ""


def _hw(what: Happening) -> str:
    if what.replica == what.leader:
        return f"the HW becomes {what.hw}"
    return f"broker {what.replica} has learned HW {what.hw}"


def _election(what: Happening) -> str:
    if what.leader in (None, -1):
        return "the controller finds nobody who may lead"
    outside = ", who is not in the ISR" if what.unclean else ""
    return f"the controller names broker {what.leader} leader of epoch {what.leader_epoch}{outside}"


def _isr(what: Happening) -> str:
    if what.source == CONTROLLER and what.broker != what.leader:
        return f"the ISR is {_ids(what.isr)}"
    return f"the leader knows: the ISR is {_ids(what.isr)}"


def _config(what: Happening) -> str:
    values = {"min.insync.replicas": what.min_isr, "replica.lag.time.max.ms": what.lag_max_ms}
    return ", ".join(f"{name} is {value}" for name, value in values.items() if value is not None)


_STATES = {
    "started": "starts",
    "controlled_shutdown": "asks to shut down",
    "fenced": "is fenced",
    "unfenced": "is unfenced",
}

_SENTENCES: dict[str, Callable[[Happening], str]] = {
    "leader": lambda w: f"broker {w.broker} leads epoch {w.leader_epoch} from offset {w.leo}, with HW {w.hw}",
    "follower": lambda w: (
        f"broker {w.broker} follows broker {w.leader} from offset {w.leo}, with HW {w.hw}"
        if w.leader not in (None, -1)
        else f"broker {w.broker} has nobody to follow"
    ),
    "election": _election,
    "append": lambda w: f"the leader's log grows to {w.leader_leo}",
    "fetch": lambda w: f"broker {w.replica} fetches at {w.leo}",
    "hw": _hw,
    "isr_proposed": lambda w: f"the leader asks for ISR {_ids(w.isr)}",
    "isr": _isr,
    "isr_rejected": lambda w: "the controller refuses it",
    "truncate": lambda w: f"broker {w.replica} cuts its log back to {w.leo}",
    "broker_state": lambda w: f"broker {w.replica} {_STATES.get(w.detail or '', w.detail)}",
    "config": _config,
}
