"""What each micro-batch writes, recorded before the first table has it: a commit that was cut off goes on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pipelines.lake.data_file import Written
from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.checkpoint.damage import is_record
from pipelines.streaming.checkpoint.query import StateMismatch

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from pipelines.lake.lake import Lake

KEPT = 100
"""So many batches Spark keeps in its checkpoint, too (spark.sql.streaming.minBatchesToRetain)."""


@dataclass(frozen=True)
class Manifest:
    """One batch of one query: what it reads of bronze, and what each table gets of it.

    `bronze`: id of bronze's table; `start`, `end`: offsets of bronze; `plan`: the checkpoint's `offsets/N` as it
    stands; `health`: whether every bucket reported it; `unchanged`: tables that would be written anew with the rows
    that they have.
    """

    batch_id: int
    bronze: str
    start: Mapping[str, Any] | None
    end: Mapping[str, Any]
    plan: str
    rules: Mapping[str, object] = field(default_factory=dict)
    files: list[Written] = field(default_factory=list)
    health: bool = False
    unchanged: list[str] = field(default_factory=list)

    def of(self, kind: str) -> list[Written]:
        """The files of one table, in the order of the tasks."""
        return [file for file in self.files if file.kind == kind]

    @property
    def reads(self) -> tuple[Any, ...]:
        """Which events it is of: the number alone does not say so."""
        return self.batch_id, self.bronze, self.start, self.end


class Manifests:
    """Those of one query, `_run/<query>/batches/N.json` in its lake."""

    def __init__(self, lake: Lake, query_id: str) -> None:
        self._lake, self._query_id = lake, query_id
        self._folder = f"{offsets.FOLDER}/{query_id}/batches"

    def planned(self, batch_id: int) -> Manifest:
        """What a batch reads by the checkpoint. Raises StateMismatch where that is lost."""
        try:
            plan = offsets.plan(self._files, self._query_id, batch_id)
            before = offsets.plan(self._files, self._query_id, batch_id - 1) if batch_id else None
        except FileNotFoundError as lost:
            raise StateMismatch(
                f"the checkpoint of lake {self._lake.root} has lost what batch {batch_id} reads: start the job again, "
                "which restores it, or start silver anew with `hwmark run --rebuild`"
            ) from lost
        start = offsets.offset(before) if before else offsets.began_at(self._lake, self._query_id)
        return Manifest(batch_id, self._lake.table_id("replication_events"), start, offsets.offset(plan), plan)

    def settle(self, asked: Manifest) -> Manifest:
        """The manifest by which a batch is committed: the one of an earlier try of it, else this one, recorded now.

        Where files of the earlier try are not whole any more, as a disk may leave them that lost its power, those of
        this one stand for all of their table: they have the same rows. Raises StateMismatch where another batch has its
        number, or it does not go on where the one before it ended.
        """
        known = self.read(asked.batch_id)
        if known is not None:
            if known.reads != asked.reads:
                raise self._mismatch(asked, f"batch {asked.batch_id} was recorded with other events", known)
            damaged = {f.kind for f in known.files if not self._lake.has_whole(f.kind, f.path, f.size)}
            if damaged:
                kept = [file for file in known.files if file.kind not in damaged]
                known = replace(known, files=kept + [file for file in asked.files if file.kind in damaged])
                self.write(known)
            return known
        before = self.read(asked.batch_id - 1)
        if before is not None and before.bronze != asked.bronze:
            raise self._mismatch(asked, "bronze is another table than the one that was read so far", before)
        if before is not None and before.end != asked.start:
            raise self._mismatch(asked, f"batch {asked.batch_id} does not go on where the one before ended", before)
        # Only where the one before is not there are all listed: this runs with every batch.
        later = self.numbers()[-1:] if before is None else []
        if self.read(asked.batch_id + 1) is not None or any(number > asked.batch_id for number in later):
            raise self._mismatch(asked, f"batch {asked.batch_id} is older than what was committed", None)
        self.write(asked)
        if asked.batch_id % KEPT == 0:
            self.prune()
        return asked

    def read(self, batch_id: int) -> Manifest | None:
        """The manifest of a batch, None where there is none. Raises StateMismatch naming one that is damaged."""
        path = f"{self._folder}/{batch_id}.json"
        try:
            with self._files.open_input_stream(path) as stream:
                fields = json.loads(stream.read())
            fields.pop("touched", None)  # an earlier version's
            return Manifest(**fields | {"files": [Written(**file) for file in fields["files"]]})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as damaged:
            raise StateMismatch(
                f"{self._lake.root}/{path} is damaged ({damaged}): restore it, or start silver anew with "
                "`hwmark run --rebuild`"
            ) from damaged

    def write(self, manifest: Manifest) -> None:
        """Records a batch; it is on the disk when this returns."""
        self._lake.write_durably(f"{self._folder}/{manifest.batch_id}.json", json.dumps(asdict(manifest)).encode())

    def numbers(self) -> list[int]:
        """Batches that have one, in order."""
        from pyarrow.fs import FileSelector

        found = self._files.get_file_info(FileSelector(self._folder, allow_not_found=True))
        return sorted(int(f.base_name[:-5]) for f in found if f.base_name.endswith(".json"))

    def pending(self, committed: int) -> Manifest | None:
        """The batch that is recorded and not known to be `committed`: it is played again."""
        number = max(self.numbers(), default=-1)
        return self.read(number) if number > committed else None

    def prune(self) -> None:
        """Removes those of batches that no checkpoint asks for any more."""
        for number in self.numbers()[:-KEPT]:
            self._files.delete_file(f"{self._folder}/{number}.json")

    @property
    def _files(self) -> FileSystem:
        return self._lake.files()

    def _mismatch(self, asked: Manifest, why: str, known: Manifest | None) -> StateMismatch:
        other = "" if known is None else f" ({known.start} to {known.end} of {known.bronze})"
        return StateMismatch(
            f"{why}{other}, and the checkpoint asks for {asked.start} to {asked.end} of {asked.bronze}: the checkpoint "
            f"or bronze of lake {self._lake.root} was replaced; bring back what was there, or start silver anew from "
            "bronze with `hwmark run --rebuild`"
        )


def resume(lake: Lake, query_id: str) -> list[str]:
    """Makes sure that checkpoint, manifests and tables belong together; what it restored, in words.

    Raises StateMismatch naming what is missing. A lake without manifests is one of an earlier version: it begins some.
    """
    offsets.remove_drafts(lake.files(), query_id)
    manifests = Manifests(lake, query_id)
    numbers = manifests.numbers()
    if not numbers:
        return []
    said = []
    if (done := offsets.last(lake.files(), query_id, "commits")) >= 0 and not is_record(
        lake, query_id, f"commits/{done}"
    ):
        lake.files().delete_file(f"{offsets.FOLDER}/{query_id}/commits/{done}")
        said.append(f"batch {done} is played again: its end in the checkpoint was damaged")
        done = offsets.last(lake.files(), query_id, "commits")
    for number in range(min(offsets.last(lake.files(), query_id, "offsets") + 1, numbers[-1]), numbers[-1] + 1):
        manifest = manifests.read(number)
        if manifest is not None and (why := _wrong(lake, query_id, manifest)):
            offsets.restore_plan(lake, query_id, number, manifest.plan)
            said.append(f"restored what batch {number} reads: its file in the checkpoint was {why}")
    committed = [n for n in numbers if n <= done]
    _require_bronze(lake, manifests.read(committed[-1]) if committed else None)
    _require_batches(lake, query_id, manifests, committed, numbers[-1])
    manifests.prune()
    return said


def _wrong(lake: Lake, query_id: str, manifest: Manifest) -> str:
    """What is wrong with a batch's plan in the checkpoint; empty where it is as it should be."""
    try:
        offsets.offset(offsets.plan(lake.files(), query_id, manifest.batch_id))
        return ""
    except FileNotFoundError:
        return "lost"
    except (ValueError, IndexError):
        return "damaged"


def _require_bronze(lake: Lake, committed: Manifest | None) -> None:
    """Bronze is the table that the newest committed batch has read, whether it has anything new or not."""
    bronze = lake.table_id("replication_events")
    if committed is not None and committed.bronze != bronze:
        raise StateMismatch(
            f"bronze of lake {lake.root} is table {bronze}, another one than batch {committed.batch_id} has read "
            f"({committed.bronze}): {_WAY_OUT}"
        )


def _require_batches(lake: Lake, query_id: str, manifests: Manifests, committed: list[int], last: int) -> None:
    """Every table has the newest committed batch that wrote to it, none after the `last` that has a manifest, and the
    files of its newest version are there."""
    newest: dict[str, int] = {}
    for number in committed[::-1]:
        manifest = manifests.read(number)
        for file in manifest.files if manifest is not None else ():
            newest.setdefault(file.kind, number)
    for kind, number in newest.items():
        path = f"{lake.root}/{lake.path(kind)}"
        if not lake.has_table(kind):
            raise StateMismatch(f"{path} is gone, and batch {number} was committed to it: {_WAY_OUT}")
        table = lake.open(kind)
        known = table.transaction_version(query_id)
        if known is None or known < number:
            raise StateMismatch(
                f"{path} has {'no batch' if known is None else f'batch {known} as its last one'} of this query, and "
                f"batch {number} was committed to it: {_WAY_OUT}"
            )
        # A batch has a manifest before the first table gets it; one that a table has already would not be written.
        if known > last:
            raise StateMismatch(
                f"{path} has batch {known} of this query, and the newest in _run is batch {last}: an older copy of "
                "_run was put back; bring back the newest, or start silver anew from bronze with `hwmark run --rebuild`"
            )
        if (lost := lake.missing_file(kind, table.version())) is not None:
            raise StateMismatch(f"{path} names the file {lost}, which is not there or not whole: {_WAY_OUT}")


_WAY_OUT = "restore it from a copy, or start silver anew from bronze with `hwmark run --rebuild`"
