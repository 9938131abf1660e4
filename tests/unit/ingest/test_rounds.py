"""Sources are merged by time: nothing goes out ahead of a source still to come, each keeps its own order."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from generators.brokerlogs.discovery.sources import discover
from generators.brokerlogs.tailing.progress import times
from generators.brokerlogs.tailing.rounds import Round, done, step
from generators.brokerlogs.tailing.tailer import Tailer
from generators.brokerlogs.tailing.told_lines import Told
from tests.unit.ingest.plain_parser import PlainParser, lines

pytestmark = pytest.mark.long

START = 1_700_000_000_000


def _tailers(folder: Path, chunk: int) -> list[Tailer]:
    return [
        Tailer(source, partial(PlainParser, source.source_id), Told(), chunk=chunk)
        for source in discover([folder]).sources
    ]


def _cluster(folder: Path) -> None:
    """A busy log, a quiet one that spans the same hour, a short one that ends early, one with displaced lines."""
    contents = {
        "busy": lines(*range(3600), step=1000),
        "quiet": lines(*range(6), step=600_000),
        "short": lines(*range(50), step=100),
        "displaced": b"".join(lines(i, start=START + i * 1000 + (50 if i % 2 else 0)) for i in range(3000)),
    }
    for name, content in contents.items():
        (folder / name).mkdir()
        (folder / name / "rep.log").write_bytes(content)


@pytest.mark.parametrize("chunk", [700, 1 << 20])
def test_no_step_runs_ahead_of_a_source_still_to_come(tmp_path: Path, chunk: int) -> None:
    _cluster(tmp_path)
    tailers, given, latest = _tailers(tmp_path, chunk), 0, 0
    while not done(tailers):
        current = Round()
        step(tailers, current)
        if current.rows:
            stamps = times(current.table())
            assert stamps.min() >= latest - 2_000_000, "a row came after later ones of another source"
            latest, given = max(latest, int(stamps.max())), given + len(stamps)
    assert given > 6656


@pytest.mark.parametrize("chunk", [700, 1 << 20])
def test_rows_of_a_source_keep_their_order(tmp_path: Path, chunk: int) -> None:
    _cluster(tmp_path)
    tailers, current = _tailers(tmp_path, chunk), Round()
    while not done(tailers):
        step(tailers, current)
    table = current.table()
    for name in ("busy", "quiet", "short", "displaced"):
        mine = table.filter(
            np.array([source.endswith(f"/{name}/rep.log") for source in table["source_id"].to_pylist()])
        )
        assert mine["source_seq"].to_pylist() == list(range(mine.num_rows))
        leos = [leo for leo in mine["leader_leo"].to_pylist() if leo is not None]
        assert leos == list(range(len(leos)))
        assert mine["event_type"][mine.num_rows - 1].as_py() == "progress"


@pytest.mark.parametrize("seed", range(5))
def test_a_tail_goes_on_from_its_state_right_behind_the_rows_given_out(tmp_path: Path, seed: int) -> None:
    (tmp_path / "rep.log").write_bytes(lines(*range(2000), step=37))
    (source,) = discover([tmp_path]).sources
    random, tailer, state, leos = np.random.default_rng(seed), None, {}, []
    while tailer is None or not (tailer.finished and tailer.drained):
        tailer = Tailer(source, PlainParser, Told(), state=state, chunk=int(random.integers(50, 9000)))
        for _ in range(random.integers(1, 4)):
            if tailer.drained and not tailer.finished:
                tailer.pull()
            horizon = (START + int(random.integers(0, 80_000))) * 1000 if random.random() < 0.8 else 1 << 62
            for table in tailer.take(horizon):
                leos.extend(leo for leo in table["leader_leo"].to_pylist() if leo is not None)
            state = tailer.as_json()
    assert leos == list(range(2000))
