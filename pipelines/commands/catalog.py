"""`hwmark catalog`: a lake's tables for others: DDL for a metastore, a data contract, sources for dbt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.common_options import Config, Debug, settings_of_existing_lake
from pipelines.commands.common_options import Lake as LakeOption
from pipelines.commands.progress import echo
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.lake.lake import Lake
    from schemas.declaration import Column, Table

_LOGICAL = {"string": "string", "int": "integer", "bigint": "integer", "double": "number", "boolean": "boolean"}
"""Types of ODCS by those of SQL; a map or struct is an object."""
_SERVERS = {"s3": "s3", "s3a": "s3", "az": "azure", "abfs": "azure", "abfss": "azure"}
"""Types of ODCS by the scheme of a store."""
LOSSES = """\
-- The last verdict on each loss, and the present of its partition.
{{ config(materialized='table') }}
with verdicts as (
    select * from {{ source('hwmark', 'hw_regressions') }}
    qualify row_number() over (partition by cluster, regression_id order by revision desc) = 1
)

select v.cluster, v.topic, v.partition, v.ts, v.class, v.severity, v.proof, v.lost_from, v.lost_to, h.leader_id, h.isr
from verdicts v
left join {{ source('hwmark', 'partition_health') }} h using (cluster, topic, partition)
where v.severity = 'critical'
"""


def catalog(
    lake: LakeOption = None,
    database: Annotated[
        str, typer.Option("--database", metavar="NAME", help="The database that gets the tables.")
    ] = "hwmark",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write tables.sql, contract.odcs.yaml and dbt/ there instead."),
    ] = None,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Print Spark SQL that names a lake's tables in a metastore; with --out also a data contract and a dbt project.

    \b
    Examples:
      hwmark catalog --lake /data/lake | spark-sql
      hwmark catalog --lake s3://telemetry/lake --out catalog
    """
    from pipelines.lake.file_systems import local_path
    from pipelines.lake.lake import Lake
    from schemas import tables

    settings = settings_of_existing_lake(config, lake={"path": lake})
    folder = local_path(settings.lake.path)
    place = Lake(settings.lake.path if folder is None else str(folder.absolute()), settings.lake.storage_options)
    there = {name: table for name, table in tables().items() if place.has_table(table)}
    if out is None:
        echo(ddl(place, there, database))
        return
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; name a folder")
    for path, text in files(place, there, database).items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(text)
        echo(str(out / path))


def files(lake: Lake, tables: Mapping[str, Table], database: str) -> dict[str, str]:
    """Every file of a catalog by its path."""
    profile = {"type": "duckdb", "path": "lake.duckdb", "plugins": [{"module": "delta"}]}
    project = {"name": "hwmark", "version": "1.0.0", "profile": "hwmark", "model-paths": ["models"]}
    return {
        "tables.sql": ddl(lake, tables, database),
        "contract.odcs.yaml": yaml(contract(lake, tables)),
        "dbt/dbt_project.yml": yaml(project),
        "dbt/profiles.yml": yaml({"hwmark": {"target": "lake", "outputs": {"lake": profile}}}),
        "dbt/models/sources.yml": yaml(sources(lake, tables)),
        "dbt/models/losses.sql": LOSSES,
    }


def ddl(lake: Lake, tables: Mapping[str, Table], database: str) -> str:
    """Spark SQL that names the tables in a database; they bring their columns, comments and properties along."""
    from pipelines.streaming.hadoop import spark_uri
    from schemas.declaration import quoted

    statements = [f"CREATE DATABASE IF NOT EXISTS {quoted(database)};"]
    return "\n\n".join([*statements, *(table.ddl(spark_uri(lake.uri(table)), database) for table in tables.values())])


def contract(lake: Lake, tables: Mapping[str, Table]) -> dict[str, Any]:
    """The data contract of a lake, in the Open Data Contract Standard."""
    from importlib.metadata import version

    kind, is_remote, _ = lake.root.partition("://")
    place = {"type": _SERVERS.get(kind, "custom") if is_remote else "local", "format": "delta"}
    folder, layers = "location" if is_remote else "path", dict.fromkeys(t.path.split("/")[0] for t in tables.values())
    return {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": "hwmark-lake",
        "name": "hwmark",
        "version": version("hwmark"),
        "status": "active",
        "description": {
            "purpose": "Where every Kafka partition's high watermark is, who holds it back, and what was lost",
            "usage": "Delta with reader version 1; silver and gold/partition_changes may be followed as streams",
            "limitations": "Null is not known, never zero; of hw_regressions the highest revision counts",
        },
        "servers": [{"server": name, **place, folder: f"{lake.root}/{name}/{{model}}"} for name in layers],
        "schema": [
            {
                "name": name,
                "physicalName": table.path,
                "logicalType": "object",
                "physicalType": "table",
                "description": table.words,
                "properties": [_property(column, table.key) for column in table.columns],
            }
            for name, table in tables.items()
        ],
    }


def _property(column: Column, key: Any) -> dict[str, Any]:
    found = {"name": column.name, "physicalType": column.type, "description": column.words, "required": not column.null}
    found |= _logical(column.type)
    if column.name in key:
        found |= {"primaryKey": True, "primaryKeyPosition": 1 + list(key).index(column.name)}
    return found


def _logical(kind: str) -> dict[str, Any]:
    if kind.startswith("array<"):
        return {"logicalType": "array", "items": {"name": "item", **_logical(kind[6:-1])}}
    return {"logicalType": "timestamp" if kind == "timestamp" else _LOGICAL.get(kind, "object")}


def sources(lake: Lake, tables: Mapping[str, Table]) -> dict[str, Any]:
    """The sources of a dbt project, read by the plugin of dbt-duckdb for Delta."""
    return {
        "version": 2,
        "sources": [
            {
                "name": "hwmark",
                "tables": [
                    {
                        "name": name,
                        "description": table.words,
                        "config": {"meta": {"plugin": "delta", "delta_table_path": lake.uri(table)}},
                        "columns": [{"name": c.name, "description": c.words} for c in table.columns],
                    }
                    for name, table in tables.items()
                ],
            }
        ],
    }


def yaml(value: Any) -> str:
    """A value of dictionaries, lists and plain values as YAML."""
    from yaml import safe_dump

    return str(safe_dump(value, sort_keys=False, allow_unicode=True, width=120))
