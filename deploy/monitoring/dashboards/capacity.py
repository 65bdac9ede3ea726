"""Capacity and scaling: who can still be let in, what it costs, and what holds the fleet up."""

from deploy.monitoring.dashboards.panels import (
    PER_SECOND,
    Board,
    Panel,
    Query,
    Row,
    level,
    quantiles,
    rates,
    total,
)

_STAGES = 'service=~"asr|llm|tts|face"'

_ROOM = Row(
    "Room",
    (
        Panel(
            "Slots in use",
            "Sessions attached, by service.",
            "short",
            level("attached_sessions", "service", _STAGES),
        ),
        Panel(
            "Slots",
            "Sessions that all replicas of a service take at most.",
            "short",
            level("slots", "service", _STAGES),
        ),
        Panel(
            "Free, as predicted",
            "Sessions more that each service would take now; the smallest decides.",
            "short",
            level("admission_free_slots", "service", _STAGES),
        ),
        Panel(
            "Sessions",
            "Open now, and visitors who wait in line.",
            "short",
            (
                Query("sum(gateway_sessions)", "sessions"),
                Query("sum(gateway_queue_length)", "waiting"),
            ),
        ),
        Panel(
            "Let in and refused",
            "In a second: sessions begun, visitors refused by the gateway, attaches refused by "
            "replicas.",
            PER_SECOND,
            (
                total("gateway_sessions_begun_total", "begun"),
                total("gateway_refused_total", "refused"),
                total("admission_refusals_total", "refused by a replica"),
            ),
        ),
        Panel(
            "Asked for a session and refused",
            "In a second, by status and reason. 429 at_capacity: deadlines would not hold; 503: a "
            "gateway that drains or is full, a stage that is away, no bus.",
            PER_SECOND,
            rates("gateway_session_refusals_total", "status, reason"),
        ),
        Panel(
            "The waiting line",
            "From joining it to the session.",
            "s",
            quantiles("gateway_queue_wait_seconds"),
        ),
        Panel(
            "Places in line that ended",
            "In a second, by how.",
            PER_SECOND,
            rates("gateway_queue_ended_total", "how"),
        ),
        Panel(
            "Wait as told, of the wait as it was",
            "1 is right, less is a promise that was not held.",
            "short",
            quantiles("gateway_queue_told_ratio"),
        ),
    ),
)

_ADMISSION = Row(
    "Admission",
    (
        Panel(
            "Slack",
            "Share of the deadline that would be left with one session more; below 0 none is let "
            "in where admission is predicted. What is below -100 % is shown as -100 %.",
            "percentunit",
            (
                Query(
                    f"clamp_min(min by (service) (admission_slack_ratio{{{_STAGES}}}), -1)",
                    "{{service}}",
                ),
            ),
        ),
        Panel(
            "P95 of first units",
            "Measured lately, predicted with one session more, and alone.",
            "s",
            level("admission_first_p95_seconds", "service, figure", _STAGES, how="max"),
        ),
        Panel(
            "Work of one unit",
            "Of a lane, on an idle machine.",
            "s",
            level("admission_unit_cost_seconds", "service", _STAGES, how="avg"),
        ),
        Panel(
            "Units a session asks for",
            "In each second of its life.",
            "short",
            level("admission_units_per_second", "service", _STAGES, how="avg"),
        ),
        Panel(
            "Cores a session asks for",
            "Over its life, by service.",
            "short",
            level("admission_session_cores", "service", how="avg"),
        ),
        Panel(
            "Wait for a core",
            "Share of the time in which a process wanted one; sees neighbours, too.",
            "percentunit",
            level("admission_run_queue_share", "service", how="max"),
            limit=0.5,
        ),
    ),
)

_FLEET = Row(
    "Replicas",
    (
        Panel(
            "Processes that answer",
            "By service.",
            "short",
            level("up", "service", 'job="visavis"'),
        ),
        Panel(
            "Processes that drain",
            "They take nothing new and wait for the others.",
            "short",
            level("draining", "service"),
        ),
        Panel(
            "Processes that began",
            "In a quarter of an hour, by what they are, as found by the gateway that found most. "
            "More than three times as many as there are: they end again and again.",
            "short",
            (
                Query(
                    "max by (process) (increase(gateway_processes_met_total[15m]))",
                    "{{process}}",
                ),
            ),
        ),
        Panel(
            "Attaches to stages",
            "In a second, by result; lost and moved are what replicas' ends cost.",
            PER_SECOND,
            rates("gateway_stage_attach_total", "stage, result"),
        ),
        Panel(
            "Handed to other gateways",
            "Requests and sockets in a second.",
            PER_SECOND,
            rates("gateway_passed_on_total", "type"),
        ),
        Panel(
            "Work that began anew",
            "Lasting work of a process that failed, since it began.",
            "short",
            (Query("sum by (service, work) (background_restarts_total)", "{{service}}: {{work}}"),),
            limit=1,
        ),
        Panel(
            "Ticks of the gateway",
            "P95 of how late they run, and of one pass; a tick is 20 ms.",
            "s",
            (
                *quantiles("gateway_tick_late_seconds", "", "", 0.95),
                Query(
                    "histogram_quantile(0.95, sum by (le) "
                    "(rate(gateway_tick_pass_seconds_bucket[$__rate_interval])))",
                    "P95 of a pass",
                ),
            ),
            limit=0.02,
            columns=8,
        ),
        Panel(
            "Sessions in one pass of the ticker",
            "How many are due at once.",
            "short",
            quantiles("gateway_tick_sessions"),
            columns=8,
        ),
        Panel(
            "Standing still",
            "The longest in two minutes, while Python looked for garbage; a player has 0.1 s in "
            "reserve.",
            "s",
            (
                Query(
                    "histogram_quantile(1, sum by (le, service) "
                    "(increase(full_collection_seconds_bucket[2m])))",
                    "{{service}}",
                ),
            ),
            limit=0.05,
            columns=8,
        ),
        Panel(
            "CPU",
            "Cores, by service.",
            "short",
            (
                Query(
                    "sum by (service) (rate(process_cpu_seconds_total"
                    '{job="visavis"}[$__rate_interval]))',
                    "{{service}}",
                ),
            ),
            columns=12,
        ),
        Panel(
            "Memory",
            "Resident, by service.",
            "bytes",
            level("process_resident_memory_bytes", "service", 'job="visavis"'),
            columns=12,
        ),
    ),
)

_BUS = Row(
    "Bus",
    (
        Panel(
            "Chunks",
            "Published in a second, by kind.",
            PER_SECOND,
            rates("bus_published_chunks_total", "kind"),
        ),
        Panel(
            "Chunks received",
            "In a second, by kind; one that several read counts for each.",
            PER_SECOND,
            rates("bus_received_chunks_total", "kind"),
        ),
        Panel(
            "Chunks dropped, by why",
            "In a second. Stale is what an interruption leaves behind; full is too slow a reader.",
            PER_SECOND,
            rates("bus_dropped_chunks_total", "kind, reason"),
        ),
        Panel(
            "Chunks lost",
            "Holes in the numbers, in a second; none are wanted.",
            PER_SECOND,
            rates("bus_lost_chunks_total", "kind"),
            columns=12,
        ),
        Panel(
            "Connection came back",
            "Times, by service, since the processes began.",
            "short",
            (Query("sum by (service) (bus_reconnects_total)", "{{service}}"),),
            limit=1,
            columns=12,
        ),
    ),
)

CAPACITY = Board(
    "capacity",
    "visavis: capacity and scaling",
    "Who can still be let in, what visitors cost, and what holds the fleet up.",
    (_ROOM, _ADMISSION, _FLEET, _BUS),
)
