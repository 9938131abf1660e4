"""The report on an incident or a period: one self-contained HTML file for screen and paper."""
