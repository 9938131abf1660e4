"""Asking the cluster that `[watch]` names which consumer groups read what an incident lost or had offline."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pipelines.commands import jobs
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.notify.channel import Say
from pipelines.notify.incidents import NOT_ASKED
from pipelines.notify.look import Round

if TYPE_CHECKING:
    from pipelines.settings import Settings


class Groups:
    """Asks once for each incident, a round after it was told: a slow answer holds up later messages, not that one."""

    def __init__(self, settings: Settings, lake: Lake, say: Say) -> None:
        self._settings, self._lake, self._say = settings, lake, say
        self._due, self._asked = set[str](), set[str]()

    def see(self, seen: Round) -> None:
        """Notes the incidents of a round that nobody asked for, of the cluster whose brokers are known."""
        watch = self._settings.watch
        for state in (one.last for one in seen.episodes if watch.bootstrap and watch.cluster):
            unknown = state.firing and state.labels.get("groups") == NOT_ASKED
            if not unknown:
                self._asked.discard(state.alert_id)  # one of an offline partition is asked for anew if it loses
            elif state.labels.get("cluster") == watch.cluster and state.alert_id not in self._asked:
                self._due.add(state.alert_id)

    def ask(self, now: datetime) -> None:
        """Asks for what is due, all losses of the cluster at once; what goes wrong is said."""
        if not self._due:
            return
        from pipelines.commands.show.command import Question
        from pipelines.commands.show.lost_reads import text
        from pipelines.commands.watch.command import watch_options

        due, self._due = self._due, set()
        self._asked |= due
        question = Question("loss", Filter(self._settings.watch.cluster), jobs.limits(self._settings))
        try:
            said = text(self._lake, question, watch_options(self._settings.watch), now)
            self._say(f"consumer groups asked for: {said.splitlines()[-1]}")
        except Exception as error:
            self._say(f"consumer groups not asked for: {' '.join(str(error).split())[:200]}")
