"""Every alert has a runbook that says the same things, and every notification links one that is there."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.alerting.rules import RULES
from pipelines.lake.queries import VIEWS
from pipelines.notify.alertmanager import Alertmanager, described
from pipelines.notify.episodes import episodes
from pipelines.notify.look import Round
from pipelines.notify.messages import Messages
from pipelines.notify.notice import notice
from pipelines.notify.runbooks import WATCHDOG, default_folder
from tests.unit.notify.notified import FIRING, LINKS, START, Desk

FOLDER = Path(__file__).parents[3] / "docs" / "runbooks"
HEADINGS = ["What it means", "First command", "What is safe to do", "What not to do", "When it is harmless"]
HERE = replace(LINKS, runbook_url=default_folder())


def test_every_rule_and_the_watchdog_have_a_runbook_and_nothing_else_has():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted([*RULES, WATCHDOG])


@pytest.mark.parametrize("name", [*RULES, WATCHDOG])
def test_a_runbook_says_what_it_means_what_to_type_and_what_not_to_do(name):
    text = (FOLDER / f"{name}.md").read_text()
    assert text.startswith(f"# {name}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert all(len(part.split()) > 5 for part in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:])


@pytest.mark.parametrize("name", RULES)
def test_the_first_command_of_a_runbook_is_that_of_its_notifications(name):
    text = (FOLDER / f"{name}.md").read_text()
    view = RULES[name].look if name != "notify_failing" else "alerts"
    assert RULES[name].look in {*VIEWS, "verdict", "loss"}
    first = text.partition("## First command")[2].partition("```")[2].split("\n")[1]
    assert first.startswith(f"hwmark show {view} ")


@pytest.mark.parametrize("name", [*RULES, WATCHDOG])
def test_a_runbook_links_nothing_that_the_wheel_does_not_put_beside_it(name):
    targets = re.findall(r"\]\(([^)]+)\)", (FOLDER / f"{name}.md").read_text())
    assert [target for target in targets if not ("/" not in target and (FOLDER / target).is_file())] == []


@pytest.mark.parametrize("name", RULES)
def test_links_in_notifications_resolve(name):
    state = replace(FIRING, rule=name)
    (link,) = re.findall(
        r"Runbook: (.+)", notice(*episodes([state]), HERE, Round(START), unseen=False, again=False).body
    )
    assert Path(link).is_file()
    assert described(state, HERE, Round(START))["runbook_url"] == link


def test_links_of_the_watchdog_and_of_test_messages_resolve():
    took, desk = [], Desk()
    manager = Alertmanager(desk.post(), HERE, took.extend)
    manager.deliver(Round(desk.clock()))
    manager.test()
    links = [alert["annotations"]["runbook_url"] for alert in took]
    Messages(desk.post(), HERE, lambda message: links.append(message.body.rpartition("Runbook: ")[2])).test()
    assert len(links) == 3
    assert all(Path(link).is_file() for link in links)
