"""hwmark under Airflow 3: logs, the job and the checks once every five minutes; upkeep once a night.

Needs the package apache-airflow-providers-standard, and the environment of docs/operations.md unpacked at ENVIRONMENT
on every host that runs tasks of Airflow or executors of Spark. What each exit status becomes here: 0 success, 75
(another process is at it) skipped, 65 (nothing was understood of a file; the rest is in the lake) a warning in the log
of the task, 3 (alerts fire), 4 (expectations failed) and anything else a failed task, and `alert` is called.
"""

import logging
from datetime import datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

LAKE = "s3://telemetry/lake"
LOGS, CLUSTER = "/var/log/kafka", "prod"
ENVIRONMENT = "/srv/hwmark/env"
MASTER, EXECUTORS = "spark://spark-master:7077", 4
ROLE_HELD, NOT_UNDERSTOOD = 75, 65
MEANINGS = {3: "alerts fire", 4: "expectations failed"}


def alert(context: Any) -> None:
    """Log that a task has failed; put the notifier of your choice here."""
    words = str(context.get("exception"))
    meaning = next((said for status, said in MEANINGS.items() if f"exit code {status}" in words), "failed")
    logging.getLogger("hwmark").error("%s: %s (%s)", context["task_instance"].task_id, meaning, words)


def command(name: str, words: str, retries: int = 1) -> BashOperator:
    """A task of one command, also if one before it failed or was skipped: `check` is what says that nothing is judged.

    `check` tells what is new once: it is not tried again for what it found.
    """
    return BashOperator(
        task_id=name,
        bash_command=words,
        append_env=True,
        skip_on_exit_code=ROLE_HELD,
        retries=retries,
        retry_delay=timedelta(minutes=1),
        trigger_rule="all_done",
        on_failure_callback=alert,
    )


def conf(**values: object) -> str:
    return " ".join(f"--conf {name.replace('__', '.')}={value}" for name, value in values.items())


HWMARK = f"{ENVIRONMENT}/bin/hwmark"
JARS = f"'{ENVIRONMENT}/share/hwmark/jars/*:{ENVIRONMENT}/share/hwmark/jars/s3/*'"
PYTHON = f"{ENVIRONMENT}/bin/python"
SUBMIT = f"SPARK_HOME=$({PYTHON} -c 'import pyspark; print(*pyspark.__path__)') && $SPARK_HOME/bin/spark-submit"
SETTINGS = conf(
    spark__pyspark__python=PYTHON,
    spark__pyspark__driver__python=PYTHON,
    spark__driver__extraClassPath=JARS,
    spark__executor__extraClassPath=JARS,
    spark__executor__cores=1,
    spark__executor__memory="3g",
    spark__cores__max=EXECUTORS,
)

with DAG(
    "hwmark",
    description="Where every Kafka partition's high watermark is, and what was lost",
    schedule="*/5 * * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=1),
):
    ingest = command(
        "ingest",
        f"{HWMARK} ingest logs {LOGS} --cluster {CLUSTER} --lake {LAKE} || status=$?; "
        f'[ "${{status:-0}}" != {NOT_UNDERSTOOD} ] && exit ${{status:-0}}; echo "WARNING: not all was understood"',
    )
    # One task for each core of the executors.
    run = command(
        "run",
        f"export HWMARK_RUN__SHUFFLE_PARTITIONS={EXECUTORS}; {SUBMIT} --master {MASTER} {SETTINGS} "
        f"{ENVIRONMENT}/share/hwmark/conf/spark_submit.py run --lake {LAKE} --once",
    )
    check = command("check", f"{HWMARK} check --lake {LAKE} --fail-on-alert --fail-on-check", retries=0)
    ingest >> run >> check

with DAG(
    "hwmark_upkeep",
    description="Compaction and retention of hwmark's tables",
    schedule="17 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
):
    command("maintain", f"{HWMARK} maintain --lake {LAKE}")
