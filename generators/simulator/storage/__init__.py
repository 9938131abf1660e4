"""A partition's log as files."""
