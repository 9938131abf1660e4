"""`hwmark simulate`: a simulated cluster to events, log files and the truth about it."""
