"""What of STYLE.md can be counted: numbers that only fall, and names that guides cite."""

import ast
import re
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
PACKAGES = ("hwmark", "pipelines", "schemas", "generators")
PRODUCT = [path for root in PACKAGES for path in (REPOSITORY / root).rglob("*.py")]
LEFT = {"Of": 0, "What": 6, "Who": 0, "Whose": 0, "Which": 1, "How": 1, "Where": 3}
"""Docstrings that begin with a clause where a noun or verb is wanted: lower a number when you have mended some."""


def first_words():
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in PRODUCT:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                yield text.split()[0]


def test_no_more_docstrings_begin_with_a_clause():
    found = Counter(first_words())
    assert {word: found[word] for word in LEFT if found[word] > LEFT[word]} == {}


def test_every_name_that_contributing_cites_is_there():
    """Recipes outlive renames."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    code = "\n".join(path.read_text() for path in [*PRODUCT, *(REPOSITORY / "tests").rglob("*.py")])
    files = {path.name for root in (*PACKAGES, "tests", "conf", "docs", ".")
             for path in (REPOSITORY / root).glob("*" if root == "." else "**/*")}  # fmt: skip
    cited = set(re.findall(r"`([A-Za-z_][\w./]*)`", text))
    paths = {name for name in cited if re.search(r"\.(py|md|toml|yml|yaml|xml|properties)$", name)}
    there = {name for name in paths if (REPOSITORY / name).exists() or name in files}
    words = {name for name in cited - paths if re.fullmatch(r"[A-Za-z]\w*|_[A-Z]\w*", name)}
    missing = sorted((paths - there) | {name for name in words if not re.search(rf"\b{name}\b", code)})
    assert missing == []
