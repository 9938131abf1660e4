"""Lines of code by package, without blanks, comments and docstrings: `make count`."""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

PRODUCT = ("schemas", "generators", "pipelines", "hwmark")
BESIDE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def main():
    product = Counter()
    for path in (path for name in PRODUCT for path in Path(name).rglob("*.py")):
        package = "/".join(path.parts[:-1][:2])
        product[package] += code_lines(path.read_text())
    for package, lines in sorted(product.items()):
        print(f"{lines:7,d} {package}")
    print(f"{product.total():7,d} product")
    print(f"{sum(code_lines(path.read_text()) for path in Path('tests').rglob('*.py')):7,d} tests")


def code_lines(source):
    """How many lines of a module hold code."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in BESIDE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(ast.parse(source)))


def docstring_lines(tree):
    """Every line of a text that stands alone: docstrings of modules, classes, functions and values."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }


if __name__ == "__main__":
    main()
