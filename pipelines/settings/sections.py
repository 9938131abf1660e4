"""The settings: a section for each part of the program, with defaults, and what each value can be."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass
from pydantic_settings import BaseSettings, SettingsConfigDict

from pipelines.replication.rules import Rules
from pipelines.settings.notify import Notify
from pipelines.settings.values import STRICT, Reference, Seconds, Zone

if TYPE_CHECKING:
    from pipelines.lake.lake import Lake

PREFIX = "HWMARK_"


def _octal(value: object) -> object:
    if not isinstance(value, str) or not re.fullmatch(r"0?0[0-7]{2}", value):
        raise ValueError(
            f' is {value!r}: write three octal digits in quotes, such as "027", and 0 for the first: '
            "what belongs to the owner"
        )
    return value


class _Section(BaseModel):
    model_config = STRICT


class LakeSettings(_Section):
    """Where the tables are, and who may read them on a local disk."""

    path: str = "lake"
    storage_options: dict[str, str] = {}
    umask: Annotated[str, BeforeValidator(_octal)] = "027"

    @property
    def mask(self) -> int:
        """The umask as a number."""
        return int(self.umask, 8)


class Log(_Section):
    """Lines on stderr."""

    format: Literal["plain", "json"] = "plain"
    level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class RulesSection(Rules):
    """The fields of `Rules`, each declared there and nowhere else."""

    def rules(self) -> Rules:
        return Rules(**{field.name: getattr(self, field.name) for field in fields(Rules)})


def _clock_offset(name: str) -> str:
    if not re.fullmatch(r"\d{1,9}|.*[/*?\[].*", name):
        raise ValueError(f"{name!r} is neither a broker id nor a source such as 'broker-1/*'")
    return name


DECADE_MS = 10 * 366 * 86_400_000
Clocks = dict[
    Annotated[str, AfterValidator(_clock_offset)], Annotated[int, Field(strict=True, ge=-DECADE_MS, le=DECADE_MS)]
]


class Ingest(_Section):
    """The options of reading broker logs."""

    pattern: str | None = None
    timezone: Zone = "UTC"
    internal_topics: bool = True
    coalesce: bool = True
    layout: Literal["order", "buckets"] = "order"
    clock_offsets: Clocks = {}


class Run(_Section):
    """The streaming job."""

    buckets: Annotated[int | None, Field(ge=1, le=4096)] = None
    shuffle_partitions: Annotated[int, Field(ge=1)] = 2
    interval: Seconds = 10.0
    source: Literal["arrow", "delta"] = "arrow"
    max_bytes_per_trigger: Annotated[str, Field(pattern=r"(?i)^\d+[kmgt]?b?$")] = "256m"
    max_rows_per_trigger: Annotated[int, Field(ge=1)] = 8_000_000
    gold_retention: Annotated[Seconds, Field(ge=60)] = 900.0
    log_retention: Annotated[Seconds, Field(ge=3600)] = 86_400.0
    master: str = "local[*]"
    spark_conf: dict[str, str] = {}
    jars_dir: str = ""
    log_file: str = ""


class Watch(_Section):
    """A live cluster: whom to ask, how often, and by which right."""

    bootstrap: str = ""
    cluster: str = ""
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")] = "main"
    interval: Annotated[Seconds, Field(ge=0.1, le=86_400)] = 5.0
    timeout: Annotated[Seconds, Field(ge=0.1, le=86_400)] = 10.0
    topics: list[str] = []
    exclude: list[str] = []
    internal_topics: bool = False
    max_partitions_per_s: Annotated[int, Field(ge=0)] = 100_000
    buffer_mb: Annotated[int, Field(ge=1)] = 256
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_ca_file: str = ""
    ssl_certificate_file: str = ""
    ssl_key_file: str = ""
    ssl_key_password: Reference = ""
    ssl_check_hostname: bool = True
    sasl_mechanism: str = "PLAIN"
    sasl_username: str = ""
    sasl_password: Reference = ""
    sasl_token: str = ""


class Check(_Section):
    """The quality suites."""

    quarantine_share: Annotated[float, Field(ge=0, le=1)] = 0.001
    stale_after_s: Annotated[float, Field(gt=0)] = 300
    gx: str = ""
    suites: dict[str, str | list[str]] = {}


class Alerts(_Section):
    """The alert rules."""

    rules_file: str = ""


class OwnerSettings(_Section):
    """The owner of the topics of a pattern."""

    team: Annotated[str, Field(min_length=1)]
    contact: str = ""


class Metrics(_Section):
    """What Prometheus gets."""

    worst_partitions: Annotated[int, Field(ge=0, le=1000)] = 20


class Dashboard(_Section):
    """The web page."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    refresh: Seconds = 5.0
    token: Reference = ""
    gate: bool = False


class Maintain(_Section):
    """What `hwmark maintain` keeps; 0 days keeps everything."""

    vacuum_hours: Annotated[int, Field(ge=0)] = 168
    bronze_days: Annotated[int, Field(ge=0)] = 0
    silver_days: Annotated[int, Field(ge=0)] = 0
    lag_days: Annotated[int, Field(ge=0)] = 7


class Simulate(_Section):
    """A simulated cluster."""

    cluster: Annotated[str, Field(min_length=1)] = "simulated"
    seed: Annotated[int, Field(ge=0)] = 1
    brokers: Annotated[int, Field(ge=1, le=1000)] = 3
    racks: Annotated[int, Field(ge=0, le=1000)] = 0
    topics: str = ""
    partitions: Annotated[int, Field(ge=1)] = 6
    duration: Seconds = 60.0
    version: str = "4.1"
    controllers: Annotated[int, Field(ge=1, le=9)] = 1
    combined: bool = False
    load: list[str] = ["steady:100"]
    faults: str = ""
    fault: list[str] = []
    rates: dict[str, float] = {}
    level: Literal[3, 2, 0] = 3
    second_file: bool = False
    fetch_every_ms: Annotated[int, Field(ge=0)] = 0
    lag_max_ms: Annotated[int, Field(ge=1)] = 30_000
    lag_max_messages: Annotated[int, Field(ge=1)] = 4_000
    session_timeout_ms: Annotated[int, Field(ge=1)] = 9_000
    clock_skew_ms: Annotated[int, Field(ge=0)] = 0
    clock_offsets: dict[str, str] = {}
    clock_drift_ppm: Annotated[float, Field(ge=0)] = 0.0
    fetch_max_records: Annotated[int, Field(ge=1)] = 1000
    flush_ms: Annotated[int, Field(ge=1)] = 60_000
    controller_ms: Annotated[int, Field(ge=1)] = 20
    metadata_ms: Annotated[int, Field(ge=1)] = 20
    commits: Literal["fast", "loaded"] = "fast"
    elr: Literal["default", "on", "off"] = "default"
    log_dirs: Annotated[int, Field(ge=1, le=100)] = 1
    thread_stalls: Annotated[float, Field(ge=0, le=1)] = 0.0
    thread_overtakes: Annotated[float, Field(ge=0, le=1)] = 0.0
    alter_partition_errors: Annotated[float, Field(ge=0, le=1)] = 0.0
    retention_bytes: Annotated[int, Field(ge=0)] = 0
    segment_bytes: Annotated[int, Field(ge=1)] = 1 << 30
    record_bytes: Annotated[int, Field(ge=1)] = 100
    retention_check_ms: Annotated[int, Field(ge=1)] = 300_000


class Settings(BaseSettings):
    """Every setting of the program, one section per part of it."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, hide_input_in_errors=True
    )

    lake: LakeSettings = LakeSettings()
    log: Log = Log()
    rules: RulesSection = RulesSection()
    ingest: Ingest = Ingest()
    run: Run = Run()
    watch: Watch = Watch()
    check: Check = Check()
    alerts: Alerts = Alerts()
    metrics: Metrics = Metrics()
    notify: Notify = Notify()
    owners: dict[str, OwnerSettings] = {}
    dashboard: Dashboard = Dashboard()
    maintain: Maintain = Maintain()
    simulate: Simulate = Simulate()

    @property
    def tables(self) -> Lake:
        """The lake of these settings."""
        from pipelines.lake.lake import Lake

        return Lake(self.lake.path, self.lake.storage_options)

    @property
    def coalesce_ms(self) -> int:
        """The longest run of unchanged fetches that becomes one row, in milliseconds; 0 for none."""
        from generators.brokerlogs.tailing.coalesce import longest

        return longest(self.rules.lag_max_ms) if self.ingest.coalesce else 0
