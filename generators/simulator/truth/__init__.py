"""The truth of a simulated cluster, and a comparison of facts with it."""
