"""Prints a history, what is true of it and what the rules say.

python -m tests.model.show 'Scope(2, 2)' 0,1,0,1 3 debug [no controller election row]
"""

from __future__ import annotations

import sys

from pipelines.replication import Rules, replay
from tests.model.compare import View, case, spoiled, wrong
from tests.model.histories import Path, Scope, play
from tests.unit.replication.bronze import BASE_MS, events_of, last_rows, since_base

NUMBERS = ("source_epoch", "source_seq", "seq", "level", "partition", "cluster", "topic", "topic_id", "ts")
SAID = ("class", "severity", "proof", "leader_epoch", "replica_id", "lost_from", "lost_to", "hw_before", "evidence")


def show(scope: Scope, numbers: tuple[int, ...], view: View, taken: str = "") -> None:
    """The rows in order of time, the truth, and the verdicts."""
    one = case("h", play(Path(numbers), scope), view)
    one = next(less for less in [one, *spoiled(one)] if less.taken == taken)
    for row in sorted(one.rows, key=lambda row: row["ts"]):
        shown = {k: v for k, v in row.items() if v is not None and k not in NUMBERS}
        if row["event_type"] != "progress":
            print(row["ts"] // 1000 - BASE_MS, shown.pop("source_id").partition("/")[0], shown)
    print("true:", *one.played.losses, *one.played.cuts, sep="\n  ")
    said = last_rows(replay(events_of(one.rows), Rules()).hw_regressions, "regression_id")
    print("said:")
    for row in said:
        print(" ", since_base(row["ts"]), {k: row[k] for k in SAID if row[k] is not None})
    print("wrong:", *wrong(one, said), sep="\n  ")


if __name__ == "__main__":
    given = View(int(sys.argv[3]), sys.argv[4])
    show(eval(sys.argv[1]), tuple(int(n) for n in sys.argv[2].split(",")), given, " ".join(sys.argv[5:]))
