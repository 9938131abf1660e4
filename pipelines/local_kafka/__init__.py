"""A real Kafka on this machine: three brokers, and the faults that can be done to them."""
