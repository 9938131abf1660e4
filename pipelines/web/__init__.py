"""The web page: what a lake holds, read-only, in a browser and as JSON."""
