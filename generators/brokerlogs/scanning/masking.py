"""Lines of logs as messages show them."""

from __future__ import annotations

import re

_SECRET = re.compile(r"(?i)((?:password|secret|token|key|jaas)[\w.]*[\"']?\s*[=:]\s*)\S[^,;}]*")
SHOWN = 120
"""Characters of a line that a message shows."""


def masked_line(lines: bytes) -> str:
    """The first line that is not empty, cut, without values after words like password."""
    first = next((line for line in lines[: 1 << 16].splitlines() if line.strip()), b"")
    return _SECRET.sub(r"\1***", first.decode("utf-8", "replace"))[:SHOWN]
