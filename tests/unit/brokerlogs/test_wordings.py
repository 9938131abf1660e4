"""Every line that Kafka's sources print through a logger with evidence, from 1.0 to 4.3: read, harmless or given up."""

import pytest

from tests.wordings.collect import made_of
from tests.wordings.statements import statements
from tests.wordings.table import TABLE, number

pytestmark = pytest.mark.long

GIVEN_UP = {
    "Exiting because log truncation is not allowed": "it names a loss, and no range",
    "Truncation detected for partition": "without the end of the leader's log nothing is known to be gone",
    "Created topic": "the preview of KRaft in 2.8",
    "Created partition": "the preview of KRaft in 2.8",
    "Modified partition": "the preview of KRaft in 2.8",
    "Applied ISR change record": "the preview of KRaft in 2.8",
}
"""Messages of Kafka 2.0 and later that are not understood, by their first words: holes in the log, and why."""


@pytest.mark.parametrize("logger", TABLE)
def test_each_line_of_a_logger_is_read_as_the_table_says(logger):
    assert {text: made_of(logger, text) for text in TABLE[logger]} == {
        t: made for t, (*_, made) in TABLE[logger].items()
    }


def test_no_line_of_kafka_2_0_and_later_is_given_up_without_a_reason():
    given_up = {
        text.rpartition("] ")[2] if text.startswith("[") else text
        for lines in TABLE.values()
        for text, (_, last, made) in lines.items()
        if "lost" in made and number(last) >= (2, 0)
    }
    assert {next((w for w in GIVEN_UP if text.startswith(w)), text) for text in given_up} == {*GIVEN_UP}


def test_a_statement_is_printed_as_scala_and_java_put_values_into_it():
    scala = 's"Shrinking ISR from ${isr.mkString(",")} to $newIsr. " +\n  s"Out of sync: ${out.map { id => s"($id)" }}"'
    java = '"Replayed partition change {} for topic {}", record, topicInfo.name'
    told = [s.example for s in statements(f'info({scala})\n// info("no call")\nlog.debug({java})')]
    assert told == ["Shrinking ISR from 1,2 to 1,2. Out of sync: 7", "Replayed partition change 7 for topic orders"]
