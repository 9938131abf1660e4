"""Hadoop's settings for an object store, from the options of `deltalake`, and for local disks."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import UsageError
from pipelines.lake.umask import umask
from pipelines.streaming import jars
from pipelines.streaming.spark_internals import FILE_SYSTEM_CHECKPOINTS, configure_hadoop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_S3A = {
    "endpoint_url": "endpoint",
    "endpoint": "endpoint",
    "region": "endpoint.region",
    "default_region": "endpoint.region",
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
}
CLASS_PATH = "spark.driver.extraClassPath"
_NAMES_JARS = ("spark.jars", "spark.jars.packages", CLASS_PATH)
S3 = "s3"
"""The folder of Hadoop's S3 client, beside Delta's jars."""
LOCAL = "local"
"""The folder of the file system for local disks, beside Delta's jars."""
_LOCAL_FILES, _FILE_SYSTEM = "spark.hadoop.fs.file.impl", "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
_SECRET = re.compile(r"(?i)spark\.hadoop\..*(secret|password|token|key|credential)")
_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"


def settings(storage_options: Mapping[str, str]) -> dict[str, str]:
    """Spark's `fs.s3a` settings for the options of an S3 store; others may stand in `[run.spark_conf]`."""
    given = {name.lower().removeprefix("aws_"): value for name, value in storage_options.items()}
    s3a = {_S3A[name]: value for name, value in given.items() if name in _S3A}
    if "endpoint" in s3a:  # a private store, whose buckets seldom have host names
        s3a["path.style.access"] = str(given.get("virtual_hosted_style_request", "false").lower() != "true").lower()
    if given.get("allow_http", "").lower() in ("true", "1"):
        s3a["connection.ssl.enabled"] = "false"
    if "session.token" in s3a:
        s3a["aws.credentials.provider"] = _TEMPORARY
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}


def client(root: str, jars_dir: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """Spark's setting for Hadoop's client of a lake's store, unless `given` names jars that may have it.

    `local:` jars are read in place; otherwise 600 MB would be copied at each start. Raises UsageError with the command
    that fetches them.
    """
    if not root.startswith(("s3://", "s3a://")) or any(name in given for name in _NAMES_JARS):
        return {}
    try:
        found = jars.find(Path(jars_dir or ".", S3), jars.s3())
    except FileNotFoundError as missing:
        advice = f"{jars.S3_HOW}, or name one of your own under [run.spark_conf]"
        raise UsageError(f"lake {root} needs Hadoop's S3 client in Spark: {advice}") from missing
    return {"spark.jars": ",".join(f"local:{jar}" for jar in found)}


def secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings for Hadoop with names of secrets."""
    return {name: value for name, value in settings.items() if _SECRET.match(name)}


def configure(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Set `settings` (`spark.hadoop...`) in the running JVM.

    Settings that are given at its start are in its command line, which every user of the host can read.
    """
    configure_hadoop(spark, {name.removeprefix("spark.hadoop."): value for name, value in settings.items()})


def local_checkpoints(root: str) -> dict[str, str]:
    """Spark's setting for a checkpoint on a local disk: files are renamed by rename(2).

    By default, without Hadoop's native library, each rename starts two processes that look for symbolic links, five
    times a batch in a row and more in the tasks: 0.2 of 3 s.
    """
    return {_CHECKPOINTS: FILE_SYSTEM_CHECKPOINTS} if "://" not in root else {}


def local_files(root: str, jars_dir: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """Settings with which the JVM itself sets file modes on a local disk, if the jar for it was fetched.

    Hadoop's own class starts two processes for each file and folder it makes: 36 times in a first batch, 0.1 of 1 s.
    It is kept if the lake's folder is setgid: the other class would take that bit off new folders.
    """
    if jars_dir is None or _LOCAL_FILES in given or _hands_group_on(root):
        return {}
    try:
        found = jars.find(Path(jars_dir, LOCAL), jars.local_files())
    except FileNotFoundError:
        return {}
    class_path = ":".join(filter(None, [*found, given.get(CLASS_PATH)]))
    return {_LOCAL_FILES: _FILE_SYSTEM, CLASS_PATH: class_path}


def _hands_group_on(root: str) -> bool:
    try:
        return "://" not in root and bool(os.stat(root).st_mode & stat.S_ISGID)
    except OSError:
        return False


def file_modes() -> dict[str, str]:
    """Spark's setting that gives files on a local disk, whose modes Hadoop sets, the mask of this process."""
    return {"spark.hadoop.fs.permissions.umask-mode": f"{umask():03o}"}


def spark_uri(uri: str) -> str:
    """The address of `uri`, as `deltalake` writes it, for Hadoop's file systems."""
    return uri.replace("s3://", "s3a://", 1) if uri.startswith("s3://") else uri
