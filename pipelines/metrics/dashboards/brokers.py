"""The dashboard of brokers."""

from __future__ import annotations

from pipelines.metrics.dashboards.panels import Board, Panel, Query, of

BROKERS = Board(
    "hwmark-brokers",
    "hwmark: brokers",
    "Who leads, who is behind, who holds back whom, and what one more failure would do.",
    {
        "Brokers": (
            Panel(
                "Partitions that stand so because of a broker",
                "It is missing, holds back, is out of sync, or led them and reports nothing (unknown).",
                (
                    Query(
                        f"sum by (cluster, broker, condition) ({of('broker_partitions')}) > 0",
                        "{{cluster}}: broker {{broker}}, {{condition}}",
                    ),
                ),
                kind="stack",
                width=12,
                none="none, as far as partitions are known",
            ),
            Panel(
                "Racks and states",
                "As server.properties, registrations and controllers name them.",
                (Query(of("broker_info")),),
                kind="table",
                width=12,
            ),
            Panel(
                "Replicas",
                "By whether the broker leads their partition.",
                (Query(of("broker_replicas"), "{{cluster}}: broker {{broker}}, {{role}}"),),
                kind="stack",
            ),
            Panel(
                "Replicas outside the ISR",
                "Of each broker.",
                (Query(of("broker_outside_isr_replicas"), "{{cluster}}: broker {{broker}}"),),
                kind="stack",
            ),
            Panel(
                "One failure away",
                "Partitions that the failure of the broker leaves under min ISR, and those with it alone in the ISR.",
                (
                    Query(of("broker_at_min_isr_partitions"), "{{cluster}}: broker {{broker}}, under min ISR"),
                    Query(of("broker_sole_isr_partitions"), "{{cluster}}: broker {{broker}}, alone"),
                ),
            ),
        ),
        "Lag": (
            Panel(
                "Lag",
                "Largest lag of a replica of the broker, in records.",
                (Query(of("broker_lag_records"), "{{cluster}}: broker {{broker}}"),),
            ),
            Panel(
                "Not caught up for",
                "Longest time since a replica of the broker was caught up.",
                (Query(of("broker_lag_seconds"), "{{cluster}}: broker {{broker}}"),),
                "s",
            ),
            Panel(
                "Replicas behind, and not known",
                "Replicas below their leader's LEO, and those whose LEO is not known.",
                (
                    Query(of("broker_replicas_behind"), "{{cluster}}: broker {{broker}}, behind"),
                    Query(of("broker_leo_unknown_replicas"), "{{cluster}}: broker {{broker}}, not known"),
                ),
            ),
            Panel(
                "Append to HW, p99",
                "On the leading broker, in the last whole minute judged.",
                (
                    Query(
                        of("broker_append_to_hw_seconds", 'quantile="0.99"'), "{{cluster}}: broker {{broker}}"
                    ),
                ),
                "s",
                width=12,
            ),
            Panel(
                "Followers behind at their fetches",
                "Of the leading broker, in the last whole minute judged, in records.",
                (
                    Query(
                        of("broker_fetch_lag_records"), "{{cluster}}: broker {{broker}}, {{quantile}}"
                    ),
                ),
                width=12,
            ),
        ),
    },
)  # fmt: skip
