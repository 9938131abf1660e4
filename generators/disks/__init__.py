"""What lies on brokers' disks: the metadata log, checkpoint files, segments. Only read, never written."""
