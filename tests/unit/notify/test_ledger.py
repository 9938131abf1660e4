"""The ledger under several channels at once."""

import threading

from pipelines.notify.ledger import Delivery, Ledger, Outcome
from tests.unit.notify.notified import START
from tests.unit.notify.receivers import until


def test_a_write_that_takes_long_holds_up_no_reader_and_is_no_failure():
    begun, release, written = threading.Event(), threading.Event(), []

    def write(rows):
        begun.set()
        release.wait()
        written.extend(rows)

    ledger = Ledger((), write)
    threading.Thread(target=ledger.record, args=[Delivery("a", Outcome.BEGAN, 0, START)], daemon=True).start()
    begun.wait()
    threading.Thread(target=ledger.record, args=[Delivery("b", Outcome.BEGAN, 0, START)], daemon=True).start()
    until(lambda: ledger.began("b"))
    assert (ledger.began("a"), ledger.unsaved, ledger.failing("a")) == (True, False, False)
    release.set()
    until(lambda: len(written) == 2)
    assert sorted(row.channel for row in written) == ["a", "b"]
