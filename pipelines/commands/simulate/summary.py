"""Summary of a simulation, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.verdict.words import count

if TYPE_CHECKING:
    import pyarrow as pa

    from generators.simulator.clients.applications import Delivered
    from generators.simulator.clients.load import Answers, Load
    from generators.simulator.cluster.settings import Settings
    from pipelines.commands.simulate.run import Outcome

Row = dict[str, Any]
LOSSES = ("unclean_loss", "committed_loss", "hw_moved_back")
SHOWN = 10


def lines(outcome: Outcome) -> Iterator[str]:
    """The cluster, its telemetry, what went wrong, and what is lost."""
    plan, settings = outcome.plan, outcome.plan.settings
    yield (
        f"{settings.cluster}: {count(len(settings.brokers), 'broker')}, {_partitions(plan.partitions)}, "
        f"{plan.seconds:g} s of Kafka {settings.version.name} from seed {settings.seed}"
    )
    yield f"   {outcome.summary}, in {outcome.seconds:.0f} s"
    if plan.tiles > 1:
        simulated = sum(topic.partitions for topic in settings.topics)
        yield f"   {plan.tiles} tiles of {simulated} partitions; the truth is per tile, and this is that of the first:"
    yield from (f"   {line}" for line in _found(outcome))


def _partitions(number: int) -> str:
    return "1 partition" if number == 1 else f"{number:,} partitions"


def _found(outcome: Outcome) -> Iterator[str]:
    yield _changes(outcome.truth)
    if outcome.answers.sent:
        yield _answers(outcome.answers)
    for load, topic, delivered in outcome.delivered:
        yield _delivered(load, topic, delivered)
    yield from _faults(outcome)
    yield from losses(outcome.truth["truth_regressions"], outcome.truth["truth_records"])


def _changes(truth: Mapping[str, pa.Table]) -> str:
    kinds, changes = Counter(truth["truth_hw"]["kind"].to_pylist()), Counter[str]()
    for row in truth["truth_isr"].to_pylist():
        before, after = set(row["isr_before"]), set(row["isr_after"])
        how = "expand" if before < after else "shrink" if after < before else "replace"
        changes[f"{how} ({row['cause'].replace('_', ' ')})"] += 1
    text = ", ".join(f"{number:,} {change}" for change, number in changes.most_common()) or "none"
    return f"{count(kinds['term_start'], 'term')}, {kinds['advance']:,} HW changes; ISR changes: {text}"


def _answers(answers: Answers) -> str:
    refused = ", ".join(f"{number:,} {error}" for error, number in sorted(answers.refused.items()))
    return (
        f"{answers.sent:,} records sent, {answers.acknowledged:,} acknowledged"
        f"{f', refused: {refused}' if refused else ''}"
    )


def _delivered(load: Load, topic: str, found: Delivered) -> str:
    how = f"acks={'all' if load.acks == -1 else load.acks}{', idempotent' if load.idempotent else ''}, by {load.by}"
    lost = f"{found.lost:,} lost{f' ({found.broken:,} of them acknowledged)' if found.broken else ''}"
    pending = f", {found.pending:,} under way" if found.pending else ""
    resent = f"; {found.resent:,} batch{'es' * (found.resent != 1)} sent again" if found.resent else ""
    skipped = f"; {_partitions(found.skipped)} cannot be read from the start" if found.skipped else ""
    return (
        f"{count(load.producers, 'producer')} of {topic} ({how}): {found.once:,} records are there once, "
        f"{found.doubled:,} more than once, {lost}{pending}{resent}{skipped}"
    )


def _faults(outcome: Outcome) -> Iterator[str]:
    done = [one.fault for one in outcome.faults if one.skipped is None]
    if not outcome.faults:
        yield "no faults"
        return
    if len(done) <= SHOWN:
        yield f"{count(len(done), 'fault')}: {'; '.join(fault.written() for fault in done)}"
    else:
        kinds = Counter(fault.do for fault in done).most_common()
        yield f"{count(len(done), 'fault')}: {', '.join(f'{number} {do}' for do, number in kinds)}"
    skipped = [f"{one.fault.written()} ({one.skipped})" for one in outcome.faults if one.skipped is not None]
    if skipped:
        more = f"; and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
        yield f"nothing to do for {'; '.join(skipped[:SHOWN])}{more}"


def losses(regressions: pa.Table, records: pa.Table) -> Iterator[str]:
    """Ranges of committed records that are gone, then how many acknowledged ones are."""
    gone = [row for row in regressions.to_pylist() if row["class"] in LOSSES]
    for row in gone[:SHOWN]:
        yield f"{row['topic']}-{row['partition']}: {_range(row)}, {row['class'].replace('_', ' ')} as epoch " + (
            f"{row['leader_epoch']} began"
        )
    if len(gone) > SHOWN:
        yield f"and {len(gone) - SHOWN:,} ranges more (--truth DIR keeps them all, in truth_regressions)"
    if not gone:
        yield "nothing that was committed is lost"
    if lost := sum(records["lost"].to_pylist()):
        yield f"{lost:,} acknowledged records are gone"


def _range(row: Row) -> str:
    first, end = row["lost_from"], row["lost_to"]
    if first is None or end is None:
        return f"HW {row['hw_before']} -> {row['hw_after']}"
    return f"offsets {first}..{end - 1} ({end - first}) are gone"


def rules(settings: Settings) -> str | None:
    """Environment for `hwmark run` with rules other than today's; None for today's."""
    chosen = []
    if not settings.version.strict_min_isr:
        chosen.append("HWMARK_RULES__STRICT_MIN_ISR=false")
    if settings.version.lag_by_messages:
        chosen.append(f"HWMARK_RULES__LAG_MAX_MESSAGES={settings.lag_max_messages}")
    return " ".join(chosen) or None
