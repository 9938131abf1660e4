"""Tables on a terminal that is narrower than they are."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def fitted_table(columns: Mapping[str, Sequence[str]], width: int) -> str:
    """Columns of text by their headings in at most `width` columns of a terminal; only the last one is folded."""
    *others, last = columns
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="", collapse_padding=True)
    for name in others:
        table.add_column(Text(name), no_wrap=True, overflow="ellipsis")
    table.add_column(Text(last), overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, cells))
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
