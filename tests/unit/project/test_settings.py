"""The configuration: what goes over what, and how a mistake is named."""

import traceback
from pathlib import Path

import pytest

from pipelines.errors import UsageError
from pipelines.replication.rules import Rules
from pipelines.secret import reveal
from pipelines.settings import Settings, keys, load
from pipelines.settings.loading import secrets

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No conf/hwmark.toml below the current directory, nothing in the environment."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "my.toml"
        path.write_text(text)
        return path

    return write


def test_the_commented_file_equals_the_defaults():
    shipped = load(REPOSITORY / "conf/hwmark.toml")
    assert shipped.model_dump() == Settings.model_construct().model_dump()


def test_the_commented_file_names_every_key():
    text = (REPOSITORY / "conf/hwmark.toml").read_text()
    for section, names in keys().items():
        assert f"[{section}]" in text
        missing = [n for n in names if f"\n{n} = " not in text and f"\n# {n} = " not in text and f".{n}]" not in text]
        assert missing == []


def test_rules_are_those_of_the_reconstruction():
    assert load().rules.rules() == Rules()


def test_a_file_below_the_current_directory_is_read(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/hwmark.toml").write_text("[rules]\nmin_isr = 2")
    assert load().rules.min_isr == 2


def test_environment_goes_over_file_and_flags_over_both(file, monkeypatch):
    config = file('[lake]\npath = "file"\n[rules]\nlag_max_ms = 1\nmin_isr = 3\n[run]\nbuckets = 1')
    monkeypatch.setenv("HWMARK_RULES__LAG_MAX_MS", "6000")
    monkeypatch.setenv("HWMARK_RUN__BUCKETS", "2")
    settings = load(config, {"run": {"buckets": 3, "interval": None}})
    assert (settings.lake.path, settings.rules.min_isr, settings.run.interval) == ("file", 3, 10.0)
    assert settings.rules.rules() == Rules(lag_max_ms=6000, min_isr=3)
    assert settings.run.buckets == 3


def test_storage_options_come_from_the_environment_too(monkeypatch):
    monkeypatch.setenv("HWMARK_LAKE__STORAGE_OPTIONS__AWS_REGION", "eu-north-1")
    assert load().lake.storage_options == {"aws_region": "eu-north-1"}


SECRETS = [("watch", "sasl_password"), ("watch", "ssl_key_password"), ("dashboard", "token"), ("notify", "heartbeat")]


@pytest.mark.parametrize(("section", "key"), SECRETS)
def test_a_secret_in_the_file_is_refused_and_not_repeated(file, section, key):
    with pytest.raises(UsageError, match=rf"{section}\.{key} is wrong: a secret must not stand in settings") as refused:
        load(file(f'[{section}]\n{key} = "geheim"'))
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(("section", "key"), SECRETS)
def test_a_variable_that_overrides_a_secret_holds_it_or_says_where_it_stands(file, monkeypatch, section, key):
    config = file(f'[{section}]\n{key} = "env:OTHER"')
    assert getattr(getattr(load(config), section), key) == "env:OTHER"
    name = f"HWMARK_{section}__{key}".upper()
    monkeypatch.setenv(name, "file:/run/secrets/one")
    assert getattr(getattr(load(config), section), key) == "file:/run/secrets/one"
    monkeypatch.setenv(name, "geheim")
    reference = getattr(getattr(load(config), section), key)
    assert (reference, reveal(reference, key)) == (f"env:{name}", "geheim")


def test_these_are_all_settings_of_secrets():
    assert secrets() == set(SECRETS)


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("500ms", 0.5), ("2m", 120), ("1.5s", 1.5)])
def test_an_interval_has_a_unit(text, seconds):
    assert load(flags={"run": {"interval": text}}).run.interval == seconds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[rules]\nlag_max = 1", "there is no key rules.lag_max; did you mean lag_max_ms?"),
        ("[rulse]\nlag_max_ms = 1", "there is no section [rulse]; did you mean rules?"),
        ("lag_max_ms = 1", "lag_max_ms = 1 stands above the first [section]"),
        ("[rules]\nlag_max_ms = 0", "rules.lag_max_ms is 0; it must be at least 1"),
        ('[run]\nbuckets = "many"', "my.toml: run.buckets is 'many': "),
        ('[run]\ninterval = "soon"', "my.toml: run.interval is 'soon': "),
        ("[run", "my.toml is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_what_is_nearest(file, text, words):
    with pytest.raises(UsageError) as refused:
        load(file(text))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "HWMARK_RULES__LAG_MAX",
            "1",
            "HWMARK_RULES__LAG_MAX, which is no setting; did you mean HWMARK_RULES__LAG_MAX_MS?",
        ),
        ("HWMARK_LAKE", "here", "did you mean HWMARK_LAKE__PATH?"),
        ("HWMARK_RUN__BUCKETS", "many", "HWMARK_RUN__BUCKETS is 'many'"),
    ],
)
def test_a_mistake_in_the_environment_is_named_with_what_is_nearest(monkeypatch, name, value, words):
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as refused:
        load()
    assert words in str(refused.value)


def test_a_mistake_in_a_flag_is_named_as_the_flag():
    with pytest.raises(UsageError, match=r"^--buckets is 0: "):
        load(flags={"run": {"buckets": 0}})


def test_a_file_that_is_named_must_be_there(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read the configuration .*none\.toml: No such file"):
        load(tmp_path / "none.toml")


def test_clock_offsets_are_those_of_brokers_and_of_sources(file, monkeypatch):
    config = file('[ingest.clock_offsets]\n2 = 3600000\n"broker-1/server*" = -1500')
    assert load(config).ingest.clock_offsets == {"2": 3_600_000, "broker-1/server*": -1500}
    monkeypatch.setenv("HWMARK_INGEST__CLOCK_OFFSETS", '{"3": 7}')
    assert load().ingest.clock_offsets == {"3": 7}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("broker1 = 5", "'broker1' is neither a broker id nor a source such as 'broker-1/*'"),
        ("-1 = 5", "'-1' is neither a broker id nor a source such as 'broker-1/*'"),
        ('1 = "an hour"', "ingest.clock_offsets.1 is 'an hour'"),
        ("1 = 1.5", "ingest.clock_offsets.1 is 1.5"),
        ("1 = true", "ingest.clock_offsets.1 is True"),
        ("1 = 999999999999999", "ingest.clock_offsets.1 is 999999999999999"),
    ],
)
def test_a_clock_offset_that_is_none_is_an_error_that_names_it(file, line, words):
    with pytest.raises(UsageError) as error:
        load(file(f"[ingest.clock_offsets]\n{line}"))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_rules_of_clusters_come_from_the_file(file):
    config = file('[rules]\nmin_isr = 2\n[rules.clusters."prod-*"]\nmin_isr = 3\nstrict_min_isr = false')
    rules = load(config).rules.rules()
    assert rules.clusters == {"prod-*": {"min_isr": 3, "strict_min_isr": False}}
    assert (rules.of("prod-eu")[0].min_isr, rules.of("test")[0].min_isr) == (3, 2)


def test_a_bad_rule_of_a_cluster_is_named_with_its_pattern(file):
    config = file('[rules.clusters."prod-*"]\nmin_isr = 0')
    with pytest.raises(UsageError, match=r"rules.clusters.prod-\*.min_isr is 0; it must be at least 1"):
        load(config)


def test_a_umask_is_octal_digits_in_quotes(file, monkeypatch):
    assert load().lake.umask == "027"
    assert load(file('[lake]\numask = "0077"')).lake.mask == 0o077
    monkeypatch.setenv("HWMARK_LAKE__UMASK", "007")
    assert load().lake.mask == 0o007


@pytest.mark.parametrize("text", ['"27"', "27", '"028"', '"227"', '"u=rwx"', '""'])
def test_a_umask_that_is_none_is_an_error_that_says_how_to_write_one(file, text):
    found = text.replace('"', "'")
    with pytest.raises(UsageError, match=rf"my\.toml: lake\.umask is {found}: write three octal digits in quotes"):
        load(file(f"[lake]\numask = {text}"))


@pytest.mark.parametrize("line", ["AWS_SECRET_ACCESS_KEY = 12345678", 'storage_options = "12345678"'])
def test_a_mistake_in_the_keys_of_an_object_store_does_not_print_them(file, line):
    section = "[lake]" if line.startswith("storage") else "[lake.storage_options]"
    with pytest.raises(UsageError, match=r"my\.toml: lake\.storage_options\S* is wrong: Input should be") as refused:
        load(file(f"{section}\n{line}"))
    assert "12345678" not in "".join(traceback.format_exception(refused.value))


def test_where_kafka_s_jars_are_kept_is_no_setting(monkeypatch):
    """docs/brokers.md names it."""
    monkeypatch.setenv("HWMARK_KAFKA_JARS", "/srv/kafka-jars")
    assert load().model_dump() == Settings.model_construct().model_dump()
