"""A replicated cluster, step by step: brokers, their controller, the network, and the rules they follow."""
