"""The telemetry levels of sources, as numbers of the column `level`."""

STOCK = 0
"""Stock INFO logs, controllers and metadata: nothing shows who is caught up."""
POLLED = 1
"""Offsets that a watcher asked for: of a replica that does not answer nothing is known."""
LEAN = 2
"""Lean TRACE: from here on a log shows every HW."""
FULL = 3
"""Full TRACE: every fetch."""
