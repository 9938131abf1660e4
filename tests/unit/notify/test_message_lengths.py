"""The first line of a message has at most 100 characters, each sentence 200, however long names and lists are."""

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from pipelines.alerting.incidents import incidents
from pipelines.alerting.owners import Owner
from pipelines.notify.episodes import INCIDENT
from pipelines.notify.incidents import incident_episodes
from pipelines.notify.look import Round
from pipelines.notify.notice import notice
from pipelines.verdict import words
from pipelines.verdict.last_copies import LastCopy
from tests.unit.alerting.test_incidents import LOST, OFFLINE, UNDER, over, window
from tests.unit.notify.notified import LINKS

NAMES = [f"{'a-long-name-' * 20}{number}" for number in range(12)]
LISTED = ", ".join(NAMES)
LOSSES = tuple({"topic": name, "partition": 0, "lost_from": 1, "lost_to": 9} for name in NAMES)
STATES = {
    "an offline partition": [OFFLINE, UNDER],
    "a loss": [OFFLINE, UNDER, LOST],
    "its end": [OFFLINE, UNDER, over(OFFLINE, 60), over(UNDER, 90)],
    "the end of a loss": [OFFLINE, LOST, over(OFFLINE, 60), over(LOST, 90)],
}
COMMANDS = ("Type: ", "Runbook: ", "Page: ")


@pytest.mark.parametrize("states", STATES.values(), ids=STATES.keys())
@pytest.mark.parametrize(("planned", "groups"), product((False, True), (None, [], NAMES)), ids=lambda it: str(it)[:20])
def test_no_line_of_a_message_about_an_incident_is_too_long(states, planned, groups):
    states = [replace(one, summary=f"{one.summary}: {LISTED}", subject=NAMES[0]) for one in states]
    now = max(one.written_at for one in states) + timedelta(seconds=400)
    known = {"groups": groups, "groups_asked": None if groups is None else now, "topics": NAMES, "returns": 12}
    found = incidents(states, (window(0, 3_000, (1, 2)),) if planned else (), now)
    rows = [replace(row, **known, linked="f" * 16) for row in found]
    owners = {f"*{number}": Owner(f"team {name}", "#channel") for number, name in enumerate(NAMES)}
    told = incident_episodes(rows, states, owners, now)
    assert told or planned
    lost = [LOSSES[:count] for count in range(1, 12)] + [(LOSSES[0] | {"topic": "t" * n},) for n in range(60, 120)]
    copies = [LastCopy("prod", 1, "down", True, each).text("/data/lake") for each in lost]
    seen = Round(
        now, tuple(told), {"prod": f"prod: judged up to {words.clock(now)}; {LISTED}"}, (), INCIDENT,
        {one.alert_id: one for one in states}, present={"prod": [f"OFFLINE: {LISTED}"]}, copies={"prod": copies},
    )  # fmt: skip
    for one, again, unseen in product(told, (True, False), (True, False)):
        message = notice(one, LINKS, seen, unseen=unseen, again=again)
        assert len(message.title) <= 100
        lines = [line.partition("; or run `")[0] for line in message.body.splitlines()]
        assert [line for line in lines if len(line) > words.SENTENCE and not line.startswith(COMMANDS)] == []
