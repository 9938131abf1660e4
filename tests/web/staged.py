"""Four lakes of one cluster at the table level, for looking at the page: healthy, a broker gone, LOST, cut off.

python -m tests.web.staged FOLDER [VIEW ...]    screenshots of every view of each, 1440 light and 390 dark

Every table is derived from `turns`, what became of each partition, and `away`, which brokers were down: test_staged.py
holds the tables against each other.
"""

import sys
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from schemas.brokers import CUT_OFF
from tests.unit.project.lakes import at, health, job_has_read, loss, write
from tests.web.lakes import NOW

TOPICS = {"audit": 4, "clicks": 48, "orders": 12, "payments-settlement-reconciliation-eu-central": 6}
PLACES = [(topic, n) for topic, size in TOPICS.items() for n in range(size)]
SINGLE, LOSER = ("audit", 1), ("clicks", 0)
"""The partition of one replica, on broker 2, and the one that loses offsets."""
RACKS = {1: "a", 2: "b", 3: "c"}
VIEWS = {
    "overview": "/?cluster=prod",
    "incidents": "/incidents?cluster=prod",
    "incident": "/incident?cluster=prod&incident_id=3f2a9c0d11aa22bb",
    "brokers": "/brokers?cluster=prod",
    "broker": "/broker?cluster=prod&broker=2",
    "topics": "/topics?cluster=prod",
    "topic": "/topic?cluster=prod&topic=clicks",
    "partitions": "/partitions?cluster=prod&q=clicks",
    "partition": "/partition?cluster=prod&topic=clicks&partition=0",
    "quality": "/quality?cluster=prod",
}
KINDS = ("healthy", "gone", "lost", "cut_off")
BEGUN, GONE, TOLD_TO = at(-7200), at(-240), at(80)
"""When all began, when broker 2 is killed or the watcher cut off, and up to when the others have told."""
LAGS, NO_3, NO_1, UNCLEAN, BACK_3, BACK_1 = (at(s) for s in (-2300, -490, -480, -200, -150, -120))
"""LOST: broker 2 leaves the ISR of LOSER, broker 3 dies, then 1; 2 is elected uncleanly; 3 and 1 join again."""


class Turn(NamedTuple):
    """Who leads a partition from a time on (-1: nobody), its epoch, its ISR, and why it changed."""

    ts: object
    leader: int
    epoch: int
    isr: tuple
    cause: str


@cache
def turns(kind, place):
    """What became of a partition, in order of time."""
    first = Turn(BEGUN, 1 + place[1] % 3, 4, (1, 2, 3), "")
    if place == SINGLE:
        first = Turn(BEGUN, 2, 4, (2,), "")
        return [first, Turn(GONE + timedelta(seconds=5), -1, 5, (2,), "")] if kind == "gone" else [first]
    found = [first]

    def then(ts, isr, cause, leader=None):
        last = found[-1]
        leader = leader or (last.leader if last.leader in isr else min(isr))
        found.append(Turn(ts, leader, last.epoch + (leader != last.leader), tuple(isr), cause))

    if kind == "gone":
        then(GONE + timedelta(seconds=5), (1, 3), "controller_fenced")
    if kind == "lost":
        alive = (1, 3) if place == LOSER else (1, 2, 3)
        if place == LOSER:
            then(LAGS, alive, "lag")
        then(NO_3, [n for n in alive if n != 3], "controller_fenced")
        then(*((NO_1, (1,), "", -1) if place == LOSER else (NO_1, (2,), "controller_fenced")))
        if place == LOSER:
            then(UNCLEAN, (2,), "", 2)
        then(BACK_3, (2, 3), "caught_up")
        then(BACK_1, (1, 2, 3), "caught_up")
    return found


def turn(kind, place, ts):
    """How a partition stood at a time."""
    return next(one for one in reversed(turns(kind, place)) if one.ts <= ts)


def told_to(kind):
    return GONE if kind == "cut_off" else TOLD_TO


def away(kind):
    """By broker from when until when it does not answer; None: it still does not."""
    soon = timedelta(seconds=20)
    return {"gone": {2: (GONE, None)}, "lost": {3: (NO_3, BACK_3 - soon), 1: (NO_1, BACK_1 - soon)}}.get(kind, {})


def is_up(kind, broker, ts):
    begun, ends = away(kind).get(broker, (NOW, NOW))
    return not begun <= ts < (ends or NOW)


def min_isr(place):
    return 1 if place == SINGLE else 2


def is_small(place, one):
    return one.leader >= 0 and len(one.isr) < min_isr(place)


def end(kind, place, ts):
    """The leader's log end offset at a time: one record in ten seconds, but while nobody leads."""
    if place == SINGLE and kind == "gone":
        ts = min(ts, GONE)
    if kind == "lost" and place == LOSER:
        if ts >= UNCLEAN:
            return end(kind, place, LAGS) + (ts - UNCLEAN) // timedelta(seconds=5)
        ts = min(ts, NO_1)
    return 4483 + place[1] + (ts - BEGUN) // timedelta(seconds=10)


def mark(kind, place, ts):
    """The HW at a time: the end, but while under min ISR or without a leader it stands."""
    standing = [one for one in turns(kind, place) if one.ts <= ts]
    since = None
    for one in standing:
        since = (since or one.ts) if is_small(place, one) or one.leader < 0 else None
        since = one.ts if one.ts == UNCLEAN else since
    return end(kind, place, min(ts, since or ts)) - (ts > BEGUN and since != UNCLEAN)


def counts(kind, ts):
    """Partitions offline, under min ISR and under-replicated at a time."""
    now = [(place, turn(kind, place, ts)) for place in PLACES]
    return {
        "offline": sum(one.leader < 0 for _, one in now),
        "under_min_isr": sum(is_small(place, one) for place, one in now),
        "under_replicated": sum(one.leader >= 0 and len(one.isr) < (3, 1)[place == SINGLE] for place, one in now),
    }


def write_lake(lake, kind):
    """One of KINDS; a minute ago all was read."""
    write(lake, "partition_health", *(_health(kind, place) for place in PLACES))
    write(lake, "brokers", *(_broker(kind, n) for n in RACKS))
    _by_minute(lake, kind)
    window = {"brokers": [2], "begins": at(-3600), "until": at(-3000), "reason": "upgrade to 4.1", "author": "ops"}
    write(lake, "downtimes", window)
    _told_before(lake)
    _events(lake, kind)
    _silver(lake, kind)
    _told(lake, kind)
    job_has_read(lake)


def _health(kind, place):
    ts = told_to(kind)
    now = turn(kind, place, ts)
    assigned = [2] if place == SINGLE else [1, 2, 3]
    outside = sorted({*assigned} - {*now.isr})
    small = {"osr": outside, "under_replicated": bool(outside), "under_min_isr": is_small(place, now)}
    if outside:
        small["one_failure_away"] = "under_min_isr"
    row = {"leader_id": now.leader, "leader_epoch": now.epoch, "isr": list(now.isr), "ar": assigned, "level": 1}
    row |= {"hw": mark(kind, place, ts), "leader_leo": end(kind, place, ts), "min_isr": min_isr(place)}
    if row["hw"] < row["leader_leo"]:
        row["holding_replicas"] = [n for n in now.isr if n != now.leader]
    gone = {"offline": now.leader < 0, "last_event_ts": GONE if now.leader < 0 else ts}
    return health(*place, **row | small | gone)


def _broker(kind, n):
    ts = told_to(kind)
    now = {place: turn(kind, place, ts) for place in PLACES}
    hosted = [place for place in PLACES if place != SINGLE or n == 2]
    led = sum(one.leader == n for one in now.values())
    back = away(kind).get(n, (BEGUN, BEGUN))[1]
    row = {
        "cluster": "prod", "broker_id": n, "rack": RACKS[n], "replicas": len(hosted), "led": led,
        "followed": len(hosted) - led, "ts": ts, "state": "answers", "since": back, "level": 1, "witness": "watcher",
        "lag_records": 2, "holds_back": 0, "out_of_sync": 0,
        "outside_isr": sum(n not in now[one].isr for one in hosted),
        "last_reported_ts": ts, "quorum": "quorum: 3 voters, 3 caught up", "quorum_since": BEGUN,
    }  # fmt: skip
    if back is None:
        gone = {"state": "no_answer", "since": GONE, "reason": "refused", "last_reported_ts": GONE, "lag_records": None}
        return row | gone | {"quorum": None}
    if kind == "cut_off":
        return row | {"state": "unknown", "since": GONE, "reason": CUT_OFF}
    return row


def _by_minute(lake, kind):
    rows, lags, led = [], [], []
    for n in range(-120, -4 if kind == "cut_off" else 1):
        minute = at(60 * n)
        each = [counts(kind, minute + timedelta(seconds=s)) for s in range(60)]
        last = each[-1]
        most = {f"{name}_max": max(one[name] for one in each) for name in last}
        seconds = {f"{name}_s": float(sum(one[name] > 0 for one in each)) for name in last}
        whole = {"cluster": "prod", "minute": minute, "partitions": len(PLACES) - last["offline"]}
        whole["held_back_max"] = 2 if n in (-31, -30) else 0
        rows.append(whole | last | most | seconds)
        ends = minute + timedelta(seconds=59)
        now = [turn(kind, place, ends).leader for place in PLACES]
        led += [{"broker_id": b, "minute": minute, "partitions": now.count(b)} for b in RACKS]
        lag = {"followed": 47, "level": 1, "lag_records": 48 * (n % 2), "lag_ms": 900}
        up = [b for b in RACKS if is_up(kind, b, minute)]
        lags += [lag | {"broker_id": b, "ts": minute} for b in up]
    write(lake, "cluster_minute", *rows)
    write(lake, "broker_minute", *led)
    write(lake, "broker_lag", *lags)


def _events(lake, kind):
    ts = told_to(kind)
    row = {"cluster": "prod", "event_type": "progress", "partition": -1, "level": 1, "topic": None}
    sources = {n: {"broker_id": n, "source_id": f"watch/main/broker-{n}"} for n in RACKS}
    ends = {n: ts if is_up(kind, n, ts) else GONE for n in RACKS}
    told = [row | source | {"ts": ends[n]} for n, source in sources.items()]
    out = dict.fromkeys(RACKS, (GONE, None)) if kind == "cut_off" else away(kind)
    states = [(n, BEGUN, "answers") for n in RACKS]
    states += [(n, since, "no_answer: refused") for n, (since, _) in out.items()]
    states += [(n, until, "answers") for n, (_, until) in out.items() if until]
    state = row | {"event_type": "broker_state"}
    told += [state | sources[n] | {"ts": ts, "detail": detail, "replica_id": n} for n, ts, detail in states]
    elections = [(place, one) for place in PLACES for one in turns(kind, place)[1:]]
    election = {"event_type": "election", "broker_id": 100, "source_id": "controller"}
    told += [
        election | {"topic": topic, "partition": n, "ts": one.ts, "leader_id": one.leader, "leader_epoch": one.epoch}
        for (topic, n), one in elections
        if one.leader < 0 or not one.cause
    ]
    write(lake, "replication_events", *told)
    stretch = {"cluster": "prod", "from_ts": at(-7 * 86_400), "level": 1}
    kinds = [
        source | {"kind": name, "to_ts": ends[n]} for n, source in sources.items() for name in ("terms", "hw", "isr")
    ]
    write(lake, "coverage", *(stretch | one for one in kinds))


def _silver(lake, kind):
    heads, changes = [], []
    for topic, n in PLACES:
        place = {"topic": topic, "partition": n, "level": 1}
        of, frozen = turns(kind, (topic, n)), False
        for before, now in pairwise([None, *of]):
            at_ts = {"ts": now.ts, "hw": mark(kind, (topic, n), now.ts), "leader_leo": end(kind, (topic, n), now.ts)}
            row = place | at_ts | {"leader_id": now.leader, "leader_epoch": now.epoch, "isr": list(now.isr)}
            began = now.leader >= 0 and (before is None or before.leader != now.leader)
            if began:
                heads.append(row | {"kind": "term_start"})
            small = is_small((topic, n), now)
            if small and (began or not frozen):
                heads.append(row | {"kind": "freeze", "ts": now.ts + timedelta(milliseconds=1), "frozen": True})
            if frozen and not small and now.leader >= 0 and not began:
                heads.append(row | {"kind": "thaw"})
            frozen = small
            if before and before.isr != now.isr and now.cause:
                left, came = sorted({*before.isr} - {*now.isr}), sorted({*now.isr} - {*before.isr})
                change = {"change": "shrink" if left else "expand", "removed": left, "added": came, "cause": now.cause}
                ids = {"leader_id": now.leader, "leader_epoch": now.epoch, "revision": 1, "under_min_isr": small}
                isr = {"isr_before": list(before.isr), "isr_after": list(now.isr), "partition_epoch": 5 + len(changes)}
                changes.append(place | {"ts": now.ts} | change | ids | isr)
    write(lake, "partition_hw", *heads, *_advances(kind))
    if changes:
        write(lake, "isr_changes", *changes)
    write(lake, "replica_sync", *_follows(kind))
    if kind == "lost":
        first, last = end(kind, LOSER, LAGS), mark(kind, LOSER, NO_1)
        range_ = {
            "hw_before": last,
            "hw_after": first,
            "lost_from": first,
            "lost_to": last,
            "lost_records": last - first,
        }
        terms = {"leader_epoch": turn(kind, LOSER, UNCLEAN).epoch, "leader_epoch_before": 4, "start_offset": first}
        evidence = f'{{"hw":{{"broker":1,"offset":{last}}}}}'
        write(lake, "hw_regressions", loss(ts=UNCLEAN, level=1, evidence=evidence, **terms | range_))


def _moments(kind, step):
    return (BEGUN + timedelta(seconds=s) for s in range(step, int((told_to(kind) - BEGUN).total_seconds()) + 1, step))


def _advances(kind):
    """The HW of LOSER every ten seconds, while it moves."""
    before = None
    for ts in _moments(kind, 10):
        now, hw = turn(kind, LOSER, ts), mark(kind, LOSER, ts)
        if now.leader >= 0 and hw != before:
            row = {
                "kind": "advance",
                "topic": "clicks",
                "leader_id": now.leader,
                "isr": list(now.isr),
                "level": 1,
                "ts": ts,
            }
            yield row | {"leader_epoch": now.epoch, "hw": hw, "leader_leo": end(kind, LOSER, ts)}
        before = hw


def _follows(kind):
    """The ends of the followers of LOSER, every 20 seconds while they are up and in its ISR."""
    for ts in _moments(kind, 20):
        now = turn(kind, LOSER, ts)
        for n in now.isr:
            if now.leader >= 0 and n != now.leader and is_up(kind, n, ts):
                leo = {"replica_id": n, "leo": mark(kind, LOSER, ts), "leader_epoch": now.epoch}
                yield {"state": "in_sync", "topic": "clicks", "leader_id": now.leader, "ts": ts} | leo


def _told(lake, kind):
    """The alerts, the incident and what was sent, of all but the healthy lake."""
    if kind == "healthy":
        return
    states = []

    def tell(rule, severity, text, places, first=GONE, **labels):
        names = [f"{topic}-{n}" for topic, n in places]
        topics = sorted({topic for topic, _ in places})
        named = {"partitions": ", ".join(names), "count": str(len(names))} if names else {}
        of = {"topic": topics[0]} if len(topics) == 1 else {"topics": ", ".join(topics)} if topics else {}
        row = {"rule": rule, "severity": severity, "state": "firing", "subject": names[0] if names else "prod"}
        row |= {"first_ts": first, "last_ts": TOLD_TO, "summary": f"prod: {text}", "alert_id": f"{rule:0<16}"[:16]}
        states.append(row | {"labels": list(({"cluster": "prod"} | named | of | labels).items())})

    now = {place: turn(kind, place, told_to(kind)) for place in PLACES}
    if kind == "gone":
        offline = [place for place, one in now.items() if one.leader < 0]
        less = [place for place, one in now.items() if len(one.isr) == 2]
        tell("offline", "critical", "OFFLINE: broker 2 gone: 1 of 70 partitions offline", offline, brokers="2")
        said = (
            f"AT RISK: broker 2 does not answer since {GONE:%Y-%m-%d %H:%M:%S} UTC: {len(less)} of 70 partitions have "
        )
        tell("at_risk", "warning", f"{said}a replica less to count on", less, brokers="2")
        summary, more = "OFFLINE prod: broker 2, 1 partition of audit", {"brokers": [2], "offline": 1}
    if kind == "lost":
        lost = mark(kind, LOSER, NO_1) - end(kind, LOSER, LAGS)
        said = f"LOST: {lost} offsets in 1 partition: unclean election of broker 2 after broker 1"
        tell(
            "loss",
            "critical",
            said,
            [LOSER],
            UNCLEAN,
            loss="r1",
            offsets=str(lost),
            cause="unclean_loss",
            proof="proven",
        )
        summary = f"LOST prod: unclean election, {lost} offsets of clicks"
        more = {"groups": ["billing", "fraud"], "lost_offsets": lost, "groups_asked": at(60)}
        more["readers"] = [("clicks-0", "billing, fraud")]
    if kind == "cut_off":
        tell("watcher_cut_off", "warning", "NOT JUDGED: no broker has answered the watcher", [])
        summary, more = "WATCHER CUT OFF hwmark: prod", {"cluster": ""}
    write(lake, "alerts", *states)
    partitions = sorted({one for row in states for one in dict(row["labels"]).get("partitions", "").split(", ") if one})
    ids, head = [row["alert_id"] for row in states], states[0]
    row = {"incident_id": "3f2a9c0d11aa22bb", "cluster": "prod", "state": "open", "cause": head["rule"], "brokers": []}
    row |= {name: head[name] for name in ("severity", "subject", "first_ts", "last_ts")} | {"summary": summary}
    row |= {"alert_ids": ids, "firing": ids, "partitions": partitions, "written_at": at(70), "offline": 0}
    write(lake, "incidents", row | {"topics": sorted({one.rpartition("-")[0] for one in partitions})} | more)
    sent = {"alert_id": "3f2a9c0d11aa22bb", "state": "firing", "outcome": "sent", "attempt": 1}
    write(lake, "deliveries", *(sent | {"channel": name, "sent_at": at(75)} for name in ("oncall", "chat")))


def _told_before(lake):
    """An incident that ended six hours ago."""
    over = {"state": "ended", "cause": "stale_source", "severity": "warning", "subject": "broker-3", "brokers": [3]}
    when = {"first_ts": at(-21_900), "last_ts": at(-21_600), "written_at": at(-21_500)}
    told = dict.fromkeys(("firing", "topics", "partitions"), ()) | {
        "alert_ids": ["5ta1e00000000001"],
        "summary": "STALE SOURCE prod: broker 3",
    }
    write(lake, "incidents", over | when | told | {"incident_id": "7c1d9c0d11aa22aa", "cluster": "prod"})
    alert = {"rule": "stale_source", "state": "resolved", "severity": "warning", "subject": "broker-3"}
    write(lake, "alerts", alert | when | {"alert_id": "5ta1e00000000001", "summary": "prod: broker 3 was silent"})


def write_fleet(lake, clusters=200):
    """So many clusters: every fifth with something wrong, two that lost, three of which nothing was read."""
    offline, small = {"offline": True, "leader_id": -1}, {"isr": [1, 2], "under_replicated": True}
    wrong = [
        offline,
        small | {"under_min_isr": True, "isr": [1]},
        small,
        {"stalled_ms": 40_000, "holding_replicas": [2]},
    ]
    names = [f"{'eu-central-payments' if n % 3 else 'us'}-{n:03}" for n in range(clusters)]
    states = [wrong[n // 5 % 4] if n % 5 == 0 else {} for n in range(clusters)]
    rows = [health("orders", 0, cluster=name, **more) for name, more in zip(names, states, strict=True)]
    write(lake, "partition_health", *rows)
    progress = {"event_type": "progress", "partition": -1, "level": 3, "topic": None, "ts": at(60)}
    brokers = [{"broker_id": b, "source_id": f"broker-{b}/server.log"} for b in (1, 2, 3)]
    write(lake, "replication_events", *(progress | one | {"cluster": name} for name in names for one in brokers))
    stretch = {"kind": "terms", "from_ts": at(-7 * 86_400), "to_ts": at(60)}
    write(lake, "coverage", *(stretch | one | {"cluster": name} for name in names for one in brokers))
    write(lake, "hw_regressions", *(loss(ts=at(-n), cluster=names[n]) for n in (7, 20)))
    rules = ("offline", "under_min_isr", "at_risk")
    told = [(n, rules[n // 5 % 4]) for n in range(0, clusters, 5) if n // 5 % 4 < 3]
    firing = {"severity": "critical", "state": "firing", "last_ts": at(60), "summary": "x"}
    each = [{"rule": rule, "first_ts": at(-60 * n), "alert_id": f"{n:016}"} for n, rule in told]
    labels = [{"labels": [("cluster", names[n])]} for n, _ in told]
    write(lake, "alerts", *(firing | one | label for one, label in zip(each, labels, strict=True)))
    job_has_read(lake)
    write(lake, "replication_events", *(progress | brokers[0] | {"cluster": f"new-{n}"} for n in range(3)))


def take(folder, views):
    """Screenshots of views (all by default) of each lake, at a desk in light and on a phone in dark; the fleet's, too.

    A view that is named with `+` has the other theme instead.
    """
    from playwright.sync_api import sync_playwright

    from tests.web.serving import served

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for kind in (*KINDS, "fleet"):
            lake = str(Path(folder) / "lakes" / kind)
            if not Path(lake).exists():
                write_fleet(lake) if kind == "fleet" else write_lake(lake, kind)
            every = {"fleet": "/"} if kind == "fleet" else VIEWS
            with served(lake, refresh_s=3600, now=lambda: NOW) as url:
                for name in views or every:
                    view, shades = name.rstrip("+"), ("dark", "light") if name.endswith("+") else ("light", "dark")
                    if view not in every or (view, kind) == ("incident", "healthy"):
                        continue
                    for width, theme, height in ((1440, shades[0], 900), (390, shades[1], 844)):
                        page = browser.new_context(
                            viewport={"width": width, "height": height}, color_scheme=theme
                        ).new_page()
                        page.goto(url + every[view])
                        if page.locator("[data-spec]").count():
                            page.locator("[data-spec]:not(:empty)").first.wait_for(timeout=60_000)
                        page.screenshot(path=f"{folder}/{name}-{kind}-{width}.png", full_page=True)
                        page.context.close()
        browser.close()


if __name__ == "__main__":
    take(sys.argv[1], sys.argv[2:])
