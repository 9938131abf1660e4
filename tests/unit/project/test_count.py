"""`make count`: what counts as a line of code."""

from tests.count import code_lines

SOURCE = '''"""A module.

Two paragraphs.
"""

# A comment.
import os  # and one beside code

VALUE = """of

three lines"""
"""What a value is."""


def build():
    """A docstring."""
    return (
        os
    )
'''


def test_blanks_comments_and_docstrings_do_not_count():
    assert code_lines(SOURCE) == 1 + 3 + 1 + 3
