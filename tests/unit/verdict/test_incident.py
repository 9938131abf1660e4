"""The chain of one loss: every step says since when, or that it is not known."""

from datetime import UTC, datetime, timedelta

from pipelines.verdict.incident import Before, chain

NOON = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


LOSS = {
    "class": "unclean_loss", "ts": at(60), "leader_id": 2, "leader_epoch": 5, "leader_id_before": 1,
    "leader_epoch_before": 4, "start_offset": 120, "hw_before": 300, "lost_from": 120, "lost_to": 300,
    "proof": "proven", "level": 3, "revision": 1, "evidence": "{}",
}  # fmt: skip


def isr(seconds, after, removed=(), added=(), cause="lag", under_min_isr=False, epoch=4):
    changed = {"removed": list(removed), "added": list(added), "isr_after": after}
    return changed | {"ts": at(seconds), "cause": cause, "under_min_isr": under_min_isr, "leader_epoch": epoch}


def sync(seconds, caught_up, replica=2):
    return {"ts": at(seconds), "replica_id": replica, "last_caught_up_ts": None if caught_up is None else at(caught_up)}


def hw(seconds, value, leader_leo, epoch=4):
    return {"ts": at(seconds), "hw": value, "leader_leo": leader_leo, "leader_epoch": epoch}


NOBODY_KNOWS = None, "brokers do not know which writes were acknowledged; by the producers' settings:"
ALL = None, "every lost offset was below the HW: these writes were acknowledged, and consumers could read them"


def said(loss=LOSS, **rows):
    return {step.name: (step.ts, step.text) for step in chain(loss, Before(**rows))}


def test_the_chain_of_an_unclean_loss():
    found = said(
        isr=[isr(10, [1, 2], removed=[3]), isr(20, [1], removed=[2], under_min_isr=True)],
        sync=[sync(5, 2, replica=3), sync(15, 8), sync(50, 9)],
        hw=[hw(1, 400, 400, epoch=3), hw(4, 100, 100), hw(6, 150, 160), hw(25, 300, 310), hw(30, 300, 320)],
    )
    assert found == {
        "follower gone": (at(20), "broker 2 left the ISR (lag), last caught up at 2026-09-01 12:00:08 UTC"),
        "leader alone": (at(20), "broker 1 alone in the ISR"),
        "elected": (at(60), "unclean election of broker 2 after broker 1, leader epoch 5"),
        "lost": (at(60), "180 offsets, 120..299"),
        "written": (
            at(6),
            "the HW passed the lost offsets from 2026-09-01 12:00:06 UTC until 2026-09-01 12:00:25 UTC",
        ),
        "acknowledged": NOBODY_KNOWS,
        "acks=all": ALL,
        "acks=1": (None, "the same, acknowledged earlier; 20 offsets above the HW are gone with them"),
        "min ISR": (
            at(20),
            "under it since 2026-09-01 12:00:20 UTC: writes with acks=all were refused from then on",
        ),
        "judged": (None, "proven at level 3 (full TRACE)"),
    }


def test_what_nobody_reported_is_said_to_be_unknown():
    found = said(LOSS | {"proof": "bounded", "level": 0, "evidence": '{"at_most":[120,340],"missing":["a gap"]}'})
    assert found == {
        "follower gone": (None, "when broker 2 left the ISR is not known"),
        "leader alone": (None, "whether broker 1 was alone in the ISR is not known"),
        "elected": (at(60), "unclean election of broker 2 after broker 1, leader epoch 5"),
        "lost": (at(60), "at least 180 offsets, 120..299, at most 120..339"),
        "written": (None, "when the lost records were written is not known"),
        "acknowledged": NOBODY_KNOWS,
        "acks=all": ALL,
        "acks=1": (None, "the same, acknowledged earlier; what stood above the HW is not known"),
        "min ISR": (None, "whether the ISR was under it is not known"),
        "judged": (None, "bounded at level 0 (stock INFO); missing: a gap"),
    }


def test_a_follower_that_came_back_is_not_gone_and_a_leader_with_company_is_not_alone():
    found = said(isr=[isr(10, [1], removed=[2]), isr(20, [1, 2], added=[2], cause="caught_up")])
    assert found["follower gone"] == (None, "when broker 2 left the ISR is not known")
    assert found["leader alone"] == (None, "broker 1 was not alone in the ISR, as far as is known")


def test_a_loss_without_a_range_says_so():
    found = said(LOSS | {"lost_from": None, "lost_to": None})
    assert found["lost"][1] == "offsets below the HW 300: which is not known"
    assert found["acknowledged"][1] == "which records were acknowledged is not known"
    assert found["written"] == (None, "when the lost records were written is not known")


def test_what_the_election_itself_did_to_the_isr_is_no_cause_of_it():
    """The ISR is replaced by the new leader a moment before its term starts."""
    gone = isr(20, [1], removed=[2])
    found = said(isr=[gone, isr(59, [2], removed=[1], added=[2], cause="election", epoch=5)])
    assert (found["follower gone"][0], found["leader alone"][0]) == (at(20), at(20))
    within = said(LOSS | {"leader_epoch": 4, "leader_id": 1, "class": "committed_loss"}, isr=[gone])
    assert within["leader alone"][0] == at(20)


def test_a_leader_alone_for_long_is_alone_since_the_first_of_it():
    found = said(isr=[isr(10, [1], removed=[2]), isr(30, [1], removed=[3]), isr(40, [1])])
    assert found["leader alone"][0] == at(10)
