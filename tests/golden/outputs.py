"""What must stay byte for byte, computed: `GROUPS` has a function per group that yields (name, bytes).

`python -m tests.golden.outputs --rewrite` writes the digests of all of it to digests.json; nothing else ever does. A
change that means to give other bytes rewrites the digests and says why. `--snapshots` writes the snapshots of `begun`
to a folder named after the version of the state; a new version begins a new one.

Tables count by their values: see `canonical`. Left aside are the order in which a lake lists its files (events read
from one are sorted), and of the snapshots of log parsers zlib's output, which differs between machines, and the bytes
between the fields of their arrays, which are whatever was in memory; the layout of the fields counts. What compresses a
Reconstructor's snapshot comes with pyarrow, which requirements.lock pins: those count as they are. No state of the
ingest holds a time, an inode or a path. The runs of runs.json were drawn once, as the tests of the
simulator draw theirs, and are settings of `[simulate]` since.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pipelines.replication.state import snapshot
from tests.golden.canonical import Output
from tests.golden.constants import constants
from tests.golden.facts import facts, logs, scenarios, simulator
from tests.golden.readers import ingests, parsers
from tests.golden.states import begun, continued, histories, snapshots

HERE = Path(__file__).parent
DIGESTS = HERE / "digests.json"

GROUPS: dict[str, Callable[[], Iterator[Output]]] = {
    "logs": logs,
    "simulator": simulator,
    "facts": facts,
    "scenarios": scenarios,
    "snapshots": snapshots,
    "continued": continued,
    "histories": histories,
    "parsers": parsers,
    "ingests": ingests,
    "constants": constants,
}


def digests(group: str) -> dict[str, str]:
    """The digests of a group, by the name of the group and that of the output. Raises ValueError for a name twice."""
    found: dict[str, str] = {}
    for name, content in GROUPS[group]():
        if (place := f"{group}/{name}") in found:
            raise ValueError(f"two outputs are named {place}")
        found[place] = hashlib.sha256(content).hexdigest()
    return found


def main(words: Sequence[str]) -> int:
    """Rewrites what it is asked to."""
    if not words or not {*words} <= {"--rewrite", "--snapshots"}:
        print("usage: python -m tests.golden.outputs [--snapshots] [--rewrite]", file=sys.stderr)
        return 2
    if "--snapshots" in words:
        folder = HERE / f"version_{snapshot.VERSION}"
        folder.mkdir(exist_ok=True)
        for name, content in begun():
            (folder / name).write_bytes(content)
    if "--rewrite" in words:
        found = {name: digest for group in GROUPS for name, digest in digests(group).items()}
        DIGESTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
