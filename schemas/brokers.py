"""`gold/brokers`: the present state of one broker, and what its replicas do to others."""

from schemas.declaration import Column, Table

CUT_OFF = "no broker answers: the watcher is cut off, or all are down"
"""The reason of a state that nobody can tell from one place."""

TABLE = Table(
    "gold/brokers",
    "the present state of one broker, and what its replicas do to others",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("broker_id", "int", "broker id", null=False),
        Column("ts", "timestamp", "up to when its cluster's telemetry was reconstructed, event time"),
        Column("rack", "string", "broker.rack; null: not known"),
        Column(
            "state",
            "string",
            "answers, no_answer, not_reached (from here), not_in_metadata (though it answers), fenced, stopping, down, "
            "unregistered or unknown; null: written before states were told",
        ),
        Column("state_ts", "timestamp", "since when it is in that state"),
        Column("broker_epoch", "bigint", "its incarnation, as the controller numbers them"),
        Column("restarting_since", "timestamp", "since when a controlled restart is under way; null: none is known"),
        Column("level", "int", "lowest telemetry level at which it reports what it leads; null: it led nothing yet"),
        Column("replicas", "bigint", "replicas assigned to it", null=False),
        Column("led", "bigint", "partitions it leads", null=False),
        Column("followed", "bigint", "replicas of it that another broker leads", null=False),
        Column("outside_isr", "bigint", "replicas of it outside the ISR", null=False),
        Column("isr_unknown", "bigint", "replicas of it of whose partition the ISR is not known", null=False),
        Column("leo_unknown", "bigint", "replicas of it that follow and whose LEO is not known", null=False),
        Column(
            "out_of_sync",
            "bigint",
            "replicas of it out of sync by Kafka's rule, in the ISR or not; null: no LEO of it is known",
        ),
        Column(
            "holds_back",
            "bigint",
            "partitions whose HW has stood for more than 10 s at its LEO, below the leader's; null: no LEO of it is known",
        ),
        Column("holds_back_records", "bigint", "of these: offsets between the HW and the leader's LEO"),
        Column("holds_back_of", "map<string,bigint>", "of these: how many each other broker leads, by its id"),
        Column("led_under_replicated", "bigint", "partitions it leads with fewer in sync than assigned", null=False),
        Column("led_under_min_isr", "bigint", "partitions it leads under min ISR", null=False),
        Column("led_held_back", "bigint", "partitions it leads whose HW has stood for more than 10 s", null=False),
        Column("sole_isr", "bigint", "partitions with it alone in the ISR and other replicas behind", null=False),
        Column("at_min_isr", "bigint", "partitions that its failure leaves under min ISR, those apart", null=False),
        Column("lag_records", "bigint", "largest lag of its replicas; null: none is known"),
        Column("lag_ms", "bigint", "largest time since one of them was caught up; null: none is known"),
        Column("since", "timestamp", "since when it is in that state; null: not known"),
        Column("reason", "string", "how its state is known"),
        Column("witness", "string", "who told it: watcher, log, or watcher and log; null: nobody"),
        Column("quorum", "string", "what a watcher was told last of its cluster's controllers; null: it was not asked"),
        Column("quorum_since", "timestamp", "since when it has been told the same"),
        Column("last_reported_ts", "timestamp", "last event that its own telemetry reported; null: it reports nothing"),
    ),
    key=("cluster", "broker_id"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
