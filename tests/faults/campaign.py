"""Many faults, some at a time, and the table at the end. `python -m tests.faults.campaign --help`."""

from __future__ import annotations

import argparse
import json
import pickle
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.faults.points import Injection, injections, ordered
from tests.faults.preload import Point, build
from tests.faults.stages import INJECTED
from tests.faults.trial import SOUND, VERDICTS, Outcome, Prepared, prepare, tried

SEED = 1
OUTCOMES, PREPARED = "outcomes.jsonl", "prepared.pickle"
COLUMNS = ("EIO", "ENOSPC", "kill", "short")


def outcomes(
    chosen: Sequence[Injection], prepared: Prepared, folder: Path, at_once: int, until: float
) -> Iterator[Outcome]:
    """What came of each fault, as it is known; none is begun after `until` (monotonic seconds)."""

    def one(injection: Injection) -> Outcome | None:
        if time.monotonic() >= until:
            return None
        # What an interrupted campaign left behind in this folder stays as it is.
        return tried(injection, prepared, Path(tempfile.mkdtemp(prefix="trial-", dir=folder)))

    with ThreadPoolExecutor(at_once) as pool:
        yield from (found for found in pool.map(one, chosen) if found is not None)


def closing_table(found: Iterable[Outcome], of: int) -> str:
    """Per point and fault how many were tried and what came of them, then the sums; `of`: all faults there are."""
    cells: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for outcome in found:
        cells[_row(outcome.injection), outcome.injection.fault][outcome.verdict] += 1
    rows = sorted({row for row, _ in cells})
    width = max(map(len, rows), default=0)
    lines = [f"{'stage, process, kind of file, call':{width}}  " + "".join(f"{name:<24}" for name in COLUMNS)]
    lines += [f"{row:{width}}  " + "".join(f"{_cell(cells[row, name]):<24}" for name in COLUMNS) for row in rows]
    sums: Counter[str] = Counter()
    for counts in cells.values():
        sums += counts
    lines += ["", f"{'':10}{'tried':>8}" + "".join(f"{name:>16}" for name in VERDICTS)]
    for name in COLUMNS:
        by_fault: Counter[str] = sum((c for (_, fault), c in cells.items() if fault == name), Counter())
        lines.append(f"{name:10}{by_fault.total():>8}" + "".join(f"{by_fault[v]:>16}" for v in VERDICTS))
    lines.append(f"{'all':10}{sums.total():>8}" + "".join(f"{sums[v]:>16}" for v in VERDICTS))
    return "\n".join([*lines, f"{sums.total()} of {of} faults tried"])


def _row(injection: Injection) -> str:
    return f"{injection.stage}: {injection.point.process} · {injection.point.kind} · {injection.point.call}"


def _cell(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])


def _prepared(folder: Path) -> Prepared:
    """The lakes of the stages, those of an earlier campaign in this folder where there are any."""
    kept = folder / PREPARED
    if not kept.exists():
        kept.write_bytes(pickle.dumps(prepare(build(folder), folder)))
    found: Prepared = pickle.loads(kept.read_bytes())
    return found


def main() -> None:
    """Prints each unsound outcome as it comes, then the table; exit status 1 where there was one."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--minutes", type=float, default=100, help="none is begun later than so")
    asked.add_argument("--at-once", type=int, default=2)
    asked.add_argument("--seed", type=int, default=SEED)
    asked.add_argument("--stages", nargs="*", default=[stage.name for stage in INJECTED])
    asked.add_argument("--only", default="", help="those whose words this regular expression finds")
    asked.add_argument("--most", type=int, help="so many at most")
    asked.add_argument("--folder", type=Path, help="kept; a campaign in it goes on with what is left to try")
    asked.add_argument(
        "--list",
        action="store_true",
        help="name the faults that a campaign in this folder has, or the stages; try none",
    )
    options = asked.parse_args()
    folder, until = options.folder or Path(tempfile.mkdtemp(prefix="hwmark-faults-")), 60 * options.minutes
    folder.mkdir(parents=True, exist_ok=True)
    folder, began = folder.resolve(), time.monotonic()
    if options.list and not (folder / PREPARED).exists():
        print("\n".join(options.stages))
        print("their faults are known once a campaign has run in a --folder: name that one, or --most 0 --folder NEW")
        return
    prepared = _prepared(folder)
    every = injections({stage.name: prepared.calls[stage.name] for stage in INJECTED})
    chosen = [
        one for one in ordered(every, options.seed) if one.stage in options.stages and re.search(options.only, str(one))
    ]
    found = _known(folder)
    done = {outcome.injection for outcome in found}
    chosen = [one for one in chosen if one not in done][: options.most]
    print(f"{len(every)} faults, {len(chosen)} chosen; prepared in {time.monotonic() - began:.0f} s", flush=True)
    if options.list:
        print("\n".join(map(str, chosen)))
        return
    with (folder / OUTCOMES).open("a") as kept:
        for outcome in outcomes(chosen, prepared, folder, options.at_once, began + until):
            found.append(outcome)
            kept.write(json.dumps(asdict(outcome)) + "\n")
            kept.flush()
            if outcome.verdict not in SOUND:
                print(f"{outcome.verdict}: {outcome.injection}: {outcome.why}", flush=True)
    print(closing_table(found, len(every)))
    raise SystemExit(any(outcome.verdict not in SOUND for outcome in found))


def _known(folder: Path) -> list[Outcome]:
    """What earlier campaigns in this folder found."""
    kept = folder / OUTCOMES
    got = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    return [Outcome(_injection(**fields["injection"]), fields["verdict"], fields["why"]) for fields in got]


def _injection(stage: str, point: dict[str, str], number: int, fault: str) -> Injection:
    return Injection(stage, Point(**point), number, fault)


if __name__ == "__main__":
    main()
