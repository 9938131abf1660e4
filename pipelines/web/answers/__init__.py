"""What each view says, as data: the pages and the JSON are made of the same answers."""
