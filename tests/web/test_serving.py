"""The process that serves: slow and crowding clients, a place that is taken, a snapshot for many requests."""

import shutil
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from starlette.testclient import TestClient

from pipelines.errors import UsageError
from pipelines.lake.lake import Lake
from pipelines.verdict import Limits
from pipelines.web import server, snapshot
from pipelines.web.app import create_app
from pipelines.web.asked import Asked, asked_of
from pipelines.web.snapshot import KEPT, Reader, UnreadableError
from tests.unit.project.lakes import at, health, sound, write
from tests.web import staged
from tests.web.lakes import NOW, incident
from tests.web.serving import served


def until_closed(client):
    """What a client is sent until the server lets go of it."""
    client.settimeout(60)
    received = b""
    while piece := client.recv(65_536):
        received += piece
    return received


def connected(url):
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)))


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET /"])
def test_a_client_that_never_asks_is_let_go(lake, monkeypatch, sent):
    monkeypatch.setattr(server, "REQUEST_S", 0.3)
    incident(lake)
    with served(lake) as url, connected(url) as client:
        client.sendall(sent)
        assert until_closed(client) == b""


def test_a_request_without_end_is_refused(lake):
    incident(lake)
    with served(lake) as url, connected(url) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000)
        assert until_closed(client).startswith(b"HTTP/1.1 400 ")


ASKING = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
ASKING_ONCE = ASKING.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


def test_more_requests_at_a_time_than_it_serves_are_answered_with_503(lake, monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS", 2)
    incident(lake)
    begun, go_on = threading.Event(), threading.Event()

    def slow():
        begun.set()
        go_on.wait()
        return NOW

    with served(lake, now=slow) as url, connected(url) as at_work:
        at_work.sendall(ASKING_ONCE)
        assert begun.wait(60)
        with connected(url) as client:
            client.sendall(ASKING_ONCE)
            refused = until_closed(client)
        go_on.set()
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert until_closed(at_work).startswith(b"HTTP/1.1 200 ")


def answer(url):
    """What a client that asks once is sent; where that is 503, after a moment for the server to get on."""
    with connected(url) as client:
        client.sendall(ASKING_ONCE)
        found = until_closed(client)
    if found.startswith(b"HTTP/1.1 503 "):
        time.sleep(0.2)
    return found


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", ASKING, ASKING + b"GET /", ASKING * 200])
def test_any_number_of_clients_that_ask_nothing_or_read_nothing_leave_room(lake, monkeypatch, sent):
    for name, value in {"CONNECTIONS": 4, "REQUEST_S": 3600.0, "KEPT_S": 3600}.items():
        monkeypatch.setattr(server, name, value)
    incident(lake)
    with served(lake, now=lambda: NOW) as url:
        idle = []
        for _ in range(18):
            idle.append(connected(url))
            idle[-1].sendall(sent)
            if sent.startswith(ASKING):
                assert idle[-1].recv(9) == b"HTTP/1.1 "
        # Requests of those that asked for much may still be at work, for which 503 is right: asked again until then.
        answers = (answer(url) for _ in range(300 if sent == ASKING * 200 else 1))
        assert any(found.startswith(b"HTTP/1.1 200 ") for found in answers)
        for one in idle:
            one.close()


def test_a_client_that_reads_nothing_holds_up_nobody(lake):
    incident(lake)
    with served(lake, now=lambda: NOW) as url:
        lazy = [connected(url) for _ in range(8)]
        for one in lazy:
            one.sendall(ASKING * 50)
        with connected(url) as client:
            client.sendall(ASKING_ONCE)
            assert b"LOST: 180 offsets" in until_closed(client)
        for one in lazy:
            one.close()


def test_a_place_that_is_taken_is_one_line():
    with server.listening("127.0.0.1", 0) as place, pytest.raises(UsageError, match="address already in use"):
        server.listening("127.0.0.1", place.getsockname()[1])
    with pytest.raises(UsageError, match=r"cannot listen on no-such-host\.invalid port 0"):
        server.listening("no-such-host.invalid", 0)


def reader_of(lake, refresh_s=3600, now=lambda: NOW):
    return Reader(Lake(lake), Limits(), now, refresh_s)


def test_between_two_looks_the_lake_is_as_it_was(lake, monkeypatch):
    monkeypatch.setattr(snapshot, "NEWS_S", 3600)
    sound(lake, health("orders", 0))
    reader = reader_of(lake)
    assert reader.snapshot().open("partition_health").version() == 0
    write(lake, "partition_health", health("orders", 1))
    assert reader.snapshot().open("partition_health").version() == 0
    assert reader_of(lake).snapshot().open("partition_health").version() == 1


def test_of_a_lake_that_is_looked_at_again_only_tables_with_a_new_commit_are_opened(lake, monkeypatch):
    monkeypatch.setattr(snapshot, "NEWS_S", 0)
    sound(lake, health("orders", 0))
    reader, changed = reader_of(lake), "gold/partition_health"
    first = reader.snapshot()
    assert reader.snapshot() is first
    write(lake, "partition_health", health("orders", 1))
    later = reader.snapshot()
    assert later.opened[changed].version() == 1
    assert [path for path in later.opened if later.opened[path] is not first.opened[path]] == [changed]


def test_a_table_that_was_made_anew_is_opened_after_a_refresh(lake, monkeypatch):
    monkeypatch.setattr(snapshot, "NEWS_S", 0)
    sound(lake, health("orders", 0))
    write(lake, "partition_health", health("orders", 1))
    reader = reader_of(lake, refresh_s=0)
    assert reader.snapshot().open("partition_health").version() == 1
    shutil.rmtree(f"{lake}/gold/partition_health")
    write(lake, "partition_health", health("orders", 0))
    assert reader.snapshot().open("partition_health").version() == 0


def test_an_answer_is_read_once_per_version(lake):
    sound(lake, health("orders", 0))
    reader, read = reader_of(lake, refresh_s=0), []
    for _ in range(3):
        reader.answer("x", read.append)
    assert len(read) == 1
    write(lake, "partition_health", health("orders", 1))
    reader.answer("x", read.append)
    assert len(read) == 2


def test_a_job_that_has_read_on_is_seen_though_no_table_changed(lake):
    """Whether a cluster is judged is in the checkpoint, too."""
    sound(lake, health("orders", 0))
    reader, read = reader_of(lake, refresh_s=0), []
    reader.answer("x", read.append)
    offset = next((Path(lake) / "_run").rglob("offsets/0"))
    offset.write_text(offset.read_text().replace('"events": 0', '"events": 1'))
    reader.answer("x", read.append)
    assert len(read) == 2


def test_answers_that_are_kept_are_bounded(lake):
    sound(lake, health("orders", 0))
    reader = reader_of(lake)
    for number in range(KEPT + 100):
        reader.answer(number, lambda _: "kept")
    assert len(reader._answers) == KEPT


def test_many_threads_read_one_answer_once(lake):
    sound(lake, health("orders", 0))
    reader, read = reader_of(lake), []
    threads = [threading.Thread(target=lambda: reader.answer("x", read.append)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) == 1


def test_what_rust_says_in_a_panic_is_unreadable(lake):
    class PanicException(BaseException):
        pass

    sound(lake, health("orders", 0))

    def panics(_):
        raise PanicException("called `Option::unwrap()` on a `None` value")

    with pytest.raises(UnreadableError, match="cannot be read just now"):
        reader_of(lake).answer("x", panics)


def test_a_source_that_falls_silent_is_noticed_though_no_table_changed(lake):
    from pipelines.web.answers.overview import all_sentences

    sound(lake, health("orders", 0))
    clock = [at(85)]
    reader = reader_of(lake, refresh_s=0, now=lambda: clock[0])
    assert "silent" not in " ".join(map(str, all_sentences(reader, Asked())))
    clock[0] = at(85 + 400)
    assert "UNKNOWN: no source reports any more" in " ".join(map(str, all_sentences(reader, Asked())))


def test_nothing_is_written_to_a_lake_by_looking(lake):
    sound(lake, health("orders", 0))
    before = DeltaTable(f"{lake}/gold/partition_health").history()
    reader_of(lake).snapshot()
    assert DeltaTable(f"{lake}/gold/partition_health").history() == before


def test_a_state_goes_into_a_url_and_comes_back():
    state = Asked(cluster="a&b=c", topic="t", partition=0, since="6h", q="<x>", page=3, refresh="off")
    from urllib.parse import parse_qsl

    assert asked_of(dict(parse_qsl(state.query().removeprefix("?")))) == state
    assert Asked().query() == ""


def test_page_and_report_start_without_spark_and_what_takes_long():
    """Compiled kernels, Spark and the charts' library are loaded by who needs them."""
    script = "import pipelines.web.app, pipelines.report.contents, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyspark", "numba", "altair", "pandas"} & set(loaded)
    assert "pipelines.web.app" in loaded


@pytest.mark.parametrize("view", staged.VIEWS)
def test_what_only_time_has_passed_for_is_not_read_again(view, lake):
    staged.write_lake(lake, "gone")
    clock = [NOW]
    reader = Reader(Lake(lake), Limits(), lambda: clock[0], 3600)
    client = TestClient(create_app(reader))
    client.get(staged.VIEWS[view])
    kept = {*reader._answers}
    clock[0] += timedelta(seconds=3)
    assert client.get(staged.VIEWS[view]).status_code == 200
    assert {*reader._answers} == kept
