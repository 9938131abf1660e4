"""Asking the cluster that `[watch]` names which consumer groups read what an incident lost or had offline."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pipelines.commands import jobs
from pipelines.lake.queries import Filter
from pipelines.notify.channel import Say
from pipelines.notify.incidents import NOT_ASKED
from pipelines.notify.look import Round

if TYPE_CHECKING:
    from pipelines.settings import Settings


MINUTE = timedelta(minutes=1)


def ask_groups(settings: Settings, now: datetime) -> str:
    """Ask the watched cluster for the groups of all its losses, keep them with their incidents, and return the text."""
    from pipelines.commands.show.command import Question
    from pipelines.commands.show.lost_reads import text
    from pipelines.commands.watch.command import watch_options

    question = Question("loss", Filter(settings.watch.cluster), jobs.limits(settings))
    return text(settings.tables, question, watch_options(settings.watch), now)


class Groups:
    """Asks for each incident, a round after it was told: a slow answer holds up later messages, not that one.

    What was not answered, or not kept as another evaluation went on, is asked again after 1, 2, 4, ... minutes.
    """

    def __init__(self, settings: Settings, say: Say) -> None:
        self._settings, self._say = settings, say
        self._due, self._asked = set[str](), dict[str, tuple[int, datetime]]()

    def see(self, seen: Round) -> None:
        """Note the incidents of a round that nobody asked for, of the cluster whose brokers are known."""
        watch = self._settings.watch
        for state in (one.last for one in seen.episodes if watch.bootstrap and watch.cluster):
            unknown = state.firing and state.labels.get("groups") == NOT_ASKED
            if not unknown:
                self._asked.pop(state.alert_id, None)  # one of an offline partition is asked for anew if it loses
            elif state.labels.get("cluster") == watch.cluster and not self._is_early(state.alert_id, seen.now):
                self._due.add(state.alert_id)

    def _is_early(self, incident_id: str, now: datetime) -> bool:
        """Whether it was asked for too short a time ago; a clock that was set back is no reason to wait."""
        times, last = self._asked.get(incident_id, (0, now))
        return bool(times) and last <= now < last + MINUTE * 2 ** (times - 1)

    def ask(self, now: datetime) -> None:
        """Ask for what is due, all losses of the cluster at once; what goes wrong is said."""
        if not self._due:
            return
        due, self._due = self._due, set()
        self._asked |= {one: (self._asked.get(one, (0, now))[0] + 1, now) for one in due}
        try:
            said = ask_groups(self._settings, now)
            self._say(f"consumer groups asked for: {said.splitlines()[-1]}")
        except Exception as error:
            self._say(f"consumer groups not asked for: {' '.join(str(error).split())[:200]}")
