"""Delta's jars in the list of what the program consists of."""

import hashlib

import pytest

from tests.sbom import component, with_jars

JAR = "io.delta_delta-spark_4.2_2.13-4.4.0.jar"
URL = "pkg:maven/io.delta/delta-spark_4.2_2.13@4.4.0?type=jar"


@pytest.fixture
def jar(tmp_path):
    path = tmp_path / JAR
    path.write_bytes(b"content")
    return path


def test_a_jar_has_its_coordinates_and_checksum(jar):
    assert component(jar) == {
        "type": "library",
        "bom-ref": URL,
        "group": "io.delta",
        "name": "delta-spark_4.2_2.13",
        "version": "4.4.0",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(b"content").hexdigest()}],
        "purl": URL,
    }


def test_a_digit_in_the_name_of_an_artifact_begins_no_version(jar):
    other = jar.rename(jar.with_name("com.fasterxml_jackson-datatype-jdk8-2.13.5.jar"))
    assert (component(other)["name"], component(other)["version"]) == ("jackson-datatype-jdk8", "2.13.5")


def test_a_file_that_is_no_artifact_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"helper\.jar is not named"):
        component(tmp_path / "helper.jar")


def test_the_program_depends_on_its_packages_and_on_the_jars(jar):
    packages = {
        "metadata": {"component": {"bom-ref": "root", "name": "hwmark"}},
        "components": [{"bom-ref": "pyspark==4.2.0"}],
        "dependencies": [{"ref": "pyspark==4.2.0"}, {"ref": "root", "dependsOn": ["pyspark==4.2.0"]}],
    }
    whole = with_jars(packages, [jar])
    assert [part["bom-ref"] for part in whole["components"]] == ["pyspark==4.2.0", URL]
    assert {"ref": "root", "dependsOn": ["pyspark==4.2.0", URL]} in whole["dependencies"]
    assert {"ref": URL} in whole["dependencies"]
    assert whole["metadata"] == packages["metadata"]
