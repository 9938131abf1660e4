"""Who writes to a simulated cluster and reads from it, and what became of their records."""
