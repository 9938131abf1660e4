"""Ingest with unchanged fetches coalesced: fewer rows, every table the same, over rounds, restarts and deaths."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.brokerlogs import ingest
from generators.brokerlogs.ingest import ReadOptions, ingest_logs, read_logs
from generators.brokerlogs.tailing import session
from generators.brokerlogs.tailing.coalesce import FetchRuns, longest
from generators.recordings import traces
from pipelines.lake.bronze import read_events
from pipelines.replication import Facts, Rules, replay
from tests.unit.ingest.coalescing import differing
from tests.unit.ingest.comparing import numbers_without_holes

pytestmark = pytest.mark.long

RULES = Rules(replica_hw=True)


def _facts(events: pa.Table) -> Facts:
    return replay(events, RULES)


def _fetches(events: pa.Table) -> int:
    """How many fetches rows stand for."""
    return pc.sum(pc.equal(events["event_type"], "fetch")).as_py() + (pc.sum(events["repeats"]).as_py() or 0)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("scenario", traces.scenarios())
@pytest.mark.parametrize("round_bytes", [1, 64 << 20])
def test_every_table_of_a_recorded_incident_is_the_same(
    tmp_path: Path, scenario: str, round_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ROUND_BYTES", round_bytes)
    monkeypatch.setattr(session, "CHUNK", 200_000)
    whole = read_logs([traces.path(scenario)], "c")
    summary = ingest_logs(
        [traces.path(scenario)], cluster="c", lake=str(tmp_path), options=ReadOptions(coalesce_ms=longest(30_000))
    )
    few = read_events(str(tmp_path))
    assert summary.events == len(few)
    _assert_same(few, whole)


def _broker(folder: Path, scenario: str = "leader_crash") -> dict[str, list[bytes]]:
    """The logs of one broker, uncompressed into a folder; their lines."""
    folder.mkdir()
    source, lines = traces.path(scenario) / "broker-3", {}
    for log in ("replication.log", "controller.log"):
        lines[log] = gzip.decompress((source / f"{log}.gz").read_bytes()).splitlines(keepends=True)
        (folder / log).write_bytes(b"".join(lines[log]))
    return lines


class Killed(BaseException):
    """Stands for the end of the process."""


def _dying(call: Callable, nth: int, before: bool) -> Callable:
    """`call`, that at its nth time ends the process, before or after doing its work."""
    calls = iter(range(1, 1 << 30))

    def dying(*args: object, **kwargs: object) -> object:
        last = next(calls) == nth
        if last and before:
            raise Killed
        result = call(*args, **kwargs)
        if last:
            raise Killed
        return result

    return dying


POINTS = {
    "before the write-ahead": ("write", True),
    "between write-ahead and commit": ("append_round", True),
    "between commit and clean-up": ("append_round", False),
    "after the clean-up": ("mark_committed", False),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("point", "before"), POINTS.values(), ids=POINTS.keys())
def test_killed_around_a_commit(tmp_path: Path, point: str, before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are those of the rows that are written: none is left out, no fetch is lost or counted twice."""
    _broker(tmp_path / "broker-3")
    monkeypatch.setattr(session, "ROUND_BYTES", 1)

    def reported(coalesce_ms: int) -> pa.Table:
        lake, chance, deaths = str(tmp_path / f"lake-{coalesce_ms}"), random.Random(point), 0
        while True:
            monkeypatch.setattr(session, "CHUNK", chance.randrange(200_000, 900_000))
            with monkeypatch.context() as dying:
                target = ingest if point == "append_round" else ingest.Checkpoints
                dying.setattr(target, point, _dying(getattr(target, point), chance.randrange(1, 4), before))
                try:
                    ingest_logs(
                        [tmp_path / "broker-3"], cluster="c", lake=lake, options=ReadOptions(coalesce_ms=coalesce_ms)
                    )
                    break
                except Killed:
                    deaths += 1
        assert deaths > 2
        return read_events(lake)

    _assert_same(reported(longest(30_000)), reported(0))


def test_a_log_that_grows_between_calls(tmp_path: Path) -> None:
    lines = _broker(tmp_path / "broker-3")

    def reported(coalesce_ms: int) -> pa.Table:
        lake = str(tmp_path / f"lake-{coalesce_ms}")
        for share in (0.3, 0.31, 0.7, 1.0):
            for log, of in lines.items():
                (tmp_path / "broker-3" / log).write_bytes(b"".join(of[: int(share * len(of))]))
            ingest_logs([tmp_path / "broker-3"], cluster="c", lake=lake, options=ReadOptions(coalesce_ms=coalesce_ms))
        return read_events(lake)

    _assert_same(reported(longest(30_000)), reported(0))


def _assert_same(few: pa.Table, whole: pa.Table) -> None:
    assert numbers_without_holes(few)
    assert len(few) < len(whole)
    assert _fetches(few) == _fetches(whole)
    assert differing(_facts(few), _facts(whole)) == []


def test_runs_respect_the_lag_in_the_settings_beside_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a call in which the settings are not written again."""
    longest_us: list[int] = []
    monkeypatch.setattr(FetchRuns, "repeats", _recording(FetchRuns.repeats, longest_us))
    folder = tmp_path / "broker-3"
    lines = _broker(folder)["replication.log"]
    (folder / "server.properties").write_text("node.id=3\nreplica.lag.time.max.ms=600\n")
    for upto in (len(lines) // 2, len(lines)):
        (folder / "replication.log").write_bytes(b"".join(lines[:upto]))
        ingest_logs(
            [folder], cluster="c", lake=str(tmp_path / "lake"), options=ReadOptions(coalesce_ms=longest(30_000))
        )
    assert len(longest_us) >= 2
    assert {*longest_us} == {300_000}


def _recording(call: Callable, longest_us: list[int]) -> Callable:
    def noting(runs: FetchRuns, *args: object) -> object:
        reported = call(runs, *args)
        longest_us.append(runs._longest)
        return reported

    return noting
