"""`ops/deliveries`: one step in sending a notification."""

from schemas.declaration import Column, Table

TABLE = Table(
    "ops/deliveries",
    "one step in sending one notification to one channel",
    (
        Column("channel", "string", "the Alertmanager or channel, as [notify] names it", null=False),
        Column("outcome", "string", "began, sending, sent, failed or skipped", null=False),
        Column("attempt", "int", "number of the attempt; of the channel as a whole since it last worked", null=False),
        Column("sent_at", "timestamp", "when, wall clock", null=False),
        Column("alert_id", "string", "the alert; null: of the channel as a whole"),
        Column("episode", "timestamp", "first_ts of the alert's state: which of its episodes"),
        Column("rule", "string", "the rule that fired"),
        Column("state", "string", "the state that was sent: firing or resolved"),
        Column("key", "string", "stands in the notification: what has the same key is the same notification"),
        Column("error", "string", "why it failed, or was skipped"),
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
