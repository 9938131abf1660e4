"""`hwmark note`: write down what a person or a pipeline knows of a cluster."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from pipelines.commands import clock
from pipelines.commands.common_options import Config, Debug, Lake, settings_of_existing_lake
from pipelines.commands.progress import echo
from pipelines.errors import UsageError


def note(
    text: Annotated[str, typer.Argument(help="The note.")],
    cluster: Annotated[str, typer.Option("--cluster", metavar="NAME", help="The cluster that it is about.")],
    incident: Annotated[
        str | None,
        typer.Option(
            "--incident", metavar="ID", help="The incident or alert, by its id in `show incidents` or `show alerts`."
        ),
    ] = None,
    handled: Annotated[
        bool,
        typer.Option(
            "--handled",
            help="End losses and silent sources of the cluster or incident; with the id of an alert end that one.",
        ),
    ] = False,
    lake: Lake = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Write down what people know of a cluster; `--handled` ends alerts that no telemetry ends.

    \b
    Examples:
      hwmark note --cluster prod --handled "sent again by the producers" --lake lake
      hwmark note --cluster prod --incident 88e23cfd71f7d353 --handled "the topic was deleted"
    """
    import pyarrow as pa

    from pipelines.alerting.lookup import incident_or_alert, read_states
    from pipelines.alerting.outbox import last_moment, next_moment
    from pipelines.lake.queries import Filter
    from pipelines.verdict.known import refuse_unknown
    from schemas import notes

    settings = settings_of_existing_lake(config, lake={"path": lake})
    place = settings.tables
    refuse_unknown(place, Filter(cluster=cluster))
    if not text.strip():
        raise UsageError('the text is ""; write down what is known, or was done')
    if incident is not None:
        row = incident_or_alert(place, incident)
        of = row.get("cluster") or row.get("labels", {}).get("cluster", cluster)
        if of != cluster:
            raise UsageError(f"--incident {incident} is of cluster {of}, not {cluster}; write --cluster {of}")
    told = read_states(place)
    row = {
        "cluster": cluster, "incident_id": incident, "handled": handled, "text": text, "author": author(),
        "written_at": next_moment(told, clock.now()), "told_to": last_moment(told),
    }  # fmt: skip
    place.append(notes.TABLE, pa.Table.from_pylist([row], schema=notes.ARROW))
    echo(f"noted for {cluster}" + (": the next evaluation ends what it is about" if handled else ""))


def author() -> str | None:
    """The user who runs this, as the operating system knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return None
