"""However many sources there are, so many files are open and so much is read ahead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from generators.brokerlogs.ingest import ingest_logs
from generators.brokerlogs.tailing import session
from generators.brokerlogs.tailing.open_files import OpenFiles
from pipelines.lake.bronze import read_events
from tests.unit.ingest.test_common_ends import stock

COUNT = 40


def write(folder: Path) -> list[str]:
    """A log per broker, of 60 changes of an ISR; returns the details that are expected."""
    for broker in range(COUNT):
        (folder / f"broker-{broker}").mkdir(parents=True)
        update = f"[Partition t-{broker} broker={broker}] ISR updated to {broker},9  and version updated to "
        lines = [stock(second, f"{update}{second}", "kafka.cluster.Partition") for second in range(60)]
        (folder / f"broker-{broker}" / "server.log").write_text("".join(lines))
    return [f"t-{broker}" for broker in range(COUNT) for _ in range(60)]


def test_files_beyond_a_number_are_closed_and_read_on(tmp_path, monkeypatch):
    expected, opened = write(tmp_path / "logs"), []
    monkeypatch.setattr(session, "CHUNK", 1000)
    factory = session.TailerFactory("c", open_files=OpenFiles(8))
    use = OpenFiles.use

    def count(self, reader):
        use(self, reader)
        opened.append(sum(path.startswith(str(tmp_path / "logs")) for path in _open_paths()))

    monkeypatch.setattr(OpenFiles, "use", count)
    monkeypatch.setattr("generators.brokerlogs.ingest.TailerFactory", lambda *_: factory)
    ingest_logs([tmp_path / "logs"], cluster="c", lake=str(tmp_path / "lake"))
    rows = read_events(str(tmp_path / "lake"))
    told = [f"t-{row['partition']}" for row in rows.to_pylist() if row["event_type"] == "isr"]
    assert sorted(told) == sorted(expected)
    assert max(opened) == 8
    assert {row["source_epoch"] for row in rows.to_pylist()} == {0}


def _open_paths():
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return [os.readlink(link) for link in links if os.path.islink(link)]


@pytest.mark.parametrize(("count", "limit"), [(1, 8 << 20), (16, 4 << 20), (1000, 256 << 10)])
def test_sources_share_what_is_read_ahead(tmp_path, monkeypatch, count, limit):
    write(tmp_path)
    sources = session.IngestSession(session.TailerFactory("c"))
    tailers = _tailers(sources, tmp_path)
    sources.add_tailers([tailers[k % COUNT] for k in range(count)])
    assert tailers[0].limit == limit


def _tailers(sources, folder):
    from generators.brokerlogs.discovery.sources import discover

    found = discover([folder])
    return sources.factory.tailers(found, found.sources, {}, {})
