"""A watcher on a thread, beside a fake cluster."""

import threading
import time
from contextlib import contextmanager

from generators.cluster.watch import watch
from generators.cluster.watcher import WatchOptions
from pipelines.lake.bronze import read_events
from tests.cluster.fake_kafka import FakeCluster

INTERVAL_S = 0.2


class Watching:
    """What a watcher writes and says until it is stopped."""

    def __init__(self, lake, options):
        self.lake, self.options, self.notes, self.error, self.summary = str(lake), options, [], None, None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self.summary = watch(self.options, self.lake, note=self.notes.append, stop=self._stop)
        except Exception as error:
            self.error = error

    def rows(self, *columns, **wanted):
        """Rows of the lake in the order of each source, where the columns have the wanted values."""
        table = read_events(self.lake)
        table = table.sort_by([(c, "ascending") for c in ("source_id", "source_epoch", "source_seq")])
        names = [*columns, *wanted]
        values = zip(*(table[name].to_pylist() for name in names), strict=True)
        kept = [row[: len(columns)] for row in values if row[len(columns) :] == tuple(wanted.values())]
        return [row[0] for row in kept] if len(columns) == 1 else kept

    def until(self, reached, what="it", within_s=20):
        """Wait until the lake or the notes are so."""
        end = time.monotonic() + within_s
        while not reached():
            assert self.error is None, self.error
            assert time.monotonic() < end, f"{what} did not come: {self.notes}"
            time.sleep(0.05)

    def rounds(self, broker, count=1):
        """Wait for so many further complete rounds of a broker."""
        before = len(self.rows("ts", event_type="progress", broker_id=broker))
        self.until(lambda: len(self.rows("ts", event_type="progress", broker_id=broker)) >= before + count, "a round")

    def noted(self, words):
        return any(words in note for note in self.notes)

    def stop(self):
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


@contextmanager
def watching(fake: FakeCluster, lake, **options):
    """A watcher of a cluster from its first round on, stopped at the end."""
    given = {"bootstrap": (fake.bootstrap(),), "cluster": "fake", "interval_s": INTERVAL_S, "timeout_s": 1.0}
    one = Watching(lake, WatchOptions(**{**given, **options}))
    try:
        one.until(lambda: one.noted("watching "), "the first round")
        yield one
    finally:
        one.stop()
