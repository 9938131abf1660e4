"""What became of partitions in a period: offsets and ISRs as series, and what happened, a line each."""
