"""The other doors: live to many, rooms of comments, clients that speak others' protocols."""

from deploy.monitoring.dashboards.panels import (
    PER_SECOND,
    SECONDS_PER_SECOND,
    Board,
    Panel,
    Query,
    Row,
    level,
    quantiles,
    rates,
    total,
)

_LIVE = Row(
    "Going live",
    (
        Panel(
            "Targets of broadcasts",
            "Now, by protocol and state; waiting ones are tried again.",
            "short",
            level("gateway_broadcasts", "protocol, state"),
        ),
        Panel(
            "Targets that were lost",
            "Live before, and not now; in a second: tried again, and over, by how.",
            "short",
            (
                Query("sum by (protocol) (gateway_broadcasts_lost)", "lost {{protocol}}"),
                total("gateway_broadcast_reconnects_total", "tried again"),
                *rates("gateway_broadcasts_ended_total", "how"),
            ),
        ),
        Panel(
            "Pictures that targets did not get",
            "In a second, because their network was too slow.",
            PER_SECOND,
            rates("gateway_broadcast_dropped_pictures_total", "protocol"),
        ),
        Panel(
            "Viewers and streams",
            "Viewers now, by transport; sessions that are cut into HLS segments.",
            "short",
            (
                *level("gateway_viewers", "transport"),
                Query("sum(gateway_hls_streams)", "HLS streams"),
            ),
        ),
        Panel(
            "Sent",
            "Bytes in a second: to targets of broadcasts, and segments of HLS.",
            "Bps",
            (
                *rates("gateway_broadcast_bytes_total", "protocol"),
                total("gateway_hls_bytes_total", "hls"),
            ),
        ),
        Panel(
            "Viewers that lost something",
            "Times in a second that a slow viewer lost media.",
            PER_SECOND,
            rates("gateway_viewer_drops_total", "transport"),
        ),
    ),
)

_ROOMS = Row(
    "Live rooms",
    (
        Panel(
            "Comments by what became of them",
            "In a second: answered, merged with what others asked, expired, blocked and so on.",
            PER_SECOND,
            rates("gateway_room_comments_total", "outcome"),
        ),
        Panel(
            "Age of a comment as its answer begins",
            "From when a viewer sent it to the first sound; none begins after the room's limit.",
            "s",
            quantiles("gateway_room_answer_age_seconds"),
            limit=30.0,
        ),
        Panel(
            "Comments that wait",
            "In all rooms together; each has so many places.",
            "short",
            (Query("sum(gateway_room_waiting)", "waiting"),),
        ),
    ),
)

_OPENAI = Row(
    "OpenAI's clients",
    (
        Panel(
            "Realtime: clients",
            "Now, by transport.",
            "short",
            level("gateway_realtime_sessions", "transport"),
        ),
        Panel(
            "Realtime: responses",
            "In a second, by how they ended. Failed ones are ours.",
            PER_SECOND,
            rates("gateway_realtime_responses_total", "status"),
        ),
        Panel(
            "Realtime: errors",
            "In a second, by code. Most codes are mistakes of the client.",
            PER_SECOND,
            rates("gateway_realtime_errors_total", "code"),
        ),
        Panel(
            "HTTP: requests by route",
            "In a second.",
            PER_SECOND,
            rates("gateway_openai_requests_total", "route"),
        ),
        Panel(
            "HTTP: requests by status",
            "In a second. 429: no room, or over a limit; 499: the client left first; 5xx is ours.",
            PER_SECOND,
            rates("gateway_openai_requests_total", "status"),
        ),
        Panel(
            "HTTP: sound",
            "Seconds of sound in a second: spoken and heard.",
            SECONDS_PER_SECOND,
            rates("gateway_openai_audio_seconds_total", "direction"),
        ),
    ),
)

_OTHERS = Row(
    "Riva, Audio2Face, Wyoming",
    (
        Panel(
            "Calls of NVIDIA's clients",
            "In a second, by method and final status.",
            PER_SECOND,
            (
                Query(
                    'sum by (method, code) (rate(grpc_requests_total{method=~".+/.+"}'
                    "[$__rate_interval]))",
                    "{{method}} {{code}}",
                ),
            ),
        ),
        Panel(
            "Length of these calls",
            "P95 by method. A streaming call lasts as long as its sound.",
            "s",
            quantiles("grpc_request_seconds", "method", 'method=~".+/.+"', 0.95),
        ),
        Panel(
            "Requests of Wyoming's clients",
            "In a second, by kind and by how they ended.",
            PER_SECOND,
            rates("gateway_wyoming_requests_total", "kind, code"),
        ),
    ),
)

DOORS = Board(
    "doors",
    "visavis: the other doors",
    "Broadcasts, rooms of comments, and clients that speak the protocols of others.",
    (_LIVE, _ROOMS, _OPENAI, _OTHERS),
)
