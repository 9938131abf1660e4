"""What really happened in a simulated cluster, and where facts differ from it."""
