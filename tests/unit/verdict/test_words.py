"""The words of verdicts, from records alone: no lake, no clock."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from pipelines.lake.queries import microseconds
from pipelines.verdict import (
    Backlog,
    ClusterRecord,
    Condition,
    FallGroup,
    Limits,
    NotUnderstood,
    PartitionGroup,
    Source,
    State,
    Unheard,
    lines,
    verdict,
    words,
)
from pipelines.verdict.judged import not_judged_from, unanswered
from pipelines.verdict.losses import how, lacking
from pipelines.verdict.records import Wait
from schemas.brokers import CUT_OFF

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def group(condition, brokers=(), partitions=1, **more):
    return PartitionGroup(condition, tuple(brokers), partitions, **more)


SOURCE = Source("broker-1/server.log", 1, at(0))
SOUND = ClusterRecord(
    "prod",
    judged_from=at(-7200),
    judged_to=at(0),
    sources=(SOURCE,),
    levels={3: 4},
    groups=(group(Condition.IN_SYNC, partitions=4),),
    replicas=frozenset({1}),
    terms={1: ((at(-7200), at(0)),)},
)


def said(record, now=25, **limits):
    return [line.text for line in verdict(record, Limits(**limits), at(now)).lines]


def part(name, record, now=25, **limits):
    return [line.text for line in verdict(record, Limits(**limits), at(now)).lines if line.part == name]


def test_a_sound_cluster_takes_three_sentences():
    assert said(SOUND) == [
        "judged up to 2026-09-01 12:00:00 UTC, 25 s ago, at level 3 (full TRACE)",
        "OK: 4 partitions, all in sync",
        "no loss is known from 2026-09-01 10:00:00 UTC to 2026-09-01 12:00:00 UTC, at level 3 (full TRACE)",
    ]


@pytest.mark.parametrize(
    ("since", "first"),
    [
        (timedelta(days=1), "2026-09-01 10:00:00 UTC"),
        (timedelta(hours=1), "2026-09-01 11:00:00 UTC"),
        (at(-60), "2026-09-01 11:59:00 UTC"),
        (None, "2026-09-01 10:00:00 UTC"),
    ],
)
def test_no_loss_is_said_of_no_time_before_the_telemetry_began(since, first):
    assert f"no loss is known from {first} to " in part("history", SOUND, since=since)[0]


WAITING = Backlog(1200, at(-600))


@pytest.mark.parametrize(
    ("record", "behind_after_s", "state"),
    [
        (SOUND, 300, State.OK),
        (replace(SOUND, backlog=WAITING), 600 + 25, State.OK),
        (replace(SOUND, backlog=WAITING), 600 + 24, State.NOT_JUDGED),
        (replace(SOUND, backlog=Backlog(1, at(24)), reconstructed=False), 300, State.NOT_JUDGED),
    ],
)
def test_not_judged(record, behind_after_s, state):
    assert verdict(record, Limits(behind_after_s=behind_after_s), at(25)).judged.state is state


def test_not_judged_counts_from_the_oldest_commit_and_at_once_where_nothing_was_ever_read():
    assert not_judged_from(True, NOON, 300) == at(300)
    assert not_judged_from(False, NOON, 300) == NOON


def test_what_is_not_judged_is_neither_ok_nor_without_loss():
    assert said(replace(SOUND, backlog=WAITING)) == [
        "NOT JUDGED: `hwmark run` has not read what bronze got since 2026-09-01 11:50:00 UTC; 1,200 events to read, "
        "the oldest for 10 min; judged up to 2026-09-01 12:00:00 UTC, at level 3 (full TRACE)",
        "when last judged, 4 partitions were in sync",
        "whether anything was lost after 2026-09-01 12:00:00 UTC is not judged; before that no loss was found "
        "(from 2026-09-01 10:00:00 UTC to 2026-09-01 12:00:00 UTC)",
    ]


def test_of_a_cluster_that_was_never_read_there_is_one_sentence():
    never = ClusterRecord("prod", reconstructed=False, backlog=WAITING)
    assert said(never) == [
        "NOT JUDGED: nothing of it is reconstructed, so neither its state nor its losses are known; "
        "1,200 events to read, the oldest for 10 min"
    ]


def test_a_cluster_of_which_no_partition_was_reported():
    assert said(ClusterRecord("prod")) == ["nothing has been reported of any partition yet"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"gaps": {"gap": 1, "late": 9, "reset": 9}}, "1 gap in its telemetry"),
        ({"gaps": {"clock": 2}}, "2 clocks found wrong"),
        ({"gaps": {"anew": 1}}, "1 source that began numbers anew inside an epoch, and counts as repeats since"),
        ({"unread": ("h/app.log: nothing of it was understood, its first line is 'x'",)},
         "not read: h/app.log: nothing of it was understood"),
        ({"not_understood": (NotUnderstood("a", 1, "x"), NotUnderstood("b", 3, "y"))},
         '4 lines of a, b not understood, such as "y"'),
    ],
)  # fmt: skip
def test_what_is_missing_of_the_telemetry_is_said_with_the_verdict_and_with_the_losses(more, sentence):
    record = replace(SOUND, **more)
    assert part("judged", record)[0].endswith(f"; {sentence}")
    assert part("history", record)[0].startswith("a loss is not excluded from ")
    assert part("history", record)[0].endswith(f": {sentence}")


@pytest.mark.parametrize(
    ("sources", "closed", "sentence"),
    [
        ((SOURCE,), None, None),
        ((replace(SOURCE, reported_to=at(-275)),), None, None),
        (
            (replace(SOURCE, reported_to=at(-276)), SOURCE),
            None,
            "1 source of broker 1 silent since 2026-09-01 11:55:24 UTC: broker-1/server.log",
        ),
        (
            (replace(SOURCE, reported_to=at(-900)), Source("metadata.dump", -1, at(-400)), SOURCE),
            None,
            "2 sources of broker 1 silent, the first since 2026-09-01 11:45:00 UTC: broker-1/server.log, metadata.dump",
        ),
        ((Source("metadata.dump", -1, at(-400)), SOURCE), None,
         "1 source silent since 2026-09-01 11:53:20 UTC: metadata.dump"),
        ((replace(SOURCE, reported_to=at(-900)),), at(-900), None),
    ],
)  # fmt: skip
def test_silent_sources_are_named_unless_the_cluster_has_ended(sources, closed, sentence):
    (text,) = part("judged", replace(SOUND, sources=sources, closed=closed))
    assert text.partition("; ")[2] == (sentence or "")


def test_the_end_is_said_once_the_job_has_read_all_of_the_cluster():
    closed = replace(SOUND, closed=at(0), sources=(SOURCE,))
    assert "judged up to its end" in part("judged", closed)[0]
    unread = replace(closed, backlog=Backlog(1, at(-1)))
    assert "its end" not in part("judged", unread)[0]


GONE = group(Condition.OFFLINE, [2], 3)
PRESENT = {
    "offline": ([GONE], ["OFFLINE: broker 2 gone: 3 of 10 partitions offline"]),
    "offline, and nobody knows who could lead": (
        [group(Condition.OFFLINE)],
        ["OFFLINE: 1 of 10 partitions offline; which brokers must come back is not known"],
    ),
    "under min ISR": (
        [group(Condition.UNDER_MIN_ISR, [3, 2], 4)],
        ["UNDER MIN ISR: brokers 2, 3 gone: 4 of 10 partitions under min ISR"],
    ),
    "held back": (
        [group(Condition.HELD_BACK, [5], 2, stalled_ms=61_000), group(Condition.HELD_BACK, [4, 6], 4, stalled_ms=9000)],
        ["HELD BACK: brokers 4, 6 hold back 4 of 10 partitions, the longest for 9 s; broker 5 holds back 2 of 10 "
         "partitions, the longest for 1 min"],
    ),
    "held back by many": (
        [group(Condition.HELD_BACK, [n]) for n in range(5)],
        ["HELD BACK: broker 0 holds back 1 of 10 partitions; broker 1 holds back 1 of 10 partitions; "
         "broker 2 holds back 1 of 10 partitions; 2 more partitions because of others"],
    ),
    "under-replicated": (
        [group(Condition.UNDER_REPLICATED, [3], 2), group(Condition.OUT_OF_SYNC, [1])],
        ["AT RISK: broker 3 out of the ISR: 2 of 10 partitions have a replica less to count on",
         "broker 1 out of sync in 1 of 10 partitions"],
    ),
    "under-replicated since a reassignment": (
        [group(Condition.UNDER_REPLICATED, [3], 2, adding=True)],
        ["AT RISK: broker 3 out of the ISR (or being added): 2 of 10 partitions have a replica less to count on"],
    ),
    "several at once": (
        [GONE, group(Condition.UNDER_REPLICATED, [3], 2), group(Condition.HELD_BACK, [5])],
        ["OFFLINE: broker 2 gone: 3 of 10 partitions offline", "HELD BACK: broker 5 holds back 1 of 10 partitions",
         "AT RISK: broker 3 out of the ISR: 2 of 10 partitions have a replica less to count on"],
    ),
    "a silent leader": (
        [group(Condition.IN_SYNC, [1], 2, unknown=True), group(Condition.HELD_BACK, [1], 1, unknown=True)],
        ["UNKNOWN: broker 1 stopped reporting: how 3 of 10 partitions stand is not known; before, 1 was held back, "
         "2 were in sync"],
    ),
    "an unknown leader": (
        [group(Condition.IN_SYNC, [], 2, unknown=True)],
        ["UNKNOWN: who leads 2 of 10 partitions, is in sync, or is missing, was never told: lay controller.log beside"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("groups", "sentences"), PRESENT.values(), ids=PRESENT.keys())
def test_the_present_names_the_brokers_first_and_counts_the_partitions(groups, sentences):
    rest = 10 - sum(one.partitions for one in groups)
    record = replace(SOUND, groups=(*groups, group(Condition.IN_SYNC, partitions=rest)))
    assert part("present", record) == sentences


@pytest.mark.parametrize(
    ("told", "pending"),
    [
        (305, ["2 partitions pending since 2026-09-01 12:00:05 UTC, told from 2026-09-01 12:05:05 UTC on"]),
        (-60, ["2 partitions pending since 2026-09-01 12:00:05 UTC, told from 2026-09-01 11:59:00 UTC on"]),
        pytest.param(-61, [], id="nobody evaluates any more"),
    ],
)
def test_what_is_not_told_yet_is_pending(told, pending):
    groups = (group(Condition.UNDER_MIN_ISR, [2], 2), group(Condition.IN_SYNC, partitions=2))
    wait = Wait(SOUND.cluster, "under_min_isr", 2, microseconds(at(5)), microseconds(at(told)))
    record = replace(SOUND, groups=groups, waits={"under_min_isr": wait})
    said = ["broker 2 gone: 2 of 4 partitions under min ISR", *pending]
    assert part("present", record) == [f"UNDER MIN ISR: {one}" for one in said]


def test_no_source_reports_any_more():
    everything = (group(Condition.OFFLINE, [], 1, unknown=True), group(Condition.IN_SYNC, [1], 3, unknown=True))
    assert part("present", replace(SOUND, groups=everything), now=1000) == [
        "UNKNOWN: no source reports any more, the last did at 2026-09-01 12:00:00 UTC; then 1 was offline, "
        "3 were in sync; `hwmark run --once --drain` closes a recording that is complete"
    ]


def test_no_source_reports_of_a_cluster_that_retention_took_out_of_bronze():
    """A drain closes what is there: it was named as the way out, and changed nothing however often."""
    record = replace(SOUND, sources=(), groups=(group(Condition.IN_SYNC, [1], 3, unknown=True),))
    assert part("present", record, now=1000) == [
        "UNKNOWN: no source reports; then 3 partitions were in sync; `hwmark run --once --drain` closes a recording "
        "that is complete, as far as bronze still has it"
    ]


def test_a_cluster_that_has_ended_has_no_present_trouble():
    record = replace(SOUND, closed=at(0), groups=(group(Condition.OFFLINE, [1], 4),))
    assert part("present", record, now=9000) == ["ended at 2026-09-01 12:00:00 UTC; then 4 partitions were offline"]
    assert verdict(record, Limits(), at(9000)).state is State.OK


WATCHED = replace(
    SOUND,
    levels={1: 4},
    sources=tuple(Source(f"watch/main/broker-{broker}", broker, at(20 - broker)) for broker in (1, 2, 3)),
)
DEAD = {3: Unheard("no_answer", at(5), "does not answer (refused)")}


def test_ok_at_level_1_carries_the_age_of_the_oldest_answer():
    read = replace(WATCHED, judged_to=at(20))
    (sentence,) = part("present", read)
    assert sentence.startswith("OK: 4 partitions, ")
    assert sentence.endswith(", as last answered, 8 s ago at most")
    assert part("present", replace(WATCHED, judged_to=at(5)))[0].endswith("20 s ago at most"), "so far `run` has read"
    dead = replace(read, sources=(*WATCHED.sources[:2], replace(WATCHED.sources[2], reported_to=at(-900))))
    assert "7 s ago at most" in part("present", replace(dead, unheard=DEAD))[0]


@pytest.mark.parametrize(
    ("now", "holds", "state"), [(60, 10, "OK"), (61, 10, "UNKNOWN"), (61, 80, "OK"), (81, 80, "UNKNOWN")]
)
def test_nothing_of_the_present_is_said_to_be_sound_by_what_run_read_more_than_a_minute_ago(now, holds, state):
    """A watcher that went on after 100 s made the cluster OK at once, by what had been read before."""
    sources = tuple(replace(one, reported_to=at(now), holds_s=holds) for one in WATCHED.sources)
    said = part("present", replace(WATCHED, judged_to=at(0), sources=sources), now=now)
    assert [line.partition(":")[0] for line in said] == [state]
    if state == "UNKNOWN":
        since = "`hwmark run` has read nothing newer than 2026-09-01 12:00:00 UTC"
        assert said == [
            f"UNKNOWN: {since}: how 4 of 4 partitions stand is not known; before, 4 partitions were in sync"
        ]


@pytest.mark.parametrize(("state", "words"), [
    ("no_answer", "does not answer"), ("down", "is down"), ("not_reached", "is not reached from here"),
])  # fmt: skip
def test_what_a_broker_leads_that_does_not_answer_is_unknown_and_what_it_follows_at_risk(state, words):
    groups = (
        group(Condition.IN_SYNC, [3], 2, unknown=True), group(Condition.UNDER_REPLICATED, [3], 2),
    )  # fmt: skip
    record = replace(WATCHED, groups=groups, unheard={3: replace(DEAD[3], state=state)})
    assert part("present", record) == [
        f"UNKNOWN: broker 3 {words} since 2026-09-01 12:00:05 UTC: how 2 of 4 partitions stand is not known; before, "
        "2 partitions were in sync",
        f"AT RISK: broker 3 {words} since 2026-09-01 12:00:05 UTC: 2 of 4 partitions have a replica less to count on, "
        "as of 25 s ago at most",
    ]


@pytest.mark.parametrize(("later", "words"), [(5, "do not answer since"), (9, "do not answer, the first since")])
def test_of_brokers_that_ceased_to_answer_one_after_another_the_time_is_said_to_be_the_first(later, words):
    groups = (group(Condition.UNDER_REPLICATED, [2, 3], 2),)
    out = {3: replace(DEAD[3], state="no_answer"), 2: Unheard("no_answer", at(later), "timed out")}
    (sentence,) = part("present", replace(WATCHED, groups=groups, unheard=out))
    assert sentence.startswith(f"AT RISK: brokers 2, 3 {words} 2026-09-01 12:00:05 UTC: ")


def test_where_no_broker_answers_the_watcher_is_blamed_and_the_cluster_not_judged():
    out = {broker: Unheard("unknown", at(broker), CUT_OFF) for broker in (1, 2, 3)}
    for backlog in (None, Backlog(7, at(20))):
        sentence, *_ = part("judged", replace(WATCHED, unheard=out, backlog=backlog))
        assert sentence.startswith("NOT JUDGED: no broker has answered the watcher since 2026-09-01 12:00:03 UTC: ")
    one_is_new = {2: Unheard("unknown", at(5), "one round without an answer: timed out")}
    assert verdict(replace(WATCHED, unheard=one_is_new), Limits(), at(25)).judged.state is State.OK


@pytest.mark.parametrize(("seconds", "found"), [(77, set()), (78, {3}), (81, {1, 2, 3})])
def test_a_claim_of_the_present_is_no_older_than_a_minute_of_answers(seconds, found):
    assert unanswered(WATCHED, Limits(), at(seconds)) == found
    assert unanswered(replace(WATCHED, closed=at(20)), Limits(), at(seconds)) == set()
    read_too = (*WATCHED.sources, Source("broker-3/server.log", 3, at(30)))
    assert unanswered(replace(WATCHED, sources=read_too), Limits(), at(seconds)) == found - {3}


def test_at_level_1_who_does_not_answer_may_be_out_of_sync():
    assert part("present", replace(SOUND, levels={1: 4})) == [
        "OK: 4 partitions, every replica in the ISR, and none known to be out of sync, as last answered"
    ]


@pytest.mark.parametrize("level", [0, None])
def test_at_level_0_nobody_sees_who_holds_back(level):
    assert part("present", replace(SOUND, levels={level: 4})) == [
        "OK: 4 partitions, every replica in the ISR; at level 0 nothing shows who holds a HW back"
    ]


LOSS = FallGroup(
    "unclean_loss", "critical", "proven", 2, 1, 2, at(-60), at(-60), 360,
    ("clicks-0 offsets 120..299", "clicks-1 offsets 120..299"),
)  # fmt: skip
OPEN = FallGroup(
    "loss_not_excluded", "info", "unproven", 3, 3, 12, at(-90), at(-60), None, ("a-0", "a-1", "a-2"), ("no HW of 1",)
)
SPAN = "(from 2026-09-01 10:00:00 UTC to 2026-09-01 12:00:00 UTC)"
ELECTION = "unclean election of broker 2 after broker 1 at 2026-09-01 11:59:00 UTC"
HISTORY = {
    "a loss": (
        [LOSS],
        [f"LOST: 360 offsets in 2 partitions: {ELECTION}: clicks-0 offsets 120..299, clicks-1 offsets 120..299 {SPAN}"],
    ),
    "more than is named": (
        [replace(LOSS, partitions=40, proof="bounded")],
        [f"LOST: at least 360 offsets in 40 partitions: {ELECTION}: clicks-0 offsets 120..299, "
         f"clicks-1 offsets 120..299 and 38 more {SPAN}"],
    ),
    "a suspicion": (
        [replace(LOSS, severity="warning", proof="unproven")],
        [f"LOSS NOT EXCLUDED: 360 offsets may be gone in 2 partitions, unproven: {ELECTION}: "
         f"clicks-0 offsets 120..299, clicks-1 offsets 120..299 {SPAN}"],
    ),
    "not excluded": (
        [OPEN],
        ["LOSS NOT EXCLUDED: broker 3 resumed leading from 2026-09-01 11:58:30 UTC to 2026-09-01 11:59:00 UTC in 12 "
         f"partitions (a-0, a-1, a-2 and 9 more); missing: no HW of 1 {SPAN}"],
    ),
    "not excluded, and nobody wrote why": (
        [replace(OPEN, missing=(), partitions=1, first=at(-60), examples=("a-0",))],
        ["LOSS NOT EXCLUDED: broker 3 resumed leading at 2026-09-01 11:59:00 UTC in 1 partition (a-0); "
         f"missing: not recorded {SPAN}"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("falls", "sentences"), HISTORY.values(), ids=HISTORY.keys())
def test_history(falls, sentences):
    number = sum(fall.partitions for fall in falls)
    assert part("history", replace(SOUND, falls=tuple(falls), lost_in=number, suspect=number)) == sentences


@pytest.mark.parametrize(("first", "last"), [(-9000, 40), (-60, 40), (-9000, -60)])
def test_a_loss_lies_inside_the_span_that_its_sentence_names(first, last):
    """A loss in silver may be later than the present of gold, or earlier than the first minute that is kept."""
    (sentence,) = part("history", replace(SOUND, falls=(replace(LOSS, first=at(first), last=at(last)),), lost_in=2))
    begins, ends = min(at(first), at(-7200)), max(at(last), at(0))
    assert sentence.endswith(f"(from {words.clock(begins)} to {words.clock(ends)})")


def test_an_upper_bound_of_the_hw_before_is_enough_by_itself():
    bound, rest = "an upper bound of the HW before", ["a clean election", "a clean stop of broker 1"]
    assert lacking([bound, *rest]) == f"{bound}, or a clean election and a clean stop of broker 1"
    assert lacking(["start offset", bound, rest[0]]) == f"start offset and {bound}, or a clean election"
    assert lacking([]) == "not recorded"


def test_a_loss_not_excluded_that_awaits_an_answer_is_pending_since():
    wait = Wait("prod", "unproven_loss", 1, microseconds(at(-2)), microseconds(at(5)))
    record = replace(SOUND, falls=(replace(OPEN, severity="warning"),), waits={"unproven_loss": wait})
    (said,) = (line.text for line in verdict(record, Limits(), at(25)).lines if "pending" in line.text)
    told = "told from 2026-09-01 12:00:05 UTC on"
    assert said == f"LOSS NOT EXCLUDED: 1 partition pending since 2026-09-01 11:59:58 UTC, {told} {SPAN}"


def test_lost_and_not_excluded_are_two_sentences():
    both = verdict(replace(SOUND, falls=(OPEN, LOSS), lost_in=2), Limits(), at(25))
    assert [line.state for line in both.lines[:2]] == [State.LOST, State.LOSS_NOT_EXCLUDED]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (("unclean_loss", 2, 1), "unclean election of broker 2 after broker 1"),
        (("unclean_loss", 2, None), "unclean election of broker 2"),
        (("unclean_loss", None, 1), "unclean election of an unknown broker after broker 1"),
        (("unclean_loss", 2, -1), "unclean election of broker 2"),
        (("committed_loss", 2, 2), "broker 2 resumed leading from a log that ends below the HW"),
        (("committed_loss", 2, 1, 7), "broker 2 began leading after broker 1 from a log that ends at 7"),
        (("hw_moved_back", 2, 1), "HW moved back under broker 2"),
        (("loss_not_excluded", 2, 1), "broker 2 began leading after broker 1"),
        (("loss_not_excluded", 2, 2), "broker 2 resumed leading"),
    ],
)
def test_how_a_hw_fell(asked, sentence):
    assert how(*asked) == sentence


def test_the_order_of_states_is_the_contracts():
    assert [state.value for state in State if state is not State.UNKNOWN] == [
        "NOT JUDGED", "LOST", "LOSS NOT EXCLUDED", "OFFLINE", "UNDER MIN ISR", "HELD BACK", "AT RISK", "OK",
    ]  # fmt: skip


CLUSTERS = {
    "a": {"falls": (LOSS,), "lost_in": 2},
    "b": {},
    "c": {"groups": (GONE,)},
    "d": {"backlog": Backlog(1, at(-4000))},
}


@pytest.mark.parametrize("order", list(permutations(CLUSTERS)))
def test_the_worst_cluster_comes_first_and_of_each_the_worst_sentence(order):
    records = [replace(SOUND, cluster=name, **CLUSTERS[name]) for name in order]
    found = lines(verdict(record, Limits(), at(25)) for record in records)
    assert list(dict.fromkeys(line.cluster for line in found)) == ["d", "a", "c", "b"]
    for name in CLUSTERS:
        ranks = [line.state.rank for line in found if line.cluster == name]
        assert ranks == sorted(ranks)


def test_every_sentence_names_its_cluster_and_what_of_it_is_asked_for():
    found = lines([verdict(replace(SOUND, scope="/orders"), Limits(), at(25))])
    assert [str(line).split(": ")[0] for line in found] == ["prod", "prod/orders", "prod/orders"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (25.9, "25 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (7800, "2 h 10 min"),
     (86_400, "24 h"), (3 * 86_400, "3 days")],
)  # fmt: skip
def test_spans(seconds, text):
    assert words.span(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("found", "total", "text"),
    [("ab", 0, "a, b"), ("abc", 0, "a, b, c"), ("abcd", 0, "a, b, c and 1 more"), ("ab", 2000, "a, b and 1,998 more")],
)
def test_lists_name_three_and_count_the_rest(found, total, text):
    assert words.listed(list(found), total=total) == text


def test_no_calm_word_of_a_cluster_of_which_a_broker_was_not_read():
    record = replace(SOUND, unread_brokers=(2,))
    (said_of_it,) = part("history", record)
    assert said_of_it.startswith("a loss is not excluded from ")
    assert said_of_it.endswith(
        "nothing was read of broker 2: lay its server.log, state-change.log and controller.log beside"
    )


def test_where_no_start_of_a_term_was_read_of_any_partition_nothing_is_judged():
    (said_of_it,) = part("history", replace(SOUND, unstarted=SOUND.partitions))
    assert said_of_it.startswith("whether anything was lost is not known from ")
    assert said_of_it.endswith("state-change.log has them")
    (some,) = part("history", replace(SOUND, unstarted=1))
    assert some.startswith("a loss is not excluded from ")


def test_what_is_handled_says_so_and_stands_behind_the_present_but_ok():
    at_risk = replace(SOUND, groups=(PartitionGroup(Condition.UNDER_REPLICATED, (2,), 1),))
    handled, later = replace(LOSS, handled=True), replace(LOSS, first=at(-30), last=at(-30))
    found = verdict(replace(at_risk, falls=(handled, later), lost_in=4), Limits(), at(25)).lines
    assert [(line.text.split(" offsets")[0], line.handled) for line in found if line.state is State.LOST] == [
        ("LOST: 360", False), ("LOST, handled: 360", True),
    ]  # fmt: skip
    alone = verdict(replace(at_risk, falls=(handled,), lost_in=2), Limits(), at(25))
    assert [line.state for line in alone.lines[:2]] == [State.AT_RISK, State.LOST]
    sound = verdict(replace(SOUND, falls=(handled,), lost_in=2), Limits(), at(25))
    assert [line.state for line in sound.lines[:2]] == [State.LOST, State.OK]
    elsewhere = verdict(replace(at_risk, cluster="zoo"), Limits(), at(25))
    assert next(line.cluster for line in lines([sound, elsewhere])) == "zoo"


@pytest.mark.parametrize(("severity", "state"), [("critical", State.LOST), ("warning", State.LOSS_NOT_EXCLUDED)])
def test_the_last_copy_is_as_grave_as_what_is_lost_or_may_be(severity, state):
    fall = FallGroup(
        "unclean_loss", severity, "bounded", 2, 1, 1, at(-60), at(-60), 180, ("orders-0 offsets 120..299",), ()
    )
    record = replace(SOUND, falls=(fall,), lost_in=1, suspect=1, copies=("broker 1 is down and has it: copy it",))
    found = [line for line in verdict(record, Limits(), at(25)).lines if line.part == "history"]
    assert [line.state for line in found] == [state, state]
    assert found[1].text == "broker 1 is down and has it: copy it"
