"""State that is not known is an error: it never gets a default in silence."""

import pyarrow as pa
import pytest

from pipelines.replication import Reconstructor, Rules
from pipelines.replication.state import snapshot
from tests.streaming.events import history


def changed(monkeypatch, change):
    """A snapshot some of whose tables another version has written."""
    reconstructor, write = Reconstructor(), snapshot._write
    reconstructor.update(history())
    monkeypatch.setattr(snapshot, "_write", lambda sink, name, table: write(sink, *change(name, table)))
    return reconstructor.snapshot()


def test_a_column_that_is_not_known_is_named(monkeypatch):
    added = changed(
        monkeypatch, lambda n, t: (n, t.append_column("mood", pa.array([1] * len(t))) if n == "lanes" else t)
    )
    with pytest.raises(ValueError, match=r"state lanes: column mood is not known to this version: .*--rebuild"):
        Reconstructor.restore(added)


def test_a_column_that_is_missing_is_named(monkeypatch):
    dropped = changed(monkeypatch, lambda n, t: (n, t.drop_columns(["hw"]) if n == "lanes" else t))
    with pytest.raises(ValueError, match=r"state lanes: column hw is missing: .*--rebuild"):
        Reconstructor.restore(dropped)


def test_a_column_that_earlier_versions_lack_has_its_default(monkeypatch):
    dropped = changed(monkeypatch, lambda n, t: (n, t.drop_columns(["reported"]) if n == "lanes" else t))
    assert Reconstructor.restore(dropped).state.lanes["reported"].tolist() == [-(1 << 62)] * 5


def test_a_table_that_is_not_known_is_named(monkeypatch):
    renamed = changed(monkeypatch, lambda n, t: ("moods" if n == "pending_starts" else n, t))
    with pytest.raises(ValueError, match="state moods is not known"):
        Reconstructor.restore(renamed)


@pytest.mark.parametrize("version", [6, 7, 9])
def test_a_state_of_another_version_is_refused_with_the_way_out(version):
    other = snapshot.MAGIC + version.to_bytes(2, "little") + Reconstructor().snapshot()[len(snapshot.MAGIC) + 2 :]
    with pytest.raises(ValueError, match=f"^state has version {version}, and this hwmark reads 8: .*run --rebuild`$"):
        Reconstructor.restore(other)


def test_rules_may_change_where_the_state_is_restored():
    first = Reconstructor(Rules(reorder_grace_ms=1000))
    first.update(history())
    again = Reconstructor.restore(first.snapshot(), Rules(reorder_grace_ms=2000, lag_max_ms=7))
    assert (again.rules.lag_max_ms, again.state.sources.grace_us) == (7, 2_000_000)
    assert Reconstructor.restore(again.snapshot()).rules == again.rules
    assert Reconstructor.restore(first.snapshot()).rules == first.rules
