"""Records of what each micro-batch writes, made before the first table commit, so that a killed commit can go on."""

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
"""The number of kept manifests, as of batches in Spark's checkpoint (spark.sql.streaming.minBatchesToRetain)."""


@dataclass(frozen=True)
class Manifest:
    """One batch of one query: the stretch of bronze that it reads, and the files for each table.

    `bronze`: id of bronze's table; `start`, `end`: offsets of bronze; `plan`: the text of the checkpoint's `offsets/N`;
    `health`: whether every bucket reported it; `unchanged`: tables that would be rewritten with the same rows.
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
        """The events of the batch, which its number alone does not identify."""
        return self.batch_id, self.bronze, self.start, self.end


class Manifests:
    """The manifests of one query, `_run/<query>/batches/N.json` in its lake."""

    def __init__(self, lake: Lake, query_id: str) -> None:
        self._lake, self._query_id = lake, query_id
        self._folder = f"{offsets.FOLDER}/{query_id}/batches"

    def planned(self, batch_id: int) -> Manifest:
        """The stretch of bronze that a batch reads, from the checkpoint. Raises StateMismatch if that is lost."""
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
        """The manifest by which a batch is committed: that of an earlier try, else this one, which is recorded now.

        If a power failure damaged files of the earlier try, this one's files replace all of their table: they have the
        same rows. Raises StateMismatch if another batch has the number, or the one before ended
        elsewhere.
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
        # They are listed only if the one before is missing: this runs with every batch.
        later = self.numbers()[-1:] if before is None else []
        if self.read(asked.batch_id + 1) is not None or any(number > asked.batch_id for number in later):
            raise self._mismatch(asked, f"batch {asked.batch_id} is older than what was committed", None)
        self.write(asked)
        if asked.batch_id % KEPT == 0:
            self.prune()
        return asked

    def read(self, batch_id: int) -> Manifest | None:
        """The manifest of a batch, None if there is none. Raises StateMismatch with the name of a damaged one."""
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
        """Record a batch durably."""
        self._lake.write_durably(f"{self._folder}/{manifest.batch_id}.json", json.dumps(asdict(manifest)).encode())

    def numbers(self) -> list[int]:
        """The numbers of batches with a manifest, in order."""
        from pyarrow.fs import FileSelector

        found = self._files.get_file_info(FileSelector(self._folder, allow_not_found=True))
        return sorted(int(f.base_name[:-5]) for f in found if f.base_name.endswith(".json"))

    def pending(self, committed: int) -> Manifest | None:
        """The recorded batch that is not known to be `committed`, and will be played again."""
        number = max(self.numbers(), default=-1)
        return self.read(number) if number > committed else None

    def prune(self) -> None:
        """Remove the manifests of batches that no checkpoint needs any more."""
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
    """Make checkpoint, manifests and tables agree; returns what was restored, in words.

    Raises StateMismatch with what is missing. A lake without manifests comes from an earlier version and starts them.
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
    """The fault in a batch's plan in the checkpoint; empty if there is none."""
    try:
        offsets.offset(offsets.plan(lake.files(), query_id, manifest.batch_id))
        return ""
    except FileNotFoundError:
        return "lost"
    except (ValueError, IndexError):
        return "damaged"


def _require_bronze(lake: Lake, committed: Manifest | None) -> None:
    """Require bronze to be the table that the newest committed batch has read."""
    bronze = lake.table_id("replication_events")
    if committed is not None and committed.bronze != bronze:
        raise StateMismatch(
            f"bronze of lake {lake.root} is table {bronze}, another one than batch {committed.batch_id} has read "
            f"({committed.bronze}): {_WAY_OUT}"
        )


def _require_batches(lake: Lake, query_id: str, manifests: Manifests, committed: list[int], last: int) -> None:
    """Require each table to have its newest committed batch, no batch after the `last` manifest, and all files."""
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
        # A manifest is written before the first table, so a batch that a table has without one would not be written.
        if known > last:
            raise StateMismatch(
                f"{path} has batch {known} of this query, and the newest in _run is batch {last}: an older copy of "
                "_run was put back; bring back the newest, or start silver anew from bronze with `hwmark run --rebuild`"
            )
        if (lost := lake.missing_file(kind, table.version())) is not None:
            raise StateMismatch(f"{path} names the file {lost}, which is not there or not whole: {_WAY_OUT}")


_WAY_OUT = "restore it from a copy, or start silver anew from bronze with `hwmark run --rebuild`"
