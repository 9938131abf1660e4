"""The runbook of an alert rule as steps: what is safe to do, and what not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pipelines.notify.runbooks import default_folder, runbook

_MARKS = re.compile(r"\*\*|`|\[([^]]*)\]\([^)]*\)")


@dataclass(frozen=True)
class Steps:
    """Steps in words."""

    safe: Sequence[str] = ()
    never: Sequence[str] = ()
    harmless: str = ""


@cache
def steps(rule: str) -> Steps:
    """Return the steps of a rule's runbook; none of a rule without one."""
    file = Path(runbook(default_folder(), rule))
    if not rule.isidentifier() or not file.is_file():
        return Steps()
    parts = {
        title: body
        for part in re.split(r"^## ", file.read_text(), flags=re.M)
        for title, _, body in [part.partition("\n")]
    }
    safe, never = (_bullets(parts.get(name, "")) for name in ("What is safe to do", "What not to do"))
    return Steps(safe, never, " ".join(_plain(parts.get("When it is harmless", "")).split()))


def _bullets(body: str) -> list[str]:
    found = re.findall(r"^(?:- |\d+\. )(.*(?:\n  +\S.*)*)", body, re.M)
    return [" ".join(_plain(one).split()) for one in found]


def _plain(text: str) -> str:
    return _MARKS.sub(lambda match: match[1] or "", text)
