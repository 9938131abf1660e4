"""Lakes for tests of the page."""

from tests.unit.project.lakes import at, health, job_has_read, loss, reported, write

NOW = at(85)
EVIL = "<img src=x onerror=alert(1)>\"'&\x1b[2J\u202e{{7*7}}"
WHERE = "cluster=prod&topic=clicks&partition=0"
ALERT = "alert?cluster=prod&alert_id=a1b2"
INCIDENT = "incident?cluster=prod&alert_id=a1b2"
BROKER = "broker?cluster=prod&broker=2"
TOPIC = "topic?cluster=prod&topic=clicks"
ANSWERS = (
    "verdict", "overview", "incidents", INCIDENT, "brokers", BROKER, "topics", TOPIC, "partitions",
    f"partition?{WHERE}", "quality",
)  # fmt: skip
PAGES = ("/", f"/{ALERT}", *(f"/{name}" for name in ANSWERS[2:]))


def alert(**more):
    row = {"alert_id": "a1b2", "rule": "loss", "severity": "critical", "state": "firing", "subject": "clicks-0"}
    labels = [("cluster", "prod"), ("topic", "clicks"), ("partitions", "clicks-0"), ("loss", "r1")]
    return row | {"first_ts": at(30), "last_ts": at(31), "summary": "prod: LOST: 180 offsets", "labels": labels} | more


def incident(lake, **names):
    """A loss, a replica that holds a HW back, another out of sync, a gap, quarantine, an alert and a failed check."""
    held = {"stalled_ms": 12_000, "hw": 90, "holding_replicas": [2], "out_of_sync": [2]}
    partitions = [
        health("clicks", 0, leader_id=2),
        health("orders", 0, **held),
        health("orders", 1),
        health("orders", 2, isr=[1, 2], under_replicated=True),
    ]
    write(lake, "partition_health", *(row | names for row in partitions))
    write(lake, "hw_regressions", loss(ts=at(30), evidence='{"hw":{"broker":1,"offset":300}}') | names)
    advance = {"kind": "advance", "topic": "clicks", "leader_id": 1, "isr": [1, 2]}
    write(
        lake,
        "partition_hw",
        *(advance | {"ts": at(s), "hw": 10 * s, "leader_leo": 10 * s} | names for s in range(1, 31)),
    )
    shrink = {"change": "shrink", "cause": "lag", "removed": [2], "added": [], "isr_before": [1, 2], "isr_after": [1]}
    write(lake, "isr_changes", shrink | {"topic": "clicks", "ts": at(20), "partition_epoch": 2, "revision": 1} | names)
    write(lake, "telemetry_gaps", {"kind": "gap", "source_id": "broker-1/server.log", "ts": at(40)} | cluster_of(names))
    minute = {"broker_id": 1, "minute": at(0), "max_lag_records": 5, "under_replicated": 1, "append_to_hw_p99_ms": 9.5}
    write(lake, "broker_minute", minute | cluster_of(names), minute | {"minute": at(60)} | cluster_of(names))
    write(lake, "quarantine", {"cluster": "prod", "reasons": ["offset -7 is below -1"]} | cluster_of(names))
    write(
        lake, "quality_results", {"suite": "bronze", "expectation": "isr_within_ar", "success": False, "unexpected": 3}
    )
    write(
        lake,
        "alerts",
        alert(
            **(
                {"labels": [("cluster", names["cluster"]), ("loss", "r1")], "summary": names["cluster"]}
                if names
                else {}
            )
        ),
    )
    reported(lake, 1, 2, 3, **cluster_of(names))
    job_has_read(lake)


def cluster_of(names):
    return {name: value for name, value in names.items() if name == "cluster"}
