"""requirements.lock: a checksum for every package, and exactly the packages that pyproject.toml asks for."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical

REPOSITORY = Path(__file__).parents[3]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
ASKED = [
    *map(Requirement, PYPROJECT["project"]["dependencies"]),
    *map(Requirement, PYPROJECT["project"]["optional-dependencies"]["dev"]),
    *map(Requirement, PYPROJECT["build-system"]["requires"]),
]
CHECKSUM = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@pytest.fixture(scope="module")
def lock():
    """Requirement and options of each logical line."""
    text = (REPOSITORY / "requirements.lock").read_text().replace("\\\n", " ")
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return [(Requirement(line.split("--")[0]), line.split()[1:]) for line in lines if line]


def holds(marker: Marker | None, extra: str = "") -> bool:
    return marker is None or marker.evaluate({**default_environment(), "extra": extra})


def needed() -> set[str]:
    """The packages that `ASKED` come down to here, by what the installed ones ask for themselves."""
    found: dict[tuple[str, str], None] = {}
    queue = [(canonical(asked.name), extra) for asked in ASKED for extra in ("", *asked.extras)]
    while queue:
        name, extra = queue.pop()
        if (name, extra) in found:
            continue
        found[name, extra] = None
        for required in map(Requirement, requires(name) or ()):
            if holds(required.marker, extra):
                queue += [(canonical(required.name), more) for more in ("", *required.extras)]
    return {name for name, _ in found}


def test_every_package_is_pinned_to_one_version_and_has_a_checksum(lock):
    for requirement, options in lock:
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), requirement
        assert any(map(CHECKSUM.fullmatch, options)), requirement


def test_nothing_is_named_twice(lock):
    names = [canonical(requirement.name) for requirement, _ in lock]
    assert len(names) == len(set(names))


def test_what_pyproject_asks_for_is_met_by_the_pinned_version(lock):
    pinned = {canonical(requirement.name): requirement.specifier for requirement, _ in lock}
    for asked in ASKED:
        (version,) = (pin.version for pin in pinned[canonical(asked.name)])
        assert asked.specifier.contains(version), f"{asked}, pinned is {version}"


def test_the_packages_are_those_that_are_needed_and_no_others(lock):
    assert {canonical(requirement.name) for requirement, _ in lock if holds(requirement.marker)} == needed()


def test_the_first_line_says_how_it_is_made():
    first = (REPOSITORY / "requirements.lock").read_text().splitlines()[0]
    assert first.startswith("#")
    assert "`make lock`" in first
    assert re.search(r"^lock:.*\n(\t.*\n)*.*head -n 1 requirements.lock", (REPOSITORY / "Makefile").read_text(), re.M)


def test_setup_installs_only_what_has_its_checksum():
    recipe = (REPOSITORY / "Makefile").read_text().split("$(READY): ")[1]
    installs = [line for line in recipe.splitlines() if "$(PIP)" in line]
    assert len(installs) == 2
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation -e ." in line for line in installs)
