"""What a simulated cluster tells: rows of bronze, log lines of Kafka, and what happens to them on their way."""
