"""The configuration: a TOML file, then `HWMARK_<SECTION>__<KEY>` in the environment, then flags."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from pipelines.errors import UsageError, nearest
from pipelines.replication.rules import Rules

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PREFIX = "HWMARK_"
FILE = Path("conf/hwmark.toml")
"""Read when there is one below the current directory; `--config` names another."""

_OPEN = (f"{PREFIX}LAKE__STORAGE_OPTIONS__", f"{PREFIX}RUN__SPARK_CONF__")
"""Below these the names are the object store's and Spark's."""
_SECRET = {"storage_options", "spark_conf"}
"""What is written here may be keys: no error repeats it."""
_STRICT = ConfigDict(extra="forbid", frozen=True)


def _seconds(value: object) -> object:
    """Seconds of `10s`, `500ms`, `2m`, `1h` or a plain number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", value) if isinstance(value, str) else None
    return float(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[match[2]] if match else value


def duration(flag: str, words: str) -> float:
    """Seconds of `10s`, `2m`, `0`. Raises UsageError naming the flag."""
    parsed = _seconds(words)
    try:
        value = float(parsed)  # type: ignore[arg-type]
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"{flag} is {words!r}: write a time such as 10s, 2m or 0")
    return value


DECADE_MS = 10 * 366 * 86_400_000
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]


class _Section(BaseModel):
    model_config = _STRICT


def _octal(value: object) -> object:
    if not isinstance(value, str) or not re.fullmatch(r"0?0[0-7]{2}", value):
        raise ValueError(
            f' is {value!r}: write three octal digits in quotes, such as "027", and 0 for the first: '
            "what belongs to the owner"
        )
    return value


class LakeSettings(_Section):
    """Where the tables are, and who may read them on a local disk."""

    path: str = "lake"
    storage_options: dict[str, str] = {}
    umask: Annotated[str, BeforeValidator(_octal)] = "027"

    @property
    def mask(self) -> int:
        """The umask as a number."""
        return int(self.umask, 8)


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class RulesSection(Rules):
    """The fields of `Rules`, each declared there and nowhere else."""

    def rules(self) -> Rules:
        return Rules(**{field.name: getattr(self, field.name) for field in fields(Rules)})


def _clock_offset(name: str) -> str:
    if not re.fullmatch(r"\d{1,9}|.*[/*?\[].*", name):
        raise ValueError(f"{name!r} is neither a broker id nor a source such as 'broker-1/*'")
    return name


Clocks = dict[
    Annotated[str, AfterValidator(_clock_offset)], Annotated[int, Field(strict=True, ge=-DECADE_MS, le=DECADE_MS)]
]


class Ingest(_Section):
    """How broker logs are read."""

    timezone: str = "UTC"
    internal_topics: bool = True
    coalesce: bool = True
    clock_offsets: Clocks = {}


class Run(_Section):
    """The streaming job."""

    buckets: Annotated[int | None, Field(ge=1, le=4096)] = None
    shuffle_partitions: Annotated[int, Field(ge=1)] = 2
    interval: Seconds = 10.0
    source: Literal["arrow", "delta"] = "arrow"
    max_bytes_per_trigger: Annotated[str, Field(pattern=r"(?i)^\d+[kmgt]?b?$")] = "256m"
    max_rows_per_trigger: Annotated[int, Field(ge=1)] = 8_000_000
    master: str = "local[*]"
    spark_conf: dict[str, str] = {}
    jars_dir: str = ""
    log_file: str = ""


class Check(_Section):
    """The quality suites."""

    quarantine_share: Annotated[float, Field(ge=0, le=1)] = 0.001
    stale_after_s: Annotated[float, Field(gt=0)] = 300


class Alerts(_Section):
    """The alert rules."""

    rules_file: str = ""


class Maintain(_Section):
    """What `hwmark maintain` keeps; 0 days keeps everything."""

    vacuum_hours: Annotated[int, Field(ge=0)] = 168
    bronze_days: Annotated[int, Field(ge=0)] = 0
    silver_days: Annotated[int, Field(ge=0)] = 0


class Simulate(_Section):
    """A simulated cluster."""

    cluster: Annotated[str, Field(min_length=1)] = "simulated"
    seed: Annotated[int, Field(ge=0)] = 1
    brokers: Annotated[int, Field(ge=1, le=1000)] = 3
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
    spoil: dict[str, float] = {}
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
    rules: RulesSection = RulesSection()
    ingest: Ingest = Ingest()
    run: Run = Run()
    check: Check = Check()
    alerts: Alerts = Alerts()
    maintain: Maintain = Maintain()
    simulate: Simulate = Simulate()

    @property
    def coalesce_ms(self) -> int:
        """How long a run of unchanged fetches may be to become one row, 0: not at all."""
        from generators.brokerlogs.tailing.coalesce import longest

        return longest(self.rules.lag_max_ms) if self.ingest.coalesce else 0


def keys() -> dict[str, list[str]]:
    """The keys of every section."""
    return {name: list(field.annotation.__pydantic_fields__) for name, field in Settings.model_fields.items()}  # type: ignore[union-attr]


def load(config: Path | None = None, flags: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """The settings in force: flags over environment over file over defaults.

    `flags` has the shape of the file; values that are None are not set. Raises UsageError naming the
    bad key or value and where it stands.
    """
    file = config or (FILE if FILE.is_file() else None)
    _check_keys(str(file), _read(file) if file else {})
    _check_environment()

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: Any, **sources: PydanticBaseSettingsSource
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (
                sources["init_settings"],
                sources["env_settings"],
                TomlConfigSettingsSource(settings_cls, file or Path()),
            )

    given: dict[str, Any] = {}
    for section, values in (flags or {}).items():
        if set_values := {key: value for key, value in values.items() if value is not None}:
            given[section] = set_values
    try:
        return Loaded(**given)
    except (ValidationError, SettingsError) as error:
        raise UsageError(_words(error, file, given)) from error


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"cannot read the configuration {file}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not TOML: {error}") from error


def _check_keys(where: str, values: Mapping[str, Any]) -> None:
    known = keys()
    for section, content in values.items():
        if not isinstance(content, Mapping):
            raise UsageError(f"{where}: {section} = {content!r} stands above the first [section]; move it into one")
        if section not in known:
            raise UsageError(f"{where}: there is no section [{section}]; {nearest(section, known)}")
        for key in content:
            if key not in known[section]:
                raise UsageError(f"{where}: there is no key {section}.{key}; {nearest(key, known[section])}")


def _check_environment() -> None:
    known = {f"{PREFIX}{section}__{key}".upper() for section, names in keys().items() for key in names}
    for name in os.environ:
        upper = name.upper()
        if upper.startswith(PREFIX) and upper not in known and not upper.startswith(_OPEN):
            raise UsageError(f"the environment sets {name}, which is no setting; {nearest(upper, known)}")


def _words(error: ValidationError | SettingsError, file: Path | None, flags: Mapping[str, Mapping[str, Any]]) -> str:
    if isinstance(error, SettingsError):
        return f"the environment does not parse: {error}"
    return "; ".join(_place(e["loc"], file, flags) + _complaint(e) for e in error.errors())


def _complaint(error: ErrorDetails) -> str:
    words = error["msg"].removeprefix("Value error, ")
    if _SECRET & set(error["loc"]):
        return f" is wrong: {words}"
    return words if error["type"] == "value_error" else f" is {error['input']!r}: {words}"


def _place(location: Sequence[int | str], file: Path | None, flags: Mapping[str, Mapping[str, Any]]) -> str:
    section, *rest = map(str, location)
    if not rest:  # a rule over the whole section, whose words name the key
        return ""
    variable = f"{PREFIX}{section}__{rest[0]}".upper()
    if rest[0] in flags.get(section, {}):
        return f"--{rest[0].replace('_', '-')}"
    if variable in os.environ:
        return variable
    return f"{file}: {section}.{'.'.join(rest)}"
