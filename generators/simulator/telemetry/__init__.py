"""Telemetry of a simulated cluster: rows of bronze, log lines of Kafka, and damage to them on their way."""
