"""A replicated Kafka cluster in plain Python: one seed, one history, and the truth about it."""
