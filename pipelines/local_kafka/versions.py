"""The versions of Kafka that are run here, and what differs between them."""

from __future__ import annotations

from dataclasses import dataclass

DUMP_IN_CORE = "kafka.tools.DumpLogSegments"
DUMP_IN_TOOLS = "org.apache.kafka.tools.DumpLogSegments"
LOG_BINDING = "org.slf4j.impl.StaticLoggerBinder"
"""Without it Kafka logs nothing."""


@dataclass(frozen=True)
class Bundle:
    """Artifacts of one version of Kafka on Maven Central that make up a class path, and classes that must be in it."""

    kafka: str
    artifacts: tuple[str, ...]
    classes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the version's folder."""
        return f"{self.artifacts[0].split(':')[1]}-{self.kafka}"


@dataclass(frozen=True)
class Version:
    """One version: what its brokers run, what prints their logs, and how they log (log4j 1: by properties)."""

    name: str
    broker: Bundle
    tools: Bundle
    dump_tool: str
    log4j1: bool = False

    @property
    def kafka(self) -> str:
        """The version in full."""
        return self.broker.kafka


def _brokers(kafka: str, binding: str, *tools: str) -> Bundle:
    classes = ("kafka.Kafka", "kafka.tools.StorageTool", LOG_BINDING, *tools)
    return Bundle(kafka, (f"org.apache.kafka:kafka_2.13:{kafka}", binding), classes)


_OF_39 = _brokers("3.9.1", "org.slf4j:slf4j-reload4j:1.7.36", DUMP_IN_CORE)
_OF_41 = _brokers("4.1.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3", DUMP_IN_CORE)
_OF_44 = _brokers("4.4.0", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.5")
# kafka-tools 4.4.0 is not on Maven Central; 4.3.1's prints the metadata log of 4.4.0.
_TOOLS_OF_43 = Bundle("4.3.1", ("org.apache.kafka:kafka-tools:4.3.1",), (DUMP_IN_TOOLS,))

VERSIONS = {
    version.name: version
    for version in (
        Version("3.9", _OF_39, _OF_39, DUMP_IN_CORE, log4j1=True),
        Version("4.1", _OF_41, _OF_41, DUMP_IN_CORE),
        Version("4.4", _OF_44, _TOOLS_OF_43, DUMP_IN_TOOLS),
    )
}
DEFAULT = "4.1"


def version(name: str) -> Version:
    """The version of that name. Raises ValueError naming those there are."""
    if name not in VERSIONS:
        raise ValueError(f"no Kafka {name} here: there are {', '.join(VERSIONS)}")
    return VERSIONS[name]
