"""Spark gets the options of an object store that deltalake gets."""

import pytest

from pipelines.streaming.hadoop import local_checkpoints, secrets, settings, spark_uri

KEYS = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret"}
GIVEN = {"access.key": "me", "secret.key": "secret"}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, {}),
        (KEYS, GIVEN),
        ({"AWS_REGION": "eu-central-1"}, {"endpoint.region": "eu-central-1"}),
        (
            KEYS | {"aws_endpoint_url": "http://127.0.0.1:9000", "AWS_ALLOW_HTTP": "true"},
            GIVEN
            | {
                "endpoint": "http://127.0.0.1:9000",
                "path.style.access": "true",
                "connection.ssl.enabled": "false",
            },
        ),
        (
            KEYS | {"AWS_SESSION_TOKEN": "t"},
            GIVEN
            | {
                "session.token": "t",
                "aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
            },
        ),
        ({"AWS_S3_ALLOW_UNSAFE_RENAME": "true", "azure_storage_account_name": "x"}, {}),
    ],
    ids=["nothing", "keys", "region", "a store of one's own", "session", "what Hadoop has no name for"],
)
def test_options_of_s3_in_the_words_of_hadoop(options, found):
    assert settings(options) == {f"spark.hadoop.fs.s3a.{name}": value for name, value in found.items()}


@pytest.mark.parametrize(
    ("uri", "address"),
    [("s3://bucket/lake", "s3a://bucket/lake"), ("s3a://b/l", "s3a://b/l"), ("/data/s3://", "/data/s3://")],
)
def test_addresses_of_s3_in_the_words_of_hadoop(uri, address):
    assert spark_uri(uri) == address


@pytest.mark.parametrize(("root", "local"), [("/data/lake", True), ("s3://bucket/lake", False), ("hdfs://n/l", False)])
def test_only_checkpoints_on_a_local_disk_are_renamed_by_the_file_system_itself(root, local):
    assert bool(local_checkpoints(root)) == local


def test_keys_are_secret_and_what_says_where_and_how_is_not():
    found = settings(
        KEYS | {"AWS_SESSION_TOKEN": "t", "AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}
    )
    assert {name.removeprefix("spark.hadoop.fs.s3a.") for name in found.keys() - secrets(found)} == {
        "endpoint", "endpoint.region", "path.style.access",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net", True),
        ("spark.hadoop.fs.s3a.encryption.PASSWORD", True),
        ("spark.hadoop.fs.permissions.umask-mode", False),
        ("spark.sql.shuffle.partitions", False),
        ("spark.some.token", False),
    ],
)
def test_only_settings_for_hadoop_can_be_told_after_the_start(name, secret):
    assert (name in secrets({name: "x"})) == secret
