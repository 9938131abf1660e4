"""The page served to a browser, from a thread."""

import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from pipelines.lake.lake import Lake
from pipelines.verdict import Limits
from pipelines.web.app import create_app
from pipelines.web.server import listening, server
from pipelines.web.snapshot import Reader


@contextmanager
def served(lake, refresh_s=1, now=None, **more):
    """The URL of the page over a lake; `now` is the wall clock."""
    reader = Reader(Lake(lake), Limits(since=timedelta(days=1)), now or (lambda: datetime.now(UTC)), refresh_s)
    with listening("127.0.0.1", 0) as place:
        running = server(create_app(reader, **more))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            running.should_exit = True
            thread.join(20)
