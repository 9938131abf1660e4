"""The versions of Kafka that the harness runs, and what differs between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Version:
    """One version: its artifacts on Maven Central, the tool that prints a log, and how it logs.

    `tools`: artifacts that are taken alone, without what they depend on. `log4j1`: reload4j, configured by properties.
    """

    name: str
    kafka: str
    artifacts: tuple[str, ...]
    dump_tool: str
    tools: tuple[str, ...] = ()
    log4j1: bool = False

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that are started, and the binding without which Kafka logs nothing."""
        return ("kafka.Kafka", "kafka.tools.StorageTool", self.dump_tool, "org.slf4j.impl.StaticLoggerBinder")


VERSIONS = {
    version.name: version
    for version in (
        Version(
            "3.9",
            "3.9.1",
            ("org.apache.kafka:kafka_2.13:3.9.1", "org.slf4j:slf4j-reload4j:1.7.36"),
            "kafka.tools.DumpLogSegments",
            log4j1=True,
        ),
        Version(
            "4.1",
            "4.1.1",
            ("org.apache.kafka:kafka_2.13:4.1.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"),
            "kafka.tools.DumpLogSegments",
        ),
        # kafka-tools 4.4.0 is not on Maven Central; that of 4.3.1 prints its metadata log with the classes of 4.4.0.
        Version(
            "4.4",
            "4.4.0",
            ("org.apache.kafka:kafka_2.13:4.4.0", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.5"),
            "org.apache.kafka.tools.DumpLogSegments",
            tools=("org.apache.kafka:kafka-tools:4.3.1",),
        ),
    )
}
DEFAULT = "4.1"


def version(name: str) -> Version:
    """The version of that name. Raises ValueError naming those there are."""
    if name not in VERSIONS:
        raise ValueError(f"no Kafka {name} here: there are {', '.join(VERSIONS)}")
    return VERSIONS[name]
