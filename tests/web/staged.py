"""Four lakes of one cluster at the table level, for looking at the page: healthy, a broker gone, LOST, cut off.

python -m tests.web.staged FOLDER [VIEW ...]    screenshots of every view of each, 1440 light and 390 dark
"""

import sys
from datetime import timedelta
from pathlib import Path

from schemas.brokers import CUT_OFF
from tests.unit.project.lakes import at, health, job_has_read, loss, write
from tests.web.lakes import NOW

TOPICS = {"audit": 4, "clicks": 48, "orders": 12, "payments-settlement-reconciliation-eu-central": 6}
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
    "fleet": "/",
}
KINDS = ("healthy", "gone", "lost", "cut_off")
GONE = at(-240)
"""When broker 2 is killed."""


def write_lake(lake, kind):
    """One of KINDS; a minute ago all was read."""
    gone, lost, cut = (kind == one for one in KINDS[1:])
    led = {n: [] for n in RACKS}
    partitions = []
    for topic, size in TOPICS.items():
        for n in range(size):
            leader = 1 + n % 3
            values = _gone(topic, n, leader) if gone else {"leader_id": leader}
            if lost and (topic, n) == ("clicks", 0):
                values = {"leader_id": 2, "hw": 5030, "leader_leo": 5031, "leader_epoch": 5}
            led.setdefault(values["leader_id"], []).append((topic, n))
            base = {"hw": 5210 + n, "leader_leo": 5210 + n, "level": 1, "last_event_ts": GONE if cut else at(80)}
            partitions.append(health(topic, n, **base | values))
    write(lake, "partition_health", *partitions)
    write(lake, "brokers", *(_broker(n, kind, led.get(n, ())) for n in RACKS))
    write(lake, "cluster_minute", *(_minute(n, kind) for n in range(-70, -4 if cut else 2)))
    write(lake, "broker_lag", *(_interval(n, broker) for n in range(-70, -4 if cut else 2) for broker in RACKS))
    window = {"brokers": [2], "begins": at(-3600), "until": at(-3000), "reason": "upgrade to 4.1", "author": "ops"}
    write(lake, "downtimes", window)
    _told_before(lake)
    _events(lake, kind)
    _silver(lake, kind)
    if gone:
        _told(
            lake,
            "offline",
            "critical",
            "prod: OFFLINE: broker 2 gone: 1 of 70 partitions offline",
            "audit-1",
            brokers="2",
            summary="OFFLINE prod: broker 2, 1 partition of audit",
            more=["at_risk"],
        )
    if lost:
        _told(
            lake,
            "loss",
            "critical",
            "prod: LOST: 180 offsets in 1 partition: unclean election of broker 2 after broker 1",
            "clicks-0",
            loss="r1",
            offsets="180",
            summary="LOST prod: unclean election, 180 offsets of clicks",
        )
        write(
            lake,
            "hw_regressions",
            loss(
                ts=at(-200),
                leader_epoch=5,
                leader_epoch_before=4,
                hw_before=5183,
                hw_after=5003,
                lost_from=5003,
                lost_to=5183,
                level=1,
                evidence='{"hw":{"broker":1,"offset":5183}}',
            ),
        )
    if cut:
        _told(
            lake,
            "watcher_cut_off",
            "warning",
            "prod: NOT JUDGED: no broker has answered the watcher",
            "prod",
            partitions="",
            summary="WATCHER CUT OFF hwmark: prod",
            cluster="",
        )
    job_has_read(lake)


def _gone(topic, n, leader):
    if topic == "audit" and n == 1:
        return {"leader_id": -1, "offline": True, "ar": [2], "isr": [2], "min_isr": 1}
    led = 1 if leader == 2 else leader
    small = {"isr": [1, 3], "osr": [2], "under_replicated": True, "one_failure_away": "under_min_isr"}
    return {"leader_id": led, "leader_epoch": 5} | small


def _broker(n, kind, led):
    row = {
        "cluster": "prod", "broker_id": n, "rack": RACKS[n], "replicas": 70, "led": len(led), "followed": 70 - len(led),
        "ts": at(80), "state": "answers", "since": at(-7200), "level": 1, "witness": "watcher", "lag_records": 2,
        "holds_back": 0, "out_of_sync": 0, "last_reported_ts": at(80), "quorum": "quorum: 3 voters, 3 caught up",
        "quorum_since": at(-7200),
    }  # fmt: skip
    if kind == "gone" and n == 2:
        gone = {"state": "no_answer", "since": GONE, "reason": "refused", "last_reported_ts": GONE, "lag_records": None}
        return row | gone | {"outside_isr": 69, "followed": 70, "quorum": None}
    if kind == "cut_off":
        unsure = {"state": "unknown", "since": GONE, "reason": CUT_OFF, "ts": GONE, "last_reported_ts": GONE}
        return row | unsure
    return row


def _interval(n, broker):
    held = {"led_held_back": 2 if broker == 3 and n in (-31, -30) else 0}
    lag = {"followed": 47, "level": 1, "lag_records": 48 * (n % 2), "lag_ms": 900}
    return {"cluster": "prod", "broker_id": broker, "ts": at(60 * n)} | lag | held


def _minute(n, kind):
    names = ("offline", "under_min_isr", "under_replicated")
    none = dict.fromkeys([*names, *(f"{name}_max" for name in names)], 0)
    row = none | {"cluster": "prod", "minute": at(0) + timedelta(minutes=n), "partitions": 70}
    if kind == "gone" and n >= -4:
        row |= {
            "offline": 1,
            "offline_max": 1,
            "under_replicated": 69,
            "under_replicated_max": 69,
            "under_min_isr_max": 2 * (n == -4),
        }
    if kind == "lost" and -8 <= n <= -3:
        row |= {"offline_max": 1, "offline": int(n < -3), "under_replicated_max": 5, "under_replicated": 5}
    return row


def _events(lake, kind):
    row = {"cluster": "prod", "event_type": "progress", "partition": -1, "level": 1, "topic": None}
    to = at(80) if kind != "cut_off" else GONE
    sources = [{"broker_id": n, "source_id": f"watch/main/broker-{n}"} for n in RACKS]
    told = [row | source | {"ts": GONE if kind == "gone" and source["broker_id"] == 2 else to} for source in sources]
    state = row | {"event_type": "broker_state", "detail": "answers"}
    told += [state | source | {"ts": at(-7200), "replica_id": source["broker_id"]} for source in sources]
    if kind in ("gone", "cut_off"):
        which = sources if kind == "cut_off" else [sources[1]]
        told += [
            state | one | {"ts": GONE, "detail": "no_answer: refused", "replica_id": one["broker_id"]} for one in which
        ]
    write(lake, "replication_events", *told)
    stretch = {"cluster": "prod", "from_ts": at(-7 * 86_400), "level": 1}
    ends = {n: GONE if kind == "gone" and n == 2 else to for n in RACKS}
    kinds = [source | {"kind": name} for source in sources for name in ("terms", "hw", "isr")]
    write(lake, "coverage", *(stretch | one | {"to_ts": ends[one["broker_id"]]} for one in kinds))
    leads = [{"broker_id": n, "partitions": 23} for n in RACKS]
    write(lake, "broker_minute", *(one | {"minute": at(60 * n)} for one in leads for n in range(-70, 1)))


def _silver(lake, kind):
    advance = {"kind": "advance", "topic": "clicks", "leader_id": 1, "isr": [1, 2, 3], "leader_epoch": 4, "level": 1}
    start = advance | {"kind": "term_start", "ts": at(-3500), "hw": 4853, "leader_leo": 4853}
    last = {"healthy": 357, "gone": 357, "lost": 330, "cut_off": 326}[kind]
    write(
        lake,
        "partition_hw",
        start,
        *(
            advance | {"ts": at(-3500 + 10 * s), "hw": 4853 + s, "leader_leo": 4853 + s + s % 3}
            for s in range(1, last + 1)
        ),
    )
    follows = {"state": "in_sync", "topic": "clicks", "leader_id": 1}
    write(
        lake,
        "replica_sync",
        *(
            follows | {"ts": at(-3500 + 100 * s), "replica_id": n, "leo": 4853 + 10 * s}
            for s in range(1, last // 10 + 1)
            for n in (2, 3)
        ),
    )
    if kind == "gone":
        shrink = {
            "change": "shrink",
            "cause": "controller_fenced",
            "removed": [2],
            "added": [],
            "isr_before": [1, 2, 3],
            "isr_after": [1, 3],
        }
        row = shrink | {"leader_id": 1, "leader_epoch": 4, "revision": 1}
        write(
            lake,
            "isr_changes",
            *(
                row | {"topic": "clicks", "partition": n, "ts": GONE + timedelta(seconds=5), "partition_epoch": 7}
                for n in range(48)
            ),
        )
    if kind == "lost":
        write(
            lake,
            "partition_hw",
            advance
            | {
                "kind": "term_start",
                "ts": at(-200),
                "leader_id": 2,
                "hw": 5003,
                "leader_leo": 5003,
                "leader_epoch": 5,
                "isr": [2],
            },
            *(
                advance
                | {"ts": at(-200 + 10 * s), "leader_id": 2, "hw": 5003 + s, "leader_leo": 5004 + s, "leader_epoch": 5}
                for s in range(1, 28)
            ),
        )
        left = {"change": "shrink", "cause": "lag", "topic": "clicks", "added": [], "leader_id": 1, "revision": 1}
        write(
            lake,
            "isr_changes",
            *(
                left | {"ts": at(-560 + 10 * n), "removed": [b], "isr_before": before, "isr_after": after} | epochs
                for n, (b, before, after, epochs) in enumerate(
                    [
                        (2, [1, 2, 3], [1, 3], {"partition_epoch": 6, "leader_epoch": 4}),
                        (3, [1, 3], [1], {"partition_epoch": 7, "leader_epoch": 4}),
                    ]
                )
            ),
        )
        election = {
            "event_type": "election",
            "topic": "clicks",
            "partition": 0,
            "broker_id": 100,
            "source_id": "controller",
        }
        write(
            lake,
            "replication_events",
            election | {"ts": at(-480), "leader_id": -1, "leader_epoch": 4},
            election | {"ts": at(-200), "leader_id": 2, "leader_epoch": 5},
        )


def _told(lake, rule, severity, text, names, *, summary, more=(), cluster="prod", **labels):
    labels = {"cluster": "prod", "partitions": names, "count": "1"} | labels
    first = GONE if rule != "loss" else at(-200)
    row = {
        "rule": rule,
        "severity": severity,
        "state": "firing",
        "subject": names,
        "first_ts": first,
        "last_ts": at(80),
        "summary": text,
    }
    ids = [f"{rule:a<16}"[:16].replace("_", "0")]
    write(lake, "alerts", row | {"alert_id": ids[0], "labels": [(k, v) for k, v in labels.items() if v]})
    for other in more:
        ids.append(f"{other:b<16}"[:16].replace("_", "0"))
        said = (
            "prod: AT RISK: broker 2 does not answer since 2026-09-01 11:56:00 UTC: 69 of 70 partitions have a replica "
        )
        said += "less to count on"
        brokers = {
            "cluster": "prod",
            "brokers": "2",
            "partitions": ", ".join(f"clicks-{n}" for n in range(48)),
            "count": "69",
        }
        write(
            lake,
            "alerts",
            row
            | {
                "alert_id": ids[-1],
                "rule": other,
                "severity": "warning",
                "summary": said,
                "labels": list(brokers.items()),
            },
        )
    partitions = ([names] if "-" in names else []) + [f"clicks-{n}" for n in range(48) if more]
    row = {
        "incident_id": "3f2a9c0d11aa22bb", "cluster": cluster, "severity": severity, "state": "open", "cause": rule,
        "subject": names, "first_ts": first, "last_ts": at(80), "summary": summary, "alert_ids": ids, "firing": ids,
        "brokers": [2] if more else [], "topics": sorted({one.rpartition("-")[0] for one in partitions}),
        "partitions": partitions, "offline": int(bool(more)), "written_at": at(70),
        "groups": ["billing", "fraud"] if rule == "loss" else None,
        "lost_offsets": 180 if rule == "loss" else None,
    }  # fmt: skip
    write(lake, "incidents", row)
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
    """Screenshots of views (all by default) of each lake, at a desk in light and on a phone in dark."""
    from playwright.sync_api import sync_playwright

    from tests.web.serving import served

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for kind in KINDS:
            lake = str(Path(folder) / "lakes" / kind)
            if not Path(lake).exists():
                write_lake(lake, kind)
            with served(lake, refresh_s=3600, now=lambda: NOW) as url:
                for name in views or VIEWS:
                    if name == "incident" and kind == "healthy":
                        continue
                    for width, theme, height in ((1440, "light", 900), (390, "dark", 844)):
                        page = browser.new_context(
                            viewport={"width": width, "height": height}, color_scheme=theme
                        ).new_page()
                        page.goto(url + VIEWS[name])
                        if page.locator("[data-spec]").count():
                            page.wait_for_timeout(2500)
                        page.screenshot(path=f"{folder}/{name}-{kind}-{width}.png", full_page=True)
                        page.context.close()
        browser.close()


if __name__ == "__main__":
    take(sys.argv[1], sys.argv[2:])
