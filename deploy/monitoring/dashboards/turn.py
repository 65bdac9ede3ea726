"""One turn in depth: each stage's queue and compute, and what the answer is made of."""

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

_WHOLE = Row(
    "Where the time goes",
    (
        Panel(
            "Compute of the first chunk, by stage",
            "P95 of what the models work before the answer can begin.",
            "s",
            quantiles("turn_span_seconds", "stage", 'kind="compute"', 0.95),
        ),
        Panel(
            "Queue before the first chunk, by stage",
            "P95 of the wait for the stage to begin; it grows first where there is too much work.",
            "s",
            quantiles("turn_span_seconds", "stage", 'kind="queue"', 0.95),
        ),
        Panel(
            "Transfer and other waits, by stage",
            "P95 of the way over the bus, and of what a finished chunk waited for.",
            "s",
            quantiles("turn_span_seconds", "stage, kind", 'kind=~"transfer|wait"', 0.95),
        ),
        Panel(
            "Overhead",
            "Voice to voice without the endpoint wait and the models' work; wanted: 5 ms.",
            "s",
            quantiles("overhead_seconds"),
        ),
        Panel(
            "gRPC calls",
            "In a second, by final status. Cancelled is how a lease ends.",
            PER_SECOND,
            rates("grpc_requests_total", "code"),
        ),
        Panel(
            "Length of gRPC calls",
            "P95 by method. Attach is a whole visit.",
            "s",
            quantiles("grpc_request_seconds", "method", "", 0.95),
        ),
    ),
)

_HEARING = Row(
    "Heard",
    (
        Panel(
            "Final transcript",
            "From the end of speech being certain to its text.",
            "s",
            quantiles("asr_final_seconds"),
        ),
        Panel("Partial transcripts", "Compute of one.", "s", quantiles("asr_partial_seconds")),
        Panel(
            "Sound listened to",
            "Seconds of microphone in a second: how many microphones are open; and of these, of "
            "voices that were passed over as too far behind a visitor, such as a television's.",
            "short",
            (
                total("asr_audio_seconds_total", "microphones"),
                total("asr_far_voice_seconds_total", "voices passed over"),
            ),
        ),
    ),
)

_THOUGHT = Row(
    "Thought",
    (
        Panel(
            "First token",
            "From the request to the first token.",
            "s",
            quantiles("llm_ttft_seconds"),
        ),
        Panel(
            "Wait for the language model",
            "From the request to its first work.",
            "s",
            quantiles("llm_queue_seconds"),
        ),
        Panel(
            "Tokens",
            "In a second, all answers together: read anew, and written.",
            PER_SECOND,
            rates("llm_tokens_total", "direction"),
        ),
        Panel(
            "Questions that were known",
            "In a second: found in the answer book or among the learnt answers, or not.",
            PER_SECOND,
            rates("gateway_answer_cache_lookups_total", "result"),
        ),
        Panel(
            "Prepared answers",
            "In a second: opened in a pause or before it, then spoken or thrown away; and the "
            "seconds that those spoken were begun before the final words.",
            PER_SECOND,
            (
                total("speculation_opened_total", "opened"),
                total("speculation_foreseen_total", "of these, before the pause"),
                total("speculation_confirmed_total", "confirmed"),
                total("speculation_discarded_total", "discarded"),
                total("speculation_lead_seconds_sum", "seconds begun before the final words"),
            ),
        ),
        Panel(
            "What prepared answers cost",
            "Tokens, and seconds of voice, in a second, that nobody heard.",
            PER_SECOND,
            (
                total("speculation_wasted_tokens_total", "tokens"),
                total("speculation_wasted_voice_seconds_total", "seconds of voice"),
            ),
        ),
        Panel(
            "Questions that texts answer",
            "In a second: passages of the operator's texts were found for them, or nothing.",
            "short",
            (
                *rates("gateway_knowledge_lookups_total", "result"),
                Query("max by (instance) (gateway_knowledge_passages)", "passages: {{instance}}"),
            ),
            columns=6,
        ),
        Panel(
            "Tools that answers call",
            "In a second, by who does them and what came of it.",
            PER_SECOND,
            rates("gateway_tool_calls_total", "by, result"),
            columns=6,
        ),
        Panel(
            "Tools before an answer is heard",
            "From the first call of a round to its last result, in turns that wait for tools.",
            "s",
            quantiles("turn_span_seconds", "", 'stage="tools"'),
            columns=6,
        ),
        Panel(
            "Results of tools",
            "From the call to its result, by who does it.",
            "s",
            quantiles("gateway_tool_seconds", "by"),
            columns=6,
        ),
    ),
)

_SAID = Row(
    "Said and shown",
    (
        Panel(
            "First sound of a phrase",
            "From a speakable phrase to its first sound.",
            "s",
            quantiles("tts_ttfa_seconds"),
        ),
        Panel(
            "Phrases",
            "Spoken in a second: prerendered or not.",
            PER_SECOND,
            rates("tts_phrase_cache_lookups_total", "result"),
        ),
        Panel(
            "Voice made",
            "Seconds of voice in a second, by language.",
            SECONDS_PER_SECOND,
            rates("tts_audio_seconds_total", "language"),
        ),
        Panel(
            "A frame",
            "Picture and encoding of one; 40 ms are all there is at 25 a second.",
            "s",
            quantiles("face_frame_seconds"),
            limit=0.04,
        ),
        Panel(
            "Frames",
            "In a second: speaking, live, for the loop; and those skipped for being late.",
            PER_SECOND,
            (*rates("face_frames_total", "mode"), total("face_late_frames_total", "skipped")),
        ),
        Panel(
            "Lateness of frames",
            "How late the drawing began after the frame was to be shown; 0 is wanted.",
            "s",
            quantiles("face_lateness_seconds"),
        ),
    ),
)

_KEPT = Row(
    "Kept in memory",
    (
        Panel(
            "Answers and phrases kept",
            "How many are known.",
            "short",
            (
                *level("gateway_answer_cache_entries", "kind"),
                Query("sum(tts_phrase_cache_entries)", "phrases"),
                Query("sum(gateway_idle_loops)", "loops of idle life"),
            ),
        ),
        Panel(
            "Memory of what is kept",
            "Bytes.",
            "bytes",
            (
                Query("sum(gateway_answer_cache_bytes)", "answers"),
                Query("sum(tts_phrase_cache_bytes)", "phrases"),
                Query("sum(gateway_idle_loop_bytes)", "loops of idle life"),
            ),
        ),
        Panel(
            "What made room",
            "In a second: answers evicted or expired, phrases evicted.",
            PER_SECOND,
            (
                *rates("gateway_answer_cache_removals_total", "reason"),
                total("tts_phrase_cache_evictions_total", "phrases"),
            ),
        ),
        Panel(
            "Loops asked of the face",
            "In a second: kept, failed, refused for want of memory.",
            PER_SECOND,
            rates("gateway_idle_loop_fetches_total", "result"),
            columns=12,
        ),
        Panel(
            "Frames skipped where a turn ends a loop",
            "The face jumps by so many frames of slow motion.",
            "short",
            quantiles("gateway_idle_loop_skipped_frames"),
            columns=12,
        ),
    ),
)

TURN = Board(
    "turn",
    "visavis: one turn in depth",
    "Each stage's queue and compute, and what an answer is made of.",
    (_WHOLE, _HEARING, _THOUGHT, _SAID, _KEPT),
)
