"""A scenario as plain text for readers who want to see replication at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from generators.simulator.cluster.simulation_event import CONTROLLER, SimulationEvent
from generators.simulator.scenarios.narrative import Act, Position, Step, View

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
        yield from _acts(acts)
    if len(acts) > 1:
        yield from _side_by_side(acts)
    yield from wrap(f"Result: {result}", COLUMNS)


def _acts(acts: Sequence[Act]) -> Iterator[str]:
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
    for sentence in dict.fromkeys(_sentence(event, alone) for event in step.happened):
        if sentence:
            yield f"      {sentence}"
    yield from (f"    {line}" for line in step.annotations)
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


def _sentence(event: SimulationEvent, alone: bool) -> str:
    sentence_of = _SENTENCES.get(event.kind)
    sentence = sentence_of(event) if sentence_of else ""
    where = "" if alone or event.topic is None else f"{event.topic}-{event.partition}: "
    return where + sentence if sentence else ""


def _hw(event: SimulationEvent) -> str:
    if event.replica == event.leader:
        return f"the HW becomes {event.hw}"
    return f"broker {event.replica} has learned HW {event.hw}"


def _election(event: SimulationEvent) -> str:
    if event.leader in (None, -1):
        return "the controller finds nobody who may lead"
    outside = ", who is not in the ISR" if event.unclean else ""
    return f"the controller names broker {event.leader} leader of epoch {event.leader_epoch}{outside}"


def _isr(event: SimulationEvent) -> str:
    if event.source == CONTROLLER and event.broker != event.leader:
        return f"the ISR is {_ids(event.isr)}"
    return f"the leader knows: the ISR is {_ids(event.isr)}"


def _config(event: SimulationEvent) -> str:
    values = {"min.insync.replicas": event.min_isr, "replica.lag.time.max.ms": event.lag_max_ms}
    return ", ".join(f"{name} is {value}" for name, value in values.items() if value is not None)


_STATES = {
    "started": "starts",
    "controlled_shutdown": "asks to shut down",
    "fenced": "is fenced",
    "unfenced": "is unfenced",
}

_SENTENCES: dict[str, Callable[[SimulationEvent], str]] = {
    "leader": lambda event: (
        f"broker {event.broker} leads epoch {event.leader_epoch} from offset {event.leo}, with HW {event.hw}"
    ),
    "follower": lambda event: (
        f"broker {event.broker} follows broker {event.leader} from offset {event.leo}, with HW {event.hw}"
        if event.leader not in (None, -1)
        else f"broker {event.broker} has nobody to follow"
    ),
    "election": _election,
    "append": lambda event: f"the leader's log grows to {event.leader_leo}",
    "fetch": lambda event: f"broker {event.replica} fetches at {event.leo}",
    "hw": _hw,
    "isr_proposed": lambda event: f"the leader asks for ISR {_ids(event.isr)}",
    "isr": _isr,
    "isr_rejected": lambda event: "the controller refuses it",
    "truncate": lambda event: f"broker {event.replica} cuts its log back to {event.leo}",
    "broker_state": lambda event: f"broker {event.replica} {_STATES.get(event.detail or '', event.detail)}",
    "config": _config,
}
