"""The course of partitions in a period: offsets and ISRs as series, and events as lines."""
