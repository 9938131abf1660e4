"""`hwmark watch`: a live cluster to samples."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from generators.cluster.asking.decoded import TopicFilter
from generators.cluster.asking.round import Pace
from generators.cluster.asking.security import MECHANISMS, Security
from generators.cluster.dry_run import cost
from generators.cluster.watch import watch as watch_cluster
from generators.cluster.watcher import WatchOptions
from pipelines.commands.log import write_line
from pipelines.commands.progress import echo, progress
from pipelines.commands.stopping import until_stopped
from pipelines.errors import UsageError
from pipelines.secret import reveal

if TYPE_CHECKING:
    from pipelines.settings import Settings, Watch

STATUS_EVERY_S = 60.0
"""How often there is a line where there is no terminal."""
DEFAULT_PORT = 9092


class RowsLost(ValueError):
    """The lake was away as the watcher ended."""


def watch(settings: Settings, *, debug: bool) -> None:
    """Watch until SIGTERM or Ctrl-C. Raises UsageError, NotAnswering, RoleHeld."""
    options = watch_options(settings.watch, debug=debug)
    with _status() as status:
        summary = watch_cluster(
            options,
            settings.lake.path,
            note=_note,
            status=status,
            stop=until_stopped(),
            storage_options=settings.lake.storage_options,
        )
    echo(summary.line())
    if summary.unwritten_bytes:
        size = f"{summary.unwritten_bytes / 1e6:,.1f} MB"
        raise RowsLost(f"{size} of rows could not be written to {settings.lake.path}, and are lost")


def dry_run(settings: Settings, *, debug: bool) -> None:
    """Print what watching would cost. Raises UsageError, NotAnswering."""
    echo("\n".join(cost(watch_options(settings.watch, debug=debug), note=_note).lines()))


def watch_options(chosen: Watch, *, debug: bool = False) -> WatchOptions:
    """The settings of `[watch]` as options. Raises UsageError for what cannot be right."""
    security = _security(chosen)
    security.check()
    return WatchOptions(
        bootstrap=servers(chosen.bootstrap),
        cluster=chosen.cluster,
        watcher=chosen.id,
        interval_s=chosen.interval,
        timeout_s=chosen.timeout,
        topics=TopicFilter(tuple(chosen.topics), tuple(chosen.exclude), chosen.internal_topics),
        security=security,
        pace=Pace(chosen.max_partitions_per_s),
        buffer_bytes=chosen.buffer_mb << 20,
        debug=debug,
    )


def servers(text: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports of `host:port,host:port`. Raises UsageError naming the one that is none."""
    found = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = name.rpartition(":")
        if not colon or name.endswith("]"):
            host, port = name, str(DEFAULT_PORT)
        if not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
            raise UsageError(f"--bootstrap names {name!r}: write host:port, such as kafka-1:9092")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise UsageError("whom to ask? Name brokers with --bootstrap host:port, or under [watch] bootstrap")
    return tuple(found)


def _security(chosen: Watch) -> Security:
    if chosen.sasl_mechanism not in MECHANISMS:
        raise UsageError(f"watch.sasl_mechanism is {chosen.sasl_mechanism!r}: it can be {', '.join(MECHANISMS)}")
    return Security(
        protocol=chosen.security_protocol,
        mechanism=chosen.sasl_mechanism,
        username=chosen.sasl_username,
        password=reveal(chosen.sasl_password, "watch.sasl_password"),
        ca_file=chosen.ssl_ca_file,
        certificate_file=chosen.ssl_certificate_file,
        key_file=chosen.ssl_key_file,
        key_password=reveal(chosen.ssl_key_password, "watch.ssl_key_password"),
        check_hostname=chosen.ssl_check_hostname,
        token=chosen.sasl_token,
    )


def _note(line: str) -> None:
    write_line("watch", line)


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """Show how it goes: in place on a terminal, else a line a minute."""
    with progress("watch") as say:
        if sys.stderr.isatty():
            yield say
            return
        last = [-STATUS_EVERY_S]

        def seldom(line: str) -> None:
            if monotonic() - last[0] >= STATUS_EVERY_S:
                last[0] = monotonic()
                say(line)

        yield seldom
