"""A chart as SVG that stands inside a page: drawn by vl-convert, without a browser or a network."""

from __future__ import annotations

import re
from html import escape

from pipelines.charts.style import Spec

_ID = re.compile(r'(\bid="|url\(#|href="#)([\w-]+)')


def svg(spec: Spec, prefix: str, label: str) -> str:
    """The SVG of a spec; its ids begin with `prefix`, as several stand in one page; `label` says what it shows."""
    import vl_convert

    drawn = _ID.sub(rf"\1{prefix}-\2", vl_convert.vegalite_to_svg(spec))
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
