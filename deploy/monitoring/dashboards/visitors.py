"""What visitors experience: the promises first, then what may be wrong with an answer."""

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
from deploy.monitoring.objectives import ASKED, OBJECTIVES

# Name of the objective, title, what the good share is called, columns.
_PROMISED = (
    ("answers_slow", "Answers that begin within a second", "in time", 5),
    ("turns_failed", "Turns that did not fail", "not failed", 5),
    ("visitors_refused", "Visitors who were let in", "let in", 5),
    ("pictures_late", "Pictures in time", "in time", 4),
    ("stages_gone", "Every kind of process is there", "there", 5),
)
_TARGETS = {objective.name: objective.target for objective in OBJECTIVES}

_PROMISES = Row(
    "What is promised",
    tuple(
        Panel(
            title,
            f"Share over the last hour; promised: {100 * _TARGETS[name]:g} %.",
            "percentunit",
            (Query(f"1 - visavis:{name}:ratio_rate1h", good),),
            limit=_TARGETS[name],
            figure=True,
            columns=columns,
        )
        for name, title, good, columns in _PROMISED
    ),
)

_ANSWERS = Row(
    "How soon an answer begins",
    (
        Panel(
            "Voice to voice",
            "End of the visitor's speech or text to the first sample of the answer. An exemplar "
            "names the turn.",
            "s",
            quantiles("voice_to_voice_seconds", "", ASKED, 0.5, 0.9, 0.95, 0.99),
            limit=1.0,
        ),
        Panel(
            "Voice to voice by how it was asked",
            "P95 of spoken and typed questions, and of welcomes.",
            "s",
            quantiles("voice_to_voice_seconds", "origin", "", 0.95),
            limit=1.0,
        ),
        Panel(
            "First picture",
            "End of the visitor's speech or text to the first lip-synced picture.",
            "s",
            quantiles("first_frame_seconds", "", ASKED),
            limit=1.0,
        ),
    ),
)

_MEDIA = Row(
    "Sound and picture",
    (
        Panel(
            "Gaps in the voice",
            "Underruns in a second of all answers together; none are wanted.",
            PER_SECOND,
            (total("gateway_voice_underruns_total", "underruns"),),
        ),
        Panel(
            "Late and lost pictures",
            "Pictures in a second that left after their time, or that nobody could have decoded.",
            PER_SECOND,
            (
                total("gateway_late_pictures_total", "late"),
                total("gateway_dropped_pictures_total", "dropped"),
            ),
        ),
        Panel(
            "Picture beside sound",
            "Skew as they leave, P95; good is under 15 ms.",
            "s",
            quantiles("av_skew_seconds", "picture", "", 0.95),
            limit=0.045,
        ),
        Panel(
            "Pictures that left",
            "Of a turn, live idle ones, and those of the loop in memory.",
            PER_SECOND,
            rates("gateway_pictures_total", "source"),
        ),
        Panel(
            "Viewers",
            "Now, by transport; by HLS those who have just asked for the playlist. Narrow: "
            "sessions whose pictures are coarser, for a network carries no more.",
            "short",
            (
                *level("gateway_viewers", "transport"),
                Query("sum(gateway_narrow_sessions)", "narrow"),
            ),
        ),
        Panel(
            "Viewers and microphones that lost something",
            "Times in a second that a slow viewer lost media; packets of microphones that were "
            "lost or late.",
            PER_SECOND,
            (
                *rates("gateway_viewer_drops_total", "transport"),
                Query(
                    "sum by (fate) (rate(gateway_mic_packets_total[$__rate_interval]))",
                    "microphone: {{fate}}",
                ),
            ),
        ),
    ),
)

_TURNS = Row(
    "Turns and interruptions",
    (
        Panel(
            "Turns by how they ended",
            "In a second. Discarded ones were prepared and never heard. By stage: those that went "
            "on in their midst with another replica of it, or the same that was started again.",
            PER_SECOND,
            (
                *rates("gateway_turns_total", "outcome"),
                *rates("gateway_turns_resumed_total", "stage"),
            ),
        ),
        Panel(
            "Interrupted: speech to silence",
            "First sample of the speech to the last of the voice; promised: P95 of 0.25 s.",
            "s",
            quantiles("barge_in_to_silence_seconds"),
            limit=0.25,
        ),
        Panel(
            "Interrupted: decision to silence",
            "Its part after the decision; also of text and of the button.",
            "s",
            quantiles("barge_in_decided_to_silence_seconds", "origin", "", 0.95),
            limit=0.05,
        ),
        Panel(
            "Sounds that were no interruption",
            "In a second: the answer gave way and went on; our own voice in the microphone.",
            PER_SECOND,
            (
                *rates("false_interruptions_total", "given"),
                total("echo_suppressed_total", "echo"),
            ),
            columns=6,
        ),
        Panel(
            "Refused",
            "Visitors in a second who were not let in, by what had no room.",
            PER_SECOND,
            # Prometheus keeps `service` for the process that was scraped.
            rates("gateway_refused_total", "exported_service"),
            columns=6,
        ),
        Panel(
            "Sessions that ended",
            "In a second, by why, and those whose gateway died: taken by another one, or lost. "
            "Failed and lost ones are ours.",
            PER_SECOND,
            (
                *rates("gateway_sessions_ended_total", "reason"),
                *rates("gateway_sessions_stood_in_total", "result"),
            ),
            columns=6,
        ),
        Panel(
            "Connections that were closed",
            "In a second, by why: requests that do not come to their end, clients that read "
            "nothing, too many at once.",
            PER_SECOND,
            rates("gateway_connections_refused_total", "reason"),
            columns=6,
        ),
    ),
)

VISITORS = Board(
    "visitors",
    "visavis: what visitors experience",
    "How soon answers begin, whether sound and picture are whole, who was turned away.",
    (_PROMISES, _ANSWERS, _MEDIA, _TURNS),
)
