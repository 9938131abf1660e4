"""Kafka's replication rules as a pure, sequential state machine: Arrow tables in, Arrow tables out."""

from pipelines.replication.facts import Facts
from pipelines.replication.reconstructor import Reconstructor, replay
from pipelines.replication.rules import Rules

__all__ = ["Facts", "Reconstructor", "Rules", "replay"]
