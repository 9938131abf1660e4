"""Kafka's stock logging, by the names in its own files, and hwmark's file merged into it as README says.

Kafka's configuration files are only in its tarball, not on Maven Central; what counts here is the file, appender and
level of each logger.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.local_kafka.versions import Version

_CONFS = (Path(__file__).parents[2] / "conf", Path(sys.prefix) / "share/hwmark/conf")
CONF = next((folder for folder in _CONFS if folder.is_dir()), _CONFS[0])
"""hwmark's log4j files: in the checkout, or where a wheel puts them."""
PATTERN = "[%d] %p %m (%c)%n"

FILES = {
    "Kafka": "server.log",
    "StateChange": "state-change.log",
    "Request": "kafka-request.log",
    "Cleaner": "log-cleaner.log",
    "Controller": "controller.log",
    "Authorizer": "kafka-authorizer.log",
}
"""Appender (`KafkaAppender` in log4j2, `kafkaAppender` in log4j 1) and its file."""


class Logger(NamedTuple):
    """A logger, its level, and the appender that alone takes its lines; without one they go up to the root."""

    name: str
    level: str
    appender: str | None = None


LOGGERS = (
    Logger("kafka", "INFO"),
    Logger("org.apache.kafka", "INFO"),
    Logger("kafka.request.logger", "WARN", "Request"),
    Logger("kafka.network.RequestChannel$", "WARN", "Request"),
    Logger("org.apache.kafka.controller", "INFO", "Controller"),
    Logger("state.change.logger", "INFO", "StateChange"),
    Logger("kafka.authorizer.logger", "INFO", "Authorizer"),
)
LOG4J2_CLEANERS = tuple(
    Logger(f"org.apache.kafka.storage.internals.log.{name}", "INFO", "Cleaner")
    for name in ("LogCleaner", "LogCleaner$CleanerThread", "Cleaner")
)
LOG4J1_CLEANERS = (Logger("kafka.log.LogCleaner", "INFO", "Cleaner"),)


def configure(kafka: Version, folder: Path, snippet: str) -> list[str]:
    """Put the shipped configuration and hwmark's into `folder`; returns the JVM's flags that name them.

    `snippet`: which of hwmark's files for log4j2 is merged, `yaml` or `xml`.
    """
    return _configure_log4j1(folder) if kafka.log4j1 else _configure_log4j2(folder, snippet)


def _configure_log4j1(folder: Path) -> list[str]:
    merged = folder / "log4j.properties"
    merged.write_text(shipped_log4j1() + _ours("log4j1-hwmark.properties"))
    return [f"-Dlog4j.configuration=file:{merged}"]


def _configure_log4j2(folder: Path, snippet: str) -> list[str]:
    shipped = folder / "log4j2.yaml"
    shipped.write_text(json.dumps(shipped_log4j2(), indent=2))
    ours = folder / f"log4j2-hwmark.{snippet}"
    ours.write_text(_ours(ours.name))
    return [f"-Dlog4j2.configurationFile={shipped},{ours}"]


def _ours(name: str) -> str:
    """A file of conf/, with smaller files, so that they rotate while the run lasts."""
    text, changed = re.subn(r'(size: "|size="|MaxFileSize=)100 ?MB', r"\g<1>1MB", (CONF / name).read_text())
    if changed != 1:
        raise ValueError(f"conf/{name} names the size of its files {changed} times, not once")
    return text


def shipped_log4j2() -> dict[str, Any]:
    """`config/log4j2.yaml` of Kafka 4."""
    appenders = [_log4j2_appender(name, file) for name, file in FILES.items()]
    loggers = [_log4j2_logger(logger) for logger in LOGGERS + LOG4J2_CLEANERS]
    root = {"level": "INFO", "AppenderRef": [{"ref": "STDOUT"}, {"ref": "KafkaAppender"}]}
    return {
        "Configuration": {
            "Properties": {"Property": [{"name": "kafka.logs.dir", "value": "."}]},
            "Appenders": {
                "Console": {"name": "STDOUT", "PatternLayout": {"pattern": PATTERN}},
                "RollingFile": appenders,
            },
            "Loggers": {"Root": root, "Logger": loggers},
        }
    }


def _log4j2_appender(name: str, file: str) -> dict[str, Any]:
    return {
        "name": f"{name}Appender",
        "fileName": f"${{sys:kafka.logs.dir}}/{file}",
        "filePattern": f"${{sys:kafka.logs.dir}}/{file}.%d{{yyyy-MM-dd-HH}}",
        "PatternLayout": {"pattern": PATTERN},
        "TimeBasedTriggeringPolicy": {"modulate": True, "interval": 1},
    }


def _log4j2_logger(logger: Logger) -> dict[str, Any]:
    own = {"additivity": False, "AppenderRef": {"ref": f"{logger.appender}Appender"}} if logger.appender else {}
    return {"name": logger.name, "level": logger.level, **own}


def shipped_log4j1() -> str:
    """`config/log4j.properties` of Kafka 3.9."""
    lines = ["log4j.rootLogger=INFO, stdout, kafkaAppender", *_log4j1_appender("stdout", "ConsoleAppender")]
    for name, file in FILES.items():
        appender = f"{name[0].lower()}{name[1:]}Appender"
        lines += _log4j1_appender(appender, "DailyRollingFileAppender")
        lines.append(f"log4j.appender.{appender}.DatePattern='.'yyyy-MM-dd-HH")
        lines.append(f"log4j.appender.{appender}.File=${{kafka.logs.dir}}/{file}")
    for logger in LOGGERS + LOG4J1_CLEANERS:
        lines += _log4j1_logger(logger)
    return "\n".join(lines) + "\n"


def _log4j1_appender(name: str, kind: str) -> list[str]:
    return [
        f"log4j.appender.{name}=org.apache.log4j.{kind}",
        f"log4j.appender.{name}.layout=org.apache.log4j.PatternLayout",
        f"log4j.appender.{name}.layout.ConversionPattern={PATTERN}",
    ]


def _log4j1_logger(logger: Logger) -> list[str]:
    if not logger.appender:
        return [f"log4j.logger.{logger.name}={logger.level}"]
    appender = f"{logger.appender[0].lower()}{logger.appender[1:]}Appender"
    return [f"log4j.logger.{logger.name}={logger.level}, {appender}", f"log4j.additivity.{logger.name}=false"]
