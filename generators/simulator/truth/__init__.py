"""What really happened in a simulated cluster, and a comparison of facts with it."""
