"""Applies faults to a simulation when their time has come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from generators.simulator.cluster.settings import SECOND
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.faults.script import SHAPES, Fault

Effect = Callable[[Simulation, Fault], object]
"""Applies a fault, or returns in words why there was nothing to do."""

DOWN = 3 * SECOND
PAUSE = 10 * SECOND
"""Of a rolling restart: how long each broker is down, and the least time from one to the next."""
ROLLING = ("rolling-restart", "rolling-upgrade")


class Done(NamedTuple):
    """A fault that was applied, or `skipped`: why there was nothing to do."""

    fault: Fault
    skipped: str | None


class Injection:
    """Plans faults on a simulation, from now on; each with an end is ended after `for`."""

    def __init__(self, simulation: Simulation, faults: Iterable[Fault]) -> None:
        self.done: list[Done] = []
        self._simulation = simulation
        for fault in faults:
            simulation.event_queue.after(fault.at, self._do, fault)

    def _do(self, fault: Fault) -> None:
        named, act = _named(self._simulation, fault), _ACTS[fault.do]
        why = _absent(self._simulation, named) or act.begin(self._simulation, named)
        skipped = why if isinstance(why, str) else None
        self.done.append(Done(fault, skipped))
        if skipped is None and act.end is not None and fault.lasting is not None:
            self._simulation.event_queue.after(fault.lasting, act.end, self._simulation, named)


def _named(simulation: Simulation, fault: Fault) -> Fault:
    """The fault on the active controller, if it names none."""
    active = simulation.quorum.active
    if SHAPES[fault.do].on != "controller" or fault.on is not None or active is None:
        return fault
    return fault._replace(on=active.id)


def _absent(simulation: Simulation, fault: Fault) -> str | None:
    """Why a fault does not apply: its topic may be deleted, or not created yet, at its time."""
    form = SHAPES[fault.do].on
    if fault.on is None or form not in ("topic", "partition"):
        return None
    name = fault.on[0] if form == "partition" else fault.on
    known = {topic for topic, _ in simulation.controller.partitions}
    return None if name in known else f"there is no topic {name} then"


def _if_up(action: Callable[[Simulation, int], object]) -> Effect:
    def effect(simulation: Simulation, fault: Fault) -> str | None:
        if not simulation.brokers[fault.on].running:
            return f"broker {fault.on} is down then"
        action(simulation, fault.on)
        return None

    return effect


def _restart(simulation: Simulation, fault: Fault) -> str | None:
    if simulation.brokers[fault.on].running:
        return f"broker {fault.on} is up then"
    simulation.restart(fault.on)
    return None


def _restart_or_spare(simulation: Simulation, fault: Fault) -> str | None:
    """It may not have printed a HW meanwhile."""
    simulation.kill_between_lines(fault.on, armed=False)
    return _restart(simulation, fault)


def _freeze(simulation: Simulation, fault: Fault) -> object:
    if simulation.brokers[fault.on].frozen:
        return f"broker {fault.on} is frozen then"
    return _if_up(Simulation.freeze)(simulation, fault)


def _thaw(simulation: Simulation, fault: Fault) -> str | None:
    if not simulation.brokers[fault.on].frozen:
        return f"broker {fault.on} is not frozen then"
    simulation.thaw(fault.on)
    return None


def _lose_disk(simulation: Simulation, fault: Fault) -> None:
    if simulation.brokers[fault.on].running:
        simulation.kill(fault.on)
    simulation.lose_disk(fault.on)


def _kill_controller(simulation: Simulation, fault: Fault) -> str | None:
    node = simulation.quorum.nodes.get(fault.on)
    if node is None or not node.running:
        return _no_controller(fault)
    if fault.on in simulation.brokers:
        simulation.kill(fault.on)
    else:
        simulation.quorum.kill(fault.on)
    return None


def _restart_controller(simulation: Simulation, fault: Fault) -> None:
    if fault.on in simulation.brokers:
        simulation.restart(fault.on)
    elif not simulation.quorum.nodes[fault.on].running:
        simulation.quorum.restart(fault.on)


def _freeze_controller(simulation: Simulation, fault: Fault) -> str | None:
    node = simulation.quorum.nodes.get(fault.on)
    if node is None or not node.up:
        return _no_controller(fault)
    (simulation.freeze if fault.on in simulation.brokers else simulation.quorum.freeze)(fault.on)
    return None


def _thaw_controller(simulation: Simulation, fault: Fault) -> None:
    (simulation.thaw if fault.on in simulation.brokers else simulation.quorum.thaw)(fault.on)


def _isolate(simulation: Simulation, fault: Fault) -> str | None:
    node = simulation.quorum.nodes.get(fault.on)
    if node is None or not node.up:
        return _no_controller(fault)
    simulation.quorum.isolate(fault.on)
    return None


def _no_controller(fault: Fault) -> str:
    return "no controller is active then" if fault.on is None else f"controller {fault.on} is down or frozen then"


def _replace_log_dir(simulation: Simulation, fault: Fault) -> None:
    simulation.stop(fault.on)
    simulation.restart(fault.on)


def _create_topic(simulation: Simulation, fault: Fault) -> str | None:
    if any(topic == fault.on.name for topic, _ in simulation.controller.partitions):
        return f"there is a topic {fault.on.name} then"
    simulation.create_topic(fault.on)
    return None


def _roll(simulation: Simulation, fault: Fault) -> None:
    """Broker after broker: stopped, down for `for`, started; the next one when `every` is over and all ISRs are
    complete."""
    _roll_next(simulation, fault, list(simulation.settings.brokers))


def _roll_next(simulation: Simulation, fault: Fault, left: list[int]) -> None:
    if left and not _whole(simulation):
        simulation.event_queue.after(SECOND, _roll_next, simulation, fault, left)
        return
    if not left:
        return
    _roll_one(simulation, fault, left[0])
    simulation.event_queue.after(_pause(fault), _roll_next, simulation, fault, left[1:])


def _roll_one(simulation: Simulation, fault: Fault, broker: int) -> None:
    """One broker's turn in a rolling restart or upgrade."""
    stopped = fault._replace(do="stop", on=broker)
    if "to" in fault.options:
        simulation.upgrade(broker, VERSIONS[fault.options["to"]])
    if _STOP.begin(simulation, stopped) is None:
        simulation.event_queue.after(fault.options.get("for", DOWN), _restart, simulation, stopped)


def _pause(fault: Fault) -> int:
    """Least time from one broker's turn to the next."""
    span: int = max(fault.options.get("every", PAUSE), fault.options.get("for", DOWN) + SECOND)
    return span


def _whole(simulation: Simulation) -> bool:
    """Whether every ISR has all of its replicas."""
    return all(set(p.isr) == set(p.replicas) for p in simulation.controller.partitions.values())


def _heal(simulation: Simulation, fault: Fault) -> None:
    simulation.heal(*fault.on)


def _unthrottle(simulation: Simulation, fault: Fault) -> None:
    simulation.throttle(fault.on, None)


class _Act(NamedTuple):
    """Effects of a fault: when it begins, and after `for`."""

    begin: Effect
    end: Effect | None = None


_STOP = _Act(_if_up(Simulation.stop), _restart)
_ACTS: Mapping[str, _Act] = {
    "kill": _Act(_if_up(Simulation.kill), _restart),
    "kill-between-lines": _Act(_if_up(Simulation.kill_between_lines), _restart_or_spare),
    "power-off": _Act(_if_up(Simulation.power_off), _restart),
    "stop": _STOP,
    "restart": _Act(_restart),
    "freeze": _Act(_freeze, _thaw),
    "thaw": _Act(_thaw),
    "lose-disk": _Act(_lose_disk, _restart),
    "lose-log-dir": _Act(_if_up(Simulation.lose_log_dir), _replace_log_dir),
    "cut": _Act(lambda simulation, fault: simulation.cut(*fault.on), _heal),
    "heal": _Act(_heal),
    "throttle": _Act(lambda simulation, fault: simulation.throttle(fault.on, fault.options["to"]), _unthrottle),
    "unthrottle": _Act(_unthrottle),
    "clock-jump": _Act(lambda simulation, fault: simulation.jump_clock(fault.on, fault.options["by"])),
    "reassign": _Act(lambda simulation, fault: simulation.reassign(fault.on[0], fault.on[1], fault.options["to"])),
    "elect-preferred": _Act(lambda simulation, fault: simulation.elect_preferred(*(fault.on or ()))),
    "unclean-election": _Act(lambda simulation, fault: simulation.elect_unclean(*fault.on)),
    "create-topic": _Act(_create_topic),
    "delete-topic": _Act(lambda simulation, fault: simulation.delete_topic(fault.on)),
    "configure": _Act(lambda simulation, fault: simulation.configure(fault.on, **fault.options["to"])),
    "delete-records": _Act(lambda simulation, fault: simulation.retain(fault.on[0], fault.on[1], fault.options["to"])),
    "refuse-isr": _Act(
        lambda simulation, fault: simulation.refuse_alter_partitions(fault.on),
        lambda simulation, _: simulation.refuse_alter_partitions(simulation.settings.alter_partition_errors),
    ),
    "kill-controller": _Act(_kill_controller, _restart_controller),
    "freeze-controller": _Act(_freeze_controller, _thaw_controller),
    "isolate-controller": _Act(_isolate, lambda simulation, fault: simulation.quorum.rejoin(fault.on)),
    "rolling-restart": _Act(_roll),
    "rolling-upgrade": _Act(_roll),
}
