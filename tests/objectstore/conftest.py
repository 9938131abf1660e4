"""An S3-compatible server on this machine, and lakes on it."""

import itertools
import re
import subprocess
import sys
from time import sleep

import boto3
import pytest

BUCKET = "lakes"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def storage_options(tmp_path_factory):
    # A process of its own: the Rust side may wait for an answer without letting other threads of Python run.
    told = tmp_path_factory.mktemp("s3") / "told"
    call = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", "0"]
    with told.open("w") as output, subprocess.Popen(call, stdout=output, stderr=output) as server:
        while not (found := re.search(r"http://127\.0\.0\.1:\d+", told.read_text())):
            assert server.poll() is None, told.read_text()
            sleep(0.05)
        url = found[0]
        secrets = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        boto3.client("s3", endpoint_url=url, region_name="us-east-1", **secrets).create_bucket(Bucket=BUCKET)
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_ALLOW_HTTP": "true",
        }
        server.terminate()


@pytest.fixture
def lake():
    return f"s3://{BUCKET}/lake-{next(_numbers)}"
