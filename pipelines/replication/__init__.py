"""Kafka's replication rules as a pure, sequential state machine: Arrow tables in, Arrow tables out."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.replication.facts.tables import Facts
    from pipelines.replication.reconstructor import Reconstructor, replay
    from pipelines.replication.rules import Rules

__all__ = ["Facts", "Reconstructor", "Rules", "replay"]

_HOME = {"Facts": "facts.tables", "Reconstructor": "reconstructor", "Rules": "rules", "replay": "reconstructor"}


def __getattr__(name: str) -> Any:
    """Imported when first asked for: the settings need the rules, and nobody should wait for the kernels then."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
