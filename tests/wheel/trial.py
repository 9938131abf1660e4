"""The wheel in empty environments, with packages as a resolver picks them: it must come to what the checkout comes to.

    python -m tests.wheel.trial newest:3.13 lowest:3.11      reads logs and reconstructs, without Spark
    python -m tests.wheel.trial --spark newest:3.12          runs the demo, and the job by spark-submit, too
    python -m tests.wheel.trial --renew                      resolves anew what pyproject.toml allows

`newest` and `lowest` are the resolutions in this folder: the newest packages for each Python, and the oldest that are
named. Kernels are compiled by each environment for itself, with little optimisation, both at a time: that is what it
costs.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE, REPOSITORY = Path(__file__).parent, Path(__file__).parents[2]
UV = [str(Path(sys.executable).with_name("uv"))]
RESOLVED = {"newest": "highest", "lowest": "lowest-direct"}
COMPILE = (
    "pip compile -q --upgrade --universal --python-version 3.11 --no-annotate --no-header --system-certs --resolution"
)
QUICK = {"NUMBA_OPT": "1", "NUMBA_LOOP_VECTORIZE": "0", "NUMBA_SLP_VECTORIZE": "0"}
TRACE = "unclean_election"


class Failed(Exception):
    """A command that ended otherwise than it should have; the message has what it printed."""


def said(*call, cwd="/", **environment):
    outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([*map(str, call)], cwd=cwd, env=outside | environment, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, call))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def python_of(version):
    """An interpreter of this version that runs, None where there is none: pyenv's shims stand for any, and refuse."""
    named = shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    for found in filter(None, (*named, sys.executable)):
        ask = [found, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"]
        answered, _, executable = subprocess.run(ask, capture_output=True, text=True).stdout.strip().partition(" ")
        if answered == version:
            return executable
    return None


def renew():
    """Resolves anew; what comes of it is committed where the trials hold with it."""
    for name, resolution in RESOLVED.items():
        said(*UV, *COMPILE.split(), resolution, REPOSITORY / "pyproject.toml", "-o", HERE / f"{name}.txt")


def installed(name, version, wheel, spark, place):
    """The Python of an empty environment with the wheel and these packages, without pyspark where nobody asks."""
    environment = place / f"{name}-{version}"
    said(*UV, "venv", "-q", "--clear", "--python", python_of(version), environment)
    wanted = (HERE / f"{name}.txt").read_text().splitlines()
    packages = environment / "packages.txt"
    packages.write_text("\n".join(line for line in wanted if spark or not line.startswith(("pyspark=", "py4j="))))
    python = environment / "bin" / "python"
    said(*UV, "pip", "install", "-q", "--system-certs", "--no-deps", "--python", python, "-r", packages, wheel)
    return python


def reconstructed(python, place, **environment):
    """What logs come to, in rows and digests by table."""
    script, lake = place / "reconstruct.py", place / "lake"
    shutil.copy(HERE / "reconstruct.py", script)  # beside nothing that could be imported
    trace = said(
        python, "-c", f"from generators.recordings import traces; print(traces.path('{TRACE}'))", **environment
    )
    ingest = python.with_name("hwmark"), "ingest", "logs", trace.strip(), "--cluster", "wheel", "--lake", lake
    said(*ingest, **environment)
    return json.loads(said(python, script, lake, **environment))


def submit_job(python, own, found, **environment):
    """Gives the job to this environment's spark-submit; raises Failed where silver has not as many rows as `found`."""
    home, program = (
        said(python, "-c", f"import {module} as found; print(found.__file__)").strip()
        for module in ("pyspark", "hwmark.__main__")
    )
    submit, lake = Path(home).parent / "bin" / "spark-submit", own / "lake"
    ours = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "SPARK_HOME": str(Path(home).parent)}
    said(submit, "--master", "local[2]", program, "run", "--lake", lake, "--once", "--drain", **ours, **environment)
    for table in ("partition_hw", "isr_changes", "hw_regressions"):
        read = f"from deltalake import DeltaTable as t; print(t('{lake}/silver/{table}').to_pyarrow_table().num_rows)"
        if (rows := int(said(python, "-c", read))) != found[table][0]:
            raise Failed(f"spark-submit: {rows} rows of {table} instead of {found[table][0]}")


def trial(case, wheel, spark, place, expected):
    """One line about an environment; raises Failed."""
    name, version = case.split(":")
    if python_of(version) is None:
        return f"wheel: {case}: there is no Python {version} here, left out"
    begun = time.monotonic()
    python = installed(name, version, wheel, spark, place)
    ready, own = time.monotonic(), python.parents[1]
    kernels = {"NUMBA_CACHE_DIR": str(own / "kernels"), **QUICK}
    found = reconstructed(python, own, **kernels)
    if other := [table for table in expected if found[table] != expected[table]]:
        raise Failed(f"{case}: other rows than in the checkout in {', '.join(other)}")
    if spark:
        said(python.with_name("hwmark"), "demo", XDG_CACHE_HOME=str(own / "cache"), **kernels)
        submit_job(python, own, found, XDG_CACHE_HOME=str(own / "cache"), **kernels)
    work = "reads logs, reconstructs" + (", runs the demo, and the job by spark-submit" if spark else "")
    return f"wheel: {case} {work}: installed in {ready - begun:.0f} s, {time.monotonic() - ready:.0f} s"


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.wheel.trial")
    parser.add_argument("cases", nargs="*", metavar="newest:3.13")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--renew", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.renew:
        renew()
    place = REPOSITORY / "build" / "wheel"
    shutil.rmtree(place, ignore_errors=True)
    said(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place, cwd=REPOSITORY)
    (wheel,) = place.glob("hwmark-*.whl")
    expected = reconstructed(Path(sys.executable), place)
    with ThreadPoolExecutor(2) as pool:
        trials = {case: pool.submit(trial, case, wheel, asked.spark, place, expected) for case in asked.cases}
    for case, done in trials.items():
        print(done.result() if done.exception() is None else f"wheel: {case} FAILED: {done.exception()}", flush=True)
    return int(any(done.exception() for done in trials.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
