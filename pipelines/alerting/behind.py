"""The rule `job_behind`: clusters that are not judged, because the job has not read their new bronze rows in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic.dataclasses import dataclass

from pipelines.alerting.conditions import Condition
from pipelines.alerting.rule import STRICT, About, AlertRule, Evaluation, Intervals, RuleSettings, Seconds
from pipelines.lake.queries import microseconds, moment
from pipelines.verdict.judged import not_judged, not_judged_from, unreadable


@dataclass(frozen=True, config=STRICT)
class JobBehindSettings(RuleSettings):
    """Fires when `run` has not read a commit of bronze for `after_s` seconds of the wall clock, or for so many of its
    intervals, whichever is longer; so, too, if nothing of a cluster was ever reconstructed.

    Spark starts and reads its first batch within that time: 25 to 90 s on two cores, the compilation of the kernels
    included. The verdict says NOT JUDGED meanwhile.
    """

    after_s: Seconds = 300
    intervals: Intervals = 3

    def limit_s(self, interval_s: float) -> float:
        """Return the seconds after which a job is behind that reads new data every `interval_s` seconds."""
        return max(self.after_s, self.intervals * interval_s)


# What another evaluator has told after less time goes on here, too.
_BACKLOG = """
SELECT b.*, EXISTS (FROM fired AS f WHERE f.rule = $rule AND f.cluster = b.cluster AND b.oldest <= f.last) AS fired
FROM backlog AS b ORDER BY cluster
"""


def _behind(name: str, settings: JobBehindSettings, evaluation: Evaluation) -> Iterator[Condition]:
    """Clusters with bronze rows that `run` should have read by now, and clusters with unreadable tables."""
    now = evaluation.now
    for row in evaluation.ask(_BACKLOG, rule=name):
        oldest, cluster = moment(row["oldest"]), row["cluster"]
        limit_s = 0 if row["fired"] else row["limit_s"]
        fires = microseconds(not_judged_from(reconstructed=True, oldest=oldest, behind_after_s=limit_s))
        if fires < now:
            facts = {"words": not_judged(row["judged_once"], oldest)}
            yield Condition(name, cluster, "behind", cluster, "run", row["oldest"], fires, now, now, True, facts)
    for row in evaluation.ask("SELECT * FROM blind ORDER BY ALL"):
        cluster, since, facts = row["cluster"], row["since"], {"words": unreadable(row["why"])}
        yield Condition(name, cluster, "behind", cluster, row["why"], since, since, now, now, True, facts)


def _sentence(conditions: Sequence[Condition]) -> str:
    return "; ".join(dict.fromkeys(str(one.facts["words"]) for one in conditions))


JOB_BEHIND = AlertRule(
    "job_behind",
    JobBehindSettings(severity="critical"),
    _behind,
    _sentence,
    ("backlog",),
    About.CLUSTER,
    withdrawn="judged again",
)
RULES = (JOB_BEHIND,)
