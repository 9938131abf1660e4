"""requirements.lock: a checksum for every package, and exactly the packages that pyproject.toml asks for.

requirements-run.lock: those of them that running needs.
"""

import re
import shutil
import subprocess
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical

from pipelines.commands.failures import PACKAGES
from pipelines.streaming import jars

REPOSITORY = Path(__file__).parents[3]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
RUNS = [*map(Requirement, PYPROJECT["project"]["dependencies"])]
BUILDS = [*map(Requirement, PYPROJECT["build-system"]["requires"])]
ASKED = [*RUNS, *map(Requirement, PYPROJECT["project"]["optional-dependencies"]["dev"]), *BUILDS]
MAKEFILE = (REPOSITORY / "Makefile").read_text()
CHECKSUM = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def locked(name):
    """Requirement and options of each logical line of a file."""
    text = (REPOSITORY / name).read_text().replace("\\\n", " ")
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return [(Requirement(line.split("--")[0]), line.split()[1:]) for line in lines if line]


@pytest.fixture(scope="module")
def lock():
    return locked("requirements.lock")


@pytest.fixture(scope="module")
def run_lock():
    return locked("requirements-run.lock")


def holds(marker: Marker | None, extra: str = "") -> bool:
    return marker is None or marker.evaluate({**default_environment(), "extra": extra})


def needed(asked: list[Requirement]) -> set[str]:
    """The packages that these come down to here, by what the installed ones ask for themselves."""
    found: dict[tuple[str, str], None] = {}
    queue = [(canonical(one.name), extra) for one in asked for extra in ("", *one.extras)]
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
    assert {canonical(requirement.name) for requirement, _ in lock if holds(requirement.marker)} == needed(ASKED)


def test_what_running_needs_is_pinned_as_in_the_whole_and_nothing_else_is_there(lock, run_lock):
    assert {canonical(requirement.name) for requirement, _ in run_lock if holds(requirement.marker)} == needed(RUNS)
    whole = {canonical(requirement.name): (requirement.specifier, options) for requirement, options in lock}
    for requirement, options in run_lock:
        specifier, of_the_whole = whole[canonical(requirement.name)]
        assert requirement.specifier == specifier
        assert sorted(filter(CHECKSUM.match, options)) == sorted(filter(CHECKSUM.match, of_the_whole))


def test_delta_spark_changes_spark_alone(run_lock):
    runs, delta = (
        {canonical(requirement.name): str(requirement.specifier) for requirement, _ in lock}
        for lock in (run_lock, locked("requirements-delta.lock"))
    )
    assert {name for name in delta if delta[name] != runs.get(name)} == {
        "delta-spark", "importlib-metadata", "pyspark", "zipp",
    }  # fmt: skip
    assert (delta["delta-spark"], delta["pyspark"]) == (f"=={jars.DELTA}", "==4.1.4")
    assert delta.keys() > runs.keys()


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-run.lock", "requirements-delta.lock"])
def test_the_first_line_says_how_it_is_made(name):
    first = (REPOSITORY / name).read_text().splitlines()[0]
    assert first.startswith("#")
    assert "`make lock`" in first
    assert re.search(rf"^lock:.*\n(\t.*\n)*.*head -n 1 {name}", MAKEFILE, re.M)


def test_what_an_extra_brings_is_there_without_it_too():
    """README's commands need it; who installed less adds a part by its name."""
    extras = {name: set(of) for name, of in PYPROJECT["project"]["optional-dependencies"].items()}
    assert extras.keys() - {"dev", "delta"} == {*PACKAGES.values()} == {"spark", "web", "notify", "gx"}
    named = {canonical(name): extra for name, extra in PACKAGES.items()}
    for extra in PACKAGES.values():
        assert extras[extra] <= set(PYPROJECT["project"]["dependencies"])
        assert {named[canonical(Requirement(one).name.removesuffix("-python"))] for one in extras[extra]} == {extra}


def names(variable):
    """Those that a variable of the Makefile names."""
    return set(re.search(rf"^{variable} := (.*)$", MAKEFILE, re.M)[1].split("|"))


def test_what_builds_the_package_of_a_checkout_is_all_that_this_needs():
    assert names("BUILDS") == needed([*BUILDS, Requirement("editables")])


def test_what_compiles_kernels_is_pinned_for_running(run_lock):
    assert names("COMPILES") <= {canonical(requirement.name) for requirement, _ in run_lock}


def test_setup_installs_only_what_has_its_checksum():
    defined = {name: re.search(rf"^{name} = (.*\\\n)*.*\n", MAKEFILE, re.M)[0] for name in ("install", "packages")}
    assert defined["install"].count("--require-hashes") == 2, "by uv, and by pip"
    recipes = defined["packages"] + MAKEFILE.split("$(RUNS): ")[1]
    installs = [line for line in recipes.splitlines() if "$(PIP)" in line or "$(call install," in line]
    assert len(installs) == 5
    allowed = ("--require-hashes", "$(call install,", "--no-deps --no-build-isolation -e .")
    assert all(any(words in line for words in allowed) for line in installs)


def test_the_demo_needs_no_tool_of_development():
    assert re.search(r"^demo: \$\(RUNS\) ", MAKEFILE, re.M)
    recipe = MAKEFILE.split("packages = ")[1].split("SHELL")[0] + MAKEFILE.split("$(RUNS): ")[1].split("$(READY): ")[0]
    assert "-r requirements.lock" not in recipe


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_n_shows_the_set_up_and_does_nothing(tmp_path):
    """A line of a recipe that calls make itself would be run: it is where kernels are compiled in the background."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-run.lock"):
        shutil.copy(REPOSITORY / name, tmp_path)
    before = sorted(tmp_path.iterdir())
    shown = subprocess.run(["make", "-n", "test"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "pipelines.setup kernels" in shown.stdout
    assert sorted(tmp_path.iterdir()) == before
