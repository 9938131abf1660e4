"""Faults of a simulated cluster, by script or by chance."""
