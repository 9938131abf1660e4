"""The dashboard of clusters."""

from __future__ import annotations

from pipelines.metrics.dashboards.panels import KNOWN, LIVE, WINDOW, Board, Panel, Query, of, rate

CLUSTERS = Board(
    "hwmark-clusters",
    "hwmark: clusters",
    "Whether each cluster is judged, how its partitions stand, what was lost, and how well it is seen.",
    {
        "Verdict": (
            Panel(
                "State",
                "Every state that the verdict has a sentence of; `hwmark show verdict` has the sentences.",
                (Query(f"{of('cluster_state')} == 1"),),
                kind="table",
            ),
            Panel(
                "Alerts that fire",
                "As `hwmark check` last found them; conf/alerts.toml has the rules.",
                (Query(f"{of('alerts_firing')} > 0"),),
                kind="table",
                none="none, as far as `hwmark check` runs",
            ),
            Panel(
                "Lost in the last 24 hours judged",
                "Offsets known to be gone, at least so many, and partitions of which a loss is not excluded.",
                (
                    Query(
                        f"sum by (cluster) ({of('lost_offsets', KNOWN)}) "
                        f"or 0 * sum by (cluster) ({of('cluster_ended')})",
                        "{{cluster}}: offsets lost",
                    ),
                    Query(of("partitions_with_loss", 'severity="warning"'), "{{cluster}}: partitions, perhaps"),
                    Query(of("partitions_loss_not_excluded"), "{{cluster}}: partitions, not excluded"),
                ),
                kind="number",
            ),
            Panel(
                "Judged up to, ago",
                "How far event time is behind the wall clock; clusters that have ended are left out.",
                (Query(f"time() - {of('judged_until_timestamp_seconds')} {LIVE}", "{{cluster}}"),),
                "s",
                none="every cluster has ended",
            ),
            Panel(
                "Unread",
                "Events in bronze that `hwmark run` has not read.",
                (Query(of("unread_events"), "{{cluster}}"),),
            ),
            Panel(
                "Falls of a HW an hour",
                "By class; unclean_loss, committed_loss and hw_moved_back are losses.",
                (Query(f"sum by (class) (increase({of('hw_regressions_total')}[1h]))", "{{class}}"),),
            ),
        ),
        "Partitions": (
            Panel(
                "How the partitions stand",
                "Each counts once, as the worst that holds; unknown, not judged and ended ones have no present.",
                (Query(f"sum by (condition) ({of('partitions')})", "{{condition}}"),),
                kind="stack",
                width=12,
            ),
            Panel(
                "ISR changes a second",
                "By cause.",
                (
                    Query(rate("isr_shrinks_total", "cause"), "shrink: {{cause}}"),
                    Query(rate("isr_expands_total", "cause"), "expand: {{cause}}"),
                ),
                "ops",
                width=12,
            ),
            Panel(
                "Worst partitions",
                "The partitions in trouble, at most `[metrics] worst_partitions` of them.",
                (Query(of("worst_partition_info")),),
                kind="table",
                none="none in trouble is known",
            ),
            Panel(
                "Worst partitions: HW stands for",
                "Where it is known.",
                (Query(of("worst_partition_stalled_seconds")),),
                "s",
                kind="table",
                none="none in trouble is known",
            ),
            Panel(
                "Worst partitions: lag",
                "Largest lag of a replica of each, in records.",
                (Query(of("worst_partition_lag_records")),),
                kind="table",
                none="none in trouble is known",
            ),
            Panel(
                "Append to HW",
                "How long records waited until they were committed.",
                tuple(
                    Query(f"histogram_quantile({q}, {rate('append_to_hw_seconds_bucket', 'le')})", f"p{q * 100:g}")
                    for q in (0.5, 0.95, 0.99)
                ),
                "s",
                width=24,
            ),
        ),
        "Telemetry": (
            Panel(
                "Reported up to, ago",
                "Of each broker the source that is furthest behind; broker -1 is the metadata log.",
                (
                    Query(
                        f"time() - {of('source_reported_until_timestamp_seconds')} {LIVE}",
                        "{{cluster}}: broker {{broker}}",
                    ),
                ),
                "s",
                none="every cluster has ended",
            ),
            Panel(
                "Silent sources",
                "How partitions stand that their brokers lead is not known.",
                (Query(f"sum by (cluster) ({of('sources_silent')})", "{{cluster}}"),),
            ),
            Panel(
                "Partitions by level",
                "What the telemetry of their leaders can tell: 0 stock logs to 3 full TRACE.",
                (Query(f"sum by (level) ({of('partitions_by_level')})", "level {{level}}"),),
                kind="stack",
            ),
            Panel(
                "Gaps in the last 24 hours judged",
                "Telemetry that is missing, late or begun anew, clocks that are wrong, and lines not understood.",
                (
                    Query(f"sum by (kind) ({of('telemetry_gaps')})", "{{kind}}"),
                    Query(f"sum({of('lines_not_understood')})", "lines not understood"),
                ),
            ),
            Panel(
                "Events a second",
                "Telemetry events that were read, and those that came late.",
                (
                    Query(rate("telemetry_events_total", "cluster"), "{{cluster}}"),
                    Query(rate("late_events_total", "cluster"), "{{cluster}}: late"),
                    Query(rate("gaps_total", "cluster"), "{{cluster}}: gaps"),
                ),
                "ops",
                width=16,
            ),
        ),
        "hwmark": (
            Panel(
                "Lake",
                "Whether its tables can be read.",
                (Query("hwmark_lake_up", "{{instance}}"),),
                kind="number",
                width=4,
            ),
            Panel(
                "Ran, ago",
                "When `hwmark run` last committed, and when `hwmark check` last ran.",
                (
                    Query("time() - hwmark_run_committed_timestamp_seconds", "run"),
                    Query("time() - hwmark_check_timestamp_seconds", "check"),
                ),
                "s",
                kind="number",
                width=6,
            ),
            Panel(
                "Expectations that failed",
                "When they last had something to judge.",
                (Query("hwmark_expectation_met == 0"),),
                kind="table",
                width=6,
                none="none, as far as `hwmark check` runs",
            ),
            Panel(
                "Reading the lake",
                "How long the last reading took, and how many there are a second.",
                (
                    Query("hwmark_lake_reading_seconds", "last, seconds"),
                    Query(f"rate(hwmark_lake_readings_total{WINDOW})", "a second"),
                ),
                width=4,
            ),
            Panel(
                "Memory",
                "Of the process that is scraped.",
                (Query("process_resident_memory_bytes and on (instance) hwmark_build_info", "{{instance}}"),),
                "bytes",
                width=4,
            ),
        ),
    },
)
