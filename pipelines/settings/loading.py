"""The configuration: a TOML file, then `HWMARK_<SECTION>__<KEY>` in the environment, then flags."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
    TomlConfigSettingsSource,
)

from pipelines.errors import UsageError, nearest
from pipelines.secret import REFERENCE
from pipelines.settings.sections import PREFIX, Settings
from pipelines.settings.values import IS_REFERENCE

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

FILE = Path("conf/hwmark.toml")
"""Read when there is one below the current directory; `--config` names another."""

_OPEN = (f"{PREFIX}LAKE__STORAGE_OPTIONS__", f"{PREFIX}RUN__SPARK_CONF__")
"""Below these the names are the object store's and Spark's."""
BY_PATTERN = ("owners",)
"""Sections whose keys are patterns of topics."""
KAFKA_JARS = f"{PREFIX}KAFKA_JARS"
"""No setting: where `hwmark try` keeps Kafka's jars."""
_SECTIONS_OF_SECRETS = {"storage_options", "spark_conf", "alertmanagers", "channels"}
"""What is written here may be keys, as it may be in `secrets`: no error repeats it."""


def keys() -> dict[str, list[str]]:
    """The keys of every section; those of sections in BY_PATTERN are the user's own."""
    return {
        name: list(field.annotation.__pydantic_fields__)  # type: ignore[union-attr]
        for name, field in Settings.model_fields.items()
        if name not in BY_PATTERN
    }


def secrets() -> set[tuple[str, str]]:
    """Section and key of every setting that names where a secret stands."""
    each = ((name, Settings.model_fields[name].annotation.__pydantic_fields__) for name in keys())  # type: ignore[union-attr]
    return {(section, key) for section, own in each for key in own if IS_REFERENCE in own[key].metadata}


class _Environment(EnvSettingsSource):
    """A variable that overrides such a setting may hold the secret itself: then that variable is where it stands."""

    def __call__(self) -> dict[str, Any]:
        found = super().__call__()
        for section, key in secrets():
            value = (found.get(section) or {}).get(key)
            if value and not REFERENCE.fullmatch(str(value)):
                wanted = f"{PREFIX}{section}__{key}".upper()
                found[section][key] = next(f"env:{name}" for name in os.environ if name.upper() == wanted)
        return found


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
                _Environment(settings_cls),
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
        if section in BY_PATTERN:
            continue
        if section not in known:
            raise UsageError(f"{where}: there is no section [{section}]; {nearest(section, [*known, *BY_PATTERN])}")
        for key in content:
            if key not in known[section]:
                raise UsageError(f"{where}: there is no key {section}.{key}; {nearest(key, known[section])}")


def _check_environment() -> None:
    known = {f"{PREFIX}{section}__{key}".upper() for section, names in keys().items() for key in names}
    for name in os.environ:
        upper = name.upper()
        if upper.startswith(PREFIX) and upper not in known and not upper.startswith(_OPEN) and upper != KAFKA_JARS:
            raise UsageError(f"the environment sets {name}, which is no setting; {nearest(upper, known)}")


def _words(error: ValidationError | SettingsError, file: Path | None, flags: Mapping[str, Mapping[str, Any]]) -> str:
    if isinstance(error, SettingsError):
        return f"the environment does not parse: {error}"
    return "; ".join(_place(e["loc"], file, flags) + _complaint(e) for e in error.errors())


def _complaint(error: ErrorDetails) -> str:
    words = error["msg"].removeprefix("Value error, ")
    if (_SECTIONS_OF_SECRETS | {key for _, key in secrets()}) & set(error["loc"]):
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
