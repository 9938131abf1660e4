"""The answers of the views as data, from which both pages and JSON are made."""
