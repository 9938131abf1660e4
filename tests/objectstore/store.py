"""The server of `faulty`, started, and commands on lakes that it keeps."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import boto3

BUCKET = "lakes"
TRIES = 3


class Store:
    """The server, what `deltalake` has to know of it, and its faults."""

    def __init__(self, url):
        self.url = url
        self.options = {
            "AWS_ENDPOINT_URL": url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_ALLOW_HTTP": "true",
        }

    def faults(self, **asked):
        """Begins or ends them, and says how many requests met each since the last call."""
        request = urllib.request.Request(f"{self.url}/faults", json.dumps(asked).encode(), method="POST")
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())


@contextmanager
def serving(said: Path):
    """A store with an empty bucket, in a process of its own: the Rust side may wait for an answer without letting other
    threads of Python run."""
    call = [sys.executable, "-m", "tests.objectstore.faulty"]
    with said.open("w") as output, subprocess.Popen(call, stdout=output, stderr=output) as server:
        while not (found := re.search(r"^http://127\.0\.0\.1:\d+", said.read_text())):
            assert server.poll() is None, said.read_text()
            sleep(0.05)
        secrets = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        boto3.client("s3", endpoint_url=found[0], region_name="us-east-1", **secrets).create_bucket(Bucket=BUCKET)
        try:
            yield Store(found[0])
        finally:
            server.terminate()


def hwmark(words, options):
    """Starts a command with a store's options in its environment."""
    settings = {f"HWMARK_LAKE__STORAGE_OPTIONS__{name}": value for name, value in options.items()}
    call = [sys.executable, "-m", "hwmark", *words]
    return subprocess.Popen(call, env=os.environ | settings, stdout=-1, stderr=-1, text=True, start_new_session=True)


def done(words, options, limit=240):
    """A command done; where it fails it says so in one line, and is done again."""
    for _ in range(TRIES):
        with hwmark(words, options) as running:
            said = running.communicate(timeout=limit)[1]
        if running.returncode == 0:
            return
        assert len(re.findall("^hwmark: .*$", said, re.MULTILINE)) == 1, said
    raise AssertionError(said)


def brought(logs, lake, options, parts=("first ingest", "second ingest")):
    """Parts of the logs, by the command."""
    from tests.faults.stages import STAGES

    for stage in (stage for stage in STAGES if stage.name in parts):
        done([word.replace("LAKE", lake).replace("LOGS", str(logs)) for word in stage.words], options)
