"""A real Kafka of three brokers under faults, hwmark beside it, and what hwmark says compared with what happened."""
