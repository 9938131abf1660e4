"""Charts as Vega-Lite, made with Altair: drawn as SVG on paper, by Vega in a browser. Pure: rows in, a spec out."""
