"""Producers and consumers of a simulated cluster, and what became of their records."""
