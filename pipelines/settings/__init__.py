"""The configuration of the program: its sections, and where their values come from."""

from pipelines.settings.loading import keys, load
from pipelines.settings.notify import AlertmanagerSettings, Notify
from pipelines.settings.sections import Settings, Simulate, Watch
from pipelines.settings.values import duration

__all__ = ["AlertmanagerSettings", "Notify", "Settings", "Simulate", "Watch", "duration", "keys", "load"]
