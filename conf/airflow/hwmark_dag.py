"""hwmark under Airflow 3: the job once every five minutes, then the checks; upkeep once a night.

Needs the packages apache-airflow-providers-apache-spark and -standard, the environment of docs/operations.md unpacked
at ENVIRONMENT on every host that runs tasks of Airflow or executors of Spark, and a connection `spark_default` that
names the cluster.
"""

from datetime import datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

LAKE = "s3://telemetry/lake"
ENVIRONMENT = "/srv/hwmark/env"
PYTHON = f"{ENVIRONMENT}/bin/python"
JARS = f"{ENVIRONMENT}/share/hwmark/jars/*:{ENVIRONMENT}/share/hwmark/jars/s3/*"
ROLE_HELD = 75
"""The exit status by which hwmark says that another process is at it: no failure, the next run goes on."""
PATIENT = {"retries": 1, "retry_delay": timedelta(minutes=1)}

with DAG(
    "hwmark",
    description="Where every Kafka partition's high watermark is, and what was lost",
    schedule="*/5 * * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=1),
    default_args=PATIENT,
):
    run = SparkSubmitOperator(
        task_id="run",
        conn_id="spark_default",
        deploy_mode="client",
        name="hwmark",
        application=f"{ENVIRONMENT}/lib/python3.11/site-packages/hwmark/__main__.py",
        application_args=["run", "--lake", LAKE, "--once"],
        num_executors=4,
        executor_cores=1,
        executor_memory="3g",
        driver_memory="2g",
        conf={
            "spark.pyspark.python": PYTHON,
            "spark.pyspark.driver.python": PYTHON,
            "spark.driver.extraClassPath": JARS,
            "spark.executor.extraClassPath": JARS,
        },
        # As many tasks as executors have cores.
        env_vars={"HWMARK_RUN__SHUFFLE_PARTITIONS": "4"},
    )
    check = BashOperator(
        task_id="check",
        bash_command=f"{ENVIRONMENT}/bin/hwmark check --lake {LAKE} --fail-on-alert",
        append_env=True,
        skip_on_exit_code=ROLE_HELD,
    )
    run >> check

with DAG(
    "hwmark_upkeep",
    description="Compaction and retention of hwmark's tables",
    schedule="17 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args=PATIENT,
):
    BashOperator(
        task_id="maintain",
        bash_command=f"{ENVIRONMENT}/bin/hwmark maintain --lake {LAKE}",
        append_env=True,
        skip_on_exit_code=ROLE_HELD,
    )
