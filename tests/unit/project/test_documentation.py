"""README, CONTRIBUTING, CHANGELOG and docs/: every link has a target, and so has every rule that code cites."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from pipelines.cli import app

REPOSITORY = Path(__file__).parents[3]
COMMAND = get_command(app)
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]\n]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def prose(page):
    return FENCE.sub("", page.read_text())


def anchors(page):
    """As GitHub makes them: small letters, no punctuation, hyphens for spaces."""
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in HEADING.findall(prose(page))]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in titles}


def resolves(page, link):
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.is_relative_to(REPOSITORY) and target.exists() and (not anchor or anchor in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_has_its_target(page):
    links = [link for link in LINK.findall(prose(page)) if not re.match(r"\w+:", link)]
    assert [link for link in links if not resolves(page, link)] == []


def test_every_page_of_the_documentation_is_linked_from_another():
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in LINK.findall(prose(page))}
    folders = {target for target in linked if target.is_dir()}
    alone = [page for page in PAGES if page.parent == REPOSITORY / "docs" and page not in linked]
    assert alone == []
    assert REPOSITORY / "docs/decisions" in folders


def test_every_rule_of_kafka_that_code_cites_is_in_the_book():
    code = [file for folder in ("pipelines", "generators") for file in (REPOSITORY / folder).rglob("*.py")]
    cited = {number for file in code for number in re.findall(r"\b[Rr]ule (\d+\.\d+)", file.read_text())}
    rules = re.findall(r"^### (\d+\.\d+) ", (REPOSITORY / "docs/kafka-rules.md").read_text(), re.MULTILINE)
    assert cited
    assert sorted(cited - set(rules)) == []


def options(line):
    """The options of `hwmark LINE`, and those that its command has."""
    command, words = COMMAND, line.split(" #")[0].split()
    known = {"--help", *(name for option in command.params for name in option.opts)}
    while words and words[0] in getattr(command, "commands", ()):
        command = command.commands[words.pop(0)]
    known |= {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    return {found[0] for word in words if (found := re.match(r"--[a-z][a-z-]*", word))}, known


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: str(page.relative_to(REPOSITORY))
)
def test_every_option_of_a_command_that_is_named_exists(page):
    """A runbook said `hwmark gate --stop`."""
    text = re.sub(r"\s*\\\n\s*", " ", page.read_text())
    lines = re.findall(r"(?:^|[`\s/])hwmark ([a-z][^`\n|&;]*)", text, re.MULTILINE)
    assert [line for line in lines for given, known in [options(line)] if given - known] == []


def test_the_readme_is_short():
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 250
