"""The examples for Spark's operator and for Airflow name what these know, and commands that hwmark has.

Neither is installed here. The names are those of the CRD v1beta2 of kubeflow/spark-operator 2.5 and of Airflow 3.1
(apache-airflow-providers-apache-spark 6.3, -standard 1.21).
"""

import ast
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import pytest
import typer
import yaml
from pydantic import BaseModel, ConfigDict, Field

from pipelines.cli import app
from pipelines.commands.exits import NOT_UNDERSTOOD, ROLE_HELD, WRONG_USAGE
from pipelines.settings import Settings
from tests.environments import install

CONF = Path(__file__).parents[3] / "conf"
DAG_FILE = CONF / "airflow/hwmark_dag.py"

Memory = Annotated[str, Field(pattern=r"^\d+[mg]$")]


class Known(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Variable(Known):
    name: str
    value: str


class Pod(Known):
    cores: int
    memory: Memory
    memoryOverhead: Memory


class Driver(Pod):
    serviceAccount: str
    terminationGracePeriodSeconds: int
    env: list[Variable]


class Executor(Pod):
    instances: int


class RestartPolicy(Known):
    type: Literal["Never", "Always", "OnFailure"]
    onFailureRetryInterval: int
    onSubmissionFailureRetryInterval: int


class Spec(Known):
    type: Literal["Java", "Python", "Scala", "R"]
    pythonVersion: Literal["2", "3"]
    mode: Literal["cluster", "client", "in-cluster-client"]
    sparkVersion: str
    image: str
    imagePullPolicy: Literal["Always", "IfNotPresent", "Never"]
    mainApplicationFile: str
    arguments: list[str]
    restartPolicy: RestartPolicy
    sparkConf: dict[str, str]
    driver: Driver
    executor: Executor


class SparkApplication(Known):
    apiVersion: Literal["sparkoperator.k8s.io/v1beta2"]
    kind: Literal["SparkApplication"]
    metadata: dict[str, str]
    spec: Spec


OPERATORS = {
    ("airflow.sdk", "DAG"): {
        "description", "schedule", "start_date", "catchup", "max_active_runs", "dagrun_timeout",
    },
    ("airflow.providers.standard.operators.bash", "BashOperator"): {
        "task_id", "bash_command", "append_env", "skip_on_exit_code", "retries", "retry_delay", "on_failure_callback",
        "trigger_rule",
    },
}  # fmt: skip
"""What of each module the file may call, and by which of its arguments."""


def application():
    return SparkApplication(**yaml.safe_load((CONF / "kubernetes/hwmark-sparkapplication.yaml").read_text()))


def understood(words):
    """The command and its options, as hwmark itself takes them apart."""
    group = typer.main.get_command(app)
    context = group.make_context("hwmark", list(words), resilient_parsing=True)
    name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    return name, command.make_context(name, rest).params


def setting(variable):
    """The value that a variable of the environment gives its setting, unless there is no such setting."""
    section, key = variable.removeprefix("HWMARK_").lower().split("__")
    return getattr(getattr(Settings(), section), key)


def test_the_spark_application_has_keys_that_the_operator_knows():
    spec = application().spec
    assert (spec.type, spec.mode, spec.restartPolicy.type) == ("Python", "cluster", "Always")


def test_the_spark_application_runs_the_job_as_a_service_on_the_pinned_spark():
    import pyspark

    spec = application().spec
    command, options = understood(spec.arguments)
    assert (command, options["interval"], options["once"]) == ("run", "10s", False)
    assert spec.sparkVersion == pyspark.__version__
    assert spec.mainApplicationFile.endswith("/site-packages/hwmark/__main__.py")


def test_the_spark_application_has_a_task_for_each_core_of_its_executors():
    spec = application().spec
    (tasks,) = [int(variable.value) for variable in spec.driver.env if setting(variable.name)]
    assert tasks == spec.executor.instances * spec.executor.cores


def test_the_dag_calls_operators_by_documented_names():
    tree, imported = ast.parse(DAG_FILE.read_text()), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("airflow"):
            imported |= {name.name: (node.module, name.name) for name in node.names}
    assert set(imported.values()) == set(OPERATORS)
    calls = [call for call in ast.walk(tree) if isinstance(call, ast.Call) and getattr(call.func, "id", "") in imported]
    assert len(calls) == 3
    for call in calls:
        given = {keyword.arg for keyword in call.keywords}
        assert given <= OPERATORS[imported[call.func.id]], (call.func.id, call.lineno)


class Recorded:
    """Stands for anything of Airflow: how it was called, and in which order tasks run."""

    def __init__(self, *words, **given):
        self.words, self.given, self.after = words, given, []
        self.all.append(self)

    def __rshift__(self, other):
        self.after.append(other)
        return other

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def called(monkeypatch):
    """What the file calls of each operator, in order."""
    made = {}
    for module, name in OPERATORS:
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            parent = ".".join(parts[:end])
            if parent not in made:
                made[parent] = ModuleType(parent)
                monkeypatch.setitem(sys.modules, parent, made[parent])
        setattr(made[module], name, type(name, (Recorded,), {"all": []}))
    runpy.run_path(str(DAG_FILE))
    return {name: getattr(made[module], name).all for module, name in OPERATORS}


def test_the_dag_handles_every_exit_status(called):
    ingest, run, check, maintain = called["BashOperator"]
    assert ingest.after == [run]
    assert run.after == [check]
    words = [one.given["bash_command"] for one in (ingest, run, check, maintain)]
    parts = [shlex.split(text.partition("hwmark ")[2].partition("||")[0]) for text in (words[0], *words[2:])]
    parts.append(shlex.split(words[1].partition("spark_submit.py ")[2]))
    assert [understood(one)[0] for one in parts] == ["ingest", "check", "maintain", "run"]
    assert (understood(parts[1])[1]["fail_on_alert"], understood(parts[3])[1]["once"]) == ("warning", True)
    assert {one.given["skip_on_exit_code"] for one in called["BashOperator"]} == {ROLE_HELD}
    assert check.given["retries"] == 0
    assert "python3." not in "".join(words)
    told = check.given["on_failure_callback"]
    assert all(one.given["on_failure_callback"] is told for one in called["BashOperator"])
    tasks = words[1].partition("HWMARK_RUN__SHUFFLE_PARTITIONS=")[2].partition(";")[0]
    assert f"spark.cores.max={tasks} " in words[1]


@pytest.mark.parametrize(("status", "ends"), [(0, 0), (65, 0), (75, 75), (1, 1)])
def test_65_of_ingest_is_a_warning_and_every_other_status_stays(called, tmp_path, status, ends):
    text = called["BashOperator"][0].given["bash_command"]
    line = f"(exit {status}) ||{text.partition('||')[2]}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (done.returncode, "WARNING" in done.stdout) == (ends, status == NOT_UNDERSTOOD)


KUBERNETES = list(yaml.safe_load_all((CONF / "kubernetes/hwmark.yaml").read_text()))


def containers(document):
    pod = document.get("spec", {}).get("jobTemplate", document).get("spec", {}).get("template")
    return pod["spec"]["containers"] if pod else []


def test_containers_have_commands_of_hwmark_a_read_only_root_and_no_root():
    compose = yaml.safe_load((CONF / "container/compose.yaml").read_text())["services"]
    ours = {name: service for name, service in compose.items() if service["image"] == "localhost/hwmark"}
    assert {name: understood(service["command"])[0] for name, service in ours.items()} == {name: name for name in ours}
    assert all(service["read_only"] and service["user"] == "10001" for service in ours.values())
    found = [one for document in KUBERNETES for one in containers(document)]
    assert [understood(one["args"])[0] for one in found] == ["watch", "run", "dashboard", "maintain"]
    assert all(one["securityContext"]["readOnlyRootFilesystem"] for one in found)
    variables = [name for one in KUBERNETES if one["kind"] == "ConfigMap" for name in one["data"]]
    assert all(setting(name) is not None for name in variables)
    assert all(",exec" in where for one in ours.values() for where in one["tmpfs"])  # of RocksDB's library


CONTAINERFILE = (CONF / "container/Containerfile").read_text()


def test_the_image_has_no_root_a_version_and_only_what_the_build_is_given():
    assert "\nUSER 10001\n" in CONTAINERFILE
    version = tomllib.loads((CONF.parent / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nARG VERSION={version}\n" in CONTAINERFILE
    copied = {path for line in re.findall(r"^COPY (\w.+) \S+$", CONTAINERFILE, re.MULTILINE) for path in line.split()}
    given = (CONF.parent / ".dockerignore").read_text().splitlines()
    assert "*" in given
    assert {line[1:] for line in given if line.startswith("!")} == copied


@pytest.mark.parametrize(("command", "status"), [("run --interval 10s", 0), ("dashboard --host 0.0.0.0", 1)])
def test_the_health_check_asks_the_page_where_it_is_served(tmp_path, command, status):
    (tmp_path / "cmdline").write_bytes(f"hwmark {command}".replace(" ", "\0").encode())
    shell, option, words = json.loads(re.search(r"HEALTHCHECK .*\\\n +CMD (.+)", CONTAINERFILE)[1])
    words = words.replace("/proc/1", str(tmp_path)).replace("python", sys.executable).replace(":8080", ":1")
    assert subprocess.run([shell, option, words], capture_output=True).returncode == status


@pytest.mark.parametrize("unit", sorted((CONF / "systemd").glob("*.service")), ids=lambda path: path.stem)
def test_units_start_commands_of_hwmark(unit, tmp_path):
    (line,) = [one for one in unit.read_text().splitlines() if one.startswith("ExecStart=")]
    words = shlex.split(line.partition("/hwmark ")[2])
    assert understood(words)[0] == unit.stem.removeprefix("hwmark-")
    if shutil.which("systemd-analyze"):
        (tmp_path / unit.name).write_text(unit.read_text().replace(line.split()[0], "ExecStart=/bin/true"))
        done = subprocess.run(["systemd-analyze", "verify", tmp_path / unit.name], capture_output=True, text=True)
        assert unit.name not in done.stderr, done.stderr


def test_units_run_as_one_user_and_keep_what_they_compile():
    wanted = {"User=hwmark", "ProtectSystem=strict", "CacheDirectory=hwmark", "Environment=XDG_CACHE_HOME=%C"}
    units = {unit.stem: unit.read_text().splitlines() for unit in (CONF / "systemd").glob("*.service")}
    assert {name: wanted - set(lines) for name, lines in units.items()} == {name: set() for name in units}
    ended = {name for name, lines in units.items() if f"RestartPreventExitStatus={WRONG_USAGE}" in lines}
    assert ended == {"hwmark-watch", "hwmark-ingest"}, "the others say so, too, as long as there is no lake"


@pytest.mark.nightly
def test_manifests_fit_the_schemas_of_kubernetes(tmp_path):
    python = install(tmp_path / "venv", "kubernetes-validate", "setuptools") / "python"
    words = [python, "-m", "kubernetes_validate", "--strict", CONF / "kubernetes/hwmark.yaml"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


RENDERED = """
import runpy, sys
made = runpy.run_path(sys.argv[1])
for name in ("ingest", "run", "check"):
    made[name].render_template_fields({})
    print(made[name].dag.dag_id, name, made[name].bash_command.split()[0], made[name].trigger_rule.value)
"""


@pytest.mark.nightly
def test_airflow_imports_the_dag_and_renders_its_tasks(tmp_path):
    python = install(tmp_path / "venv", "apache-airflow-core>=3.1", "apache-airflow-providers-standard") / "python"
    env = {"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([python, "-c", RENDERED, str(DAG_FILE)], capture_output=True, text=True, env=env)
    assert "hwmark run export all_done" in done.stdout, done.stderr[-2000:]
    assert done.stdout.count(" all_done\n") == 3, "where one fails, `check` is what says that nothing is judged"
