"""Readers of brokers' disks: the metadata log, checkpoint files, segments. Nothing there is ever written."""
