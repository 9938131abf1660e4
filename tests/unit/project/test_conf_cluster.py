"""The examples for Spark's operator and for Airflow name what these know, and commands that hwmark has.

Neither is installed here. The names are those of the CRD v1beta2 of kubeflow/spark-operator 2.5 and of Airflow 3.1
(apache-airflow-providers-apache-spark 6.3, -standard 1.21).
"""

import ast
import runpy
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import pytest
import typer
import yaml
from pydantic import BaseModel, ConfigDict, Field

from pipelines.cli import app
from pipelines.commands.exits import ROLE_HELD
from pipelines.settings import Settings

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
        "description", "schedule", "start_date", "catchup", "max_active_runs", "dagrun_timeout", "default_args",
    },
    ("airflow.providers.apache.spark.operators.spark_submit", "SparkSubmitOperator"): {
        "task_id", "conn_id", "deploy_mode", "name", "application", "application_args", "num_executors",
        "executor_cores", "executor_memory", "driver_memory", "conf", "env_vars",
    },
    ("airflow.providers.standard.operators.bash", "BashOperator"): {
        "task_id", "bash_command", "append_env", "skip_on_exit_code",
    },
}  # fmt: skip
"""What of each module the file may call, and by which of its arguments."""
TASK_ARGUMENTS = {"retries", "retry_delay"}


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
    assert len(calls) == 5
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


def test_the_dag_runs_then_checks_and_leaves_a_role_that_is_held_alone(called):
    (run,), (check, maintain) = called["SparkSubmitOperator"], called["BashOperator"]
    assert run.after == [check]
    name, options = understood(run.given["application_args"])
    assert (name, options["once"]) == ("run", True)
    commands = [shlex.split(bash.given["bash_command"])[1:] for bash in (check, maintain)]
    assert [understood(words)[0] for words in commands] == ["check", "maintain"]
    assert {bash.given["skip_on_exit_code"] for bash in (check, maintain)} == {ROLE_HELD}
    assert all(set(dag.given["default_args"]) == TASK_ARGUMENTS for dag in called["DAG"])
    tasks = {name: int(value) for name, value in run.given["env_vars"].items() if setting(name)}
    assert set(tasks.values()) == {run.given["num_executors"] * run.given["executor_cores"]}
