"""The same events under other rules of Kafka: an estimate. Pure, except for `read`."""
