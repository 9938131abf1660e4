"""Steady stretches of very many partitions: the rules of the simulator, compiled, over arrays."""
