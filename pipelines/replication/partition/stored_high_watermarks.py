"""What a broker's start, as leader or follower, tells of the last term it took part in before."""

from __future__ import annotations

from msgspec.structs import replace

from pipelines.replication.partition.events import Context, Note
from pipelines.replication.partition.isr_changes import IsrHistory
from pipelines.replication.partition.terms import STORED_BY, Mark, Owed, Standing, Term, Terms
from pipelines.replication.partition.topic_ids import UNTOLD_US


def credit(
    note: Note, terms: Terms, isr: IsrHistory, replicas: tuple[int, ...] | None, context: Context
) -> tuple[int, int] | None:
    """Counts the HW of a start for the last term its broker took part in, (epoch, ordinal), which is returned.

    A follower that starts again as it started before has taken in nothing since.
    """
    standing = terms.standings.get(note.broker_id)
    if standing is not None and not standing.led and standing.same(note):
        return standing.anchor
    if standing is not None and not standing.led and note.hw is not None and terms.untold(standing.epoch):
        moved = standing.cut or standing.leo != note.leo
        due = note.ts + UNTOLD_US
        terms.owed.append(Owed(standing.epoch, note.broker_id, note.hw, moved, due, standing.anchor))
        return (standing.epoch, 0) if moved else standing.anchor
    part = terms.last_part(note, isr.added_under(standing.epoch) if standing else frozenset(), context)
    term, told, by = terms.at(part), note.hw, f"{STORED_BY}{note.broker_id}"
    if term is not None and standing is not None and standing.led and note.leo is not None:
        term.returned = max(note.leo, term.returned or 0)
        started_again = _started_since(term, note, context)
        if started_again and alone(terms, term, isr, replicas, note.ts, context):
            told, by = max(note.leo, note.hw or 0), "former leader alone in the ISR"
    if told is not None:
        _store(terms, part, note.broker_id, told, by, _behind_gap(standing, note, context))
    return part


def _started_since(term: Term, note: Note, context: Context) -> bool:
    """Whether a leader may have started again since its term began: one that did not says itself which HW it had."""
    states = context.broker_states(note.broker_id, note.ts)
    return not states or any(detail == "started" and ts > term.ts for ts, detail, *_ in states)


def _behind_gap(standing: Standing | None, note: Note, context: Context) -> bool:
    """Whether telemetry of a broker is missing between its last start and this one: it may have led or followed in
    another term by then, whose HW this is."""
    if standing is None:
        return False
    return standing.gap or context.term(note.broker_id, standing.ts, note.ts).held


def _store(
    terms: Terms, part: tuple[int, int] | None, broker_id: int, hw: int, by: str, behind_gap: bool = False,
    untold: int | None = None,
) -> None:  # fmt: skip
    """Counts a HW for a term, or for those that are folded away."""
    term, folded = terms.at(part), terms.folded_term
    if term is not None and hw > (-1 if term.stored is None else term.stored):
        term.stored, term.stored_by, term.stored_behind_gap, term.stored_in = hw, by, behind_gap, untold
    if term is None and folded is not None and terms.since.get(broker_id, 0) is None:
        before, terms.base = terms.base, raised(terms.base, hw, by, folded)
        if terms.base is not before:
            terms.base.untold = untold


def pay(terms: Terms, at: int, context: Context) -> bool:
    """Counts what is owed where the term has been told of by now, or is waited for no longer; whether there was any."""
    ready = [o for o in terms.owed if o.due <= at or terms.of_epoch(o.epoch) is not None]
    terms.owed = [o for o in terms.owed if o not in ready]
    for o in ready:
        term = terms.of_epoch(o.epoch)
        took_part = term is not None and (o.moved or terms.fetched(term, o.broker_id, at, context))
        part = (term.epoch, term.ordinal) if term is not None and took_part else o.anchor
        untold = o.epoch if term is None else None
        _store(terms, part, o.broker_id, o.hw, f"{STORED_BY}{o.broker_id}", untold=untold)
    return bool(ready)


def alone(
    terms: Terms, term: Term, isr: IsrHistory, replicas: tuple[int, ...] | None, as_of: int, context: Context
) -> bool:
    """Whether a term ended with its leader alone in an ISR that satisfied min ISR, as set when the next one began.

    It moved its HW accordingly only if it knew: a controller makes a leader that is dead already the last of its ISR.
    """
    single = isr.known_alone(term.epoch, term.broker_id)
    after = next((t.ts for t in terms.terms[terms.terms.index(term) + 1 :]), as_of)
    return single and (context.min_isr(min(after, as_of), term.min_isr) <= 1 or replicas == (term.broker_id,))


def raised(mark: Mark, offset: int, by: str, term: Term) -> Mark:
    """A mark after somebody told of a HW in one of the terms it stands for."""
    if mark.offset is not None and offset <= mark.offset:
        return mark
    exact = mark.exact and by == "telemetry"
    return replace(mark, offset=offset, exact=exact, by=by, epoch=term.epoch, broker_id=term.broker_id)
