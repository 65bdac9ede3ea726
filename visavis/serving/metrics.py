"""Every metric of the platform and the services, with the buckets of each.

Buckets are chosen per stage: fine where the target lies, coarse beyond.
The gateway's own metrics stand in gateway/metrics.py.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from visavis.serving.logs import context_fields

_FAST_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5, 5.0)
_CALL_S = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)

# Bus
bus_published_chunks = Counter("bus_published_chunks_total", "Chunks handed to the bus.", ["kind"])
bus_received_chunks = Counter(
    "bus_received_chunks_total", "Chunks delivered to a consumer.", ["kind"]
)
bus_dropped_chunks = Counter(
    "bus_dropped_chunks_total",
    "Chunks received and not delivered: queue full, turn stale, or not decodable.",
    ["kind", "reason"],
)
bus_lost_chunks = Counter(
    "bus_lost_chunks_total", "Holes in the sequence numbers of received chunks.", ["kind"]
)
bus_reconnects = Counter("bus_reconnects_total", "Times that the bus connection came back.")
background_restarts = Counter(
    "background_restarts_total",
    "Times that work of the whole process failed and began anew.",
    ["work"],
)
full_collection_seconds = Histogram(
    "full_collection_seconds",
    "Time for which the process stood still while Python looked for garbage among all objects "
    "that have come since its start.",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
)

# gRPC
grpc_requests = Counter(
    "grpc_requests_total", "gRPC calls by method and final status.", ["method", "code"]
)
grpc_request_seconds = Histogram(
    "grpc_request_seconds", "Length of a gRPC call.", ["method"], buckets=_CALL_S
)
attached_sessions = Gauge("attached_sessions", "Sessions that hold a lease on this service.")
slots = Gauge("slots", "Sessions that this service takes at once at most.")
draining = Gauge("draining", "1 while the process takes no new session and waits for the others.")

# Admission
admission_free_slots = Gauge(
    "admission_free_slots", "Sessions more that this service would take now, as predicted."
)
admission_slack = Gauge(
    "admission_slack_ratio",
    "Share of what its deadlines allow that would be left with one session more; below 0: none "
    "is let in.",
)
admission_unit_cost_seconds = Gauge(
    "admission_unit_cost_seconds",
    "Work of a lane on one unit on an idle machine: a transcript, an answer, a piece of voice, "
    "a picture.",
)
admission_units_per_second = Gauge(
    "admission_units_per_second", "Units that a session asks for in each second of its life."
)
admission_first_p95_seconds = Gauge(
    "admission_first_p95_seconds",
    "P95 from asking to an answer's first unit: measured lately; predicted with one session more; "
    "alone, with nothing else at work.",
    ["figure"],
)
admission_session_cores = Gauge(
    "admission_session_cores", "Processor cores that a session asks of this process over time."
)
admission_run_queue_share = Gauge(
    "admission_run_queue_share",
    "Time that this process waited for a core, of the time in which it wanted one.",
)
admission_refusals = Counter("admission_refusals_total", "Sessions that were not let in.")

# Engines
engine_backend_info = Gauge(
    "engine_backend_info",
    "1 for the backend and device that an engine runs on now, 0 for those that it left.",
    ["engine", "backend", "device"],
)
engine_degraded = Counter(
    "engine_degraded_total",
    "Times that an engine stepped down, from what was wanted to what was left.",
    ["engine", "from_backend", "to_backend"],
)
engine_restarts = Counter(
    "engine_restarts_total", "Times that a broken engine was loaded anew.", ["engine", "backend"]
)
engine_memory_bytes = Gauge(
    "engine_memory_bytes",
    "Memory of a compiled plan: weights, scratch and buffer on the GPU, pinned on the host.",
    ["engine", "kind"],
)
engine_run_seconds = Histogram(
    "engine_run_seconds",
    "One run of a compiled plan by stage on the GPU: copy_in, infer, copy_out.",
    ["engine", "stage"],
    buckets=(0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5),
)
engine_queue_seconds = Histogram(
    "engine_queue_seconds",
    "From work being given to an engine's thread to its beginning there; 0 where none was needed.",
    ["lane"],
    buckets=(
        0.0001,
        0.0005,
        0.001,
        0.0025,
        0.005,
        0.01,
        0.02,
        0.04,
        0.08,
        0.15,
        0.3,
        1.0,
        2.5,
        5.0,
    ),
)
engine_queue_depth = Gauge(
    "engine_queue_depth", "Requests that wait for an engine's thread.", ["lane"]
)
engine_batch_rows = Histogram(
    "engine_batch_rows",
    "Requests that shared one run of a network, where it can take several.",
    ["lane"],
    buckets=(1, 2, 3, 4, 6, 8, 12, 16),
)
engine_batch_gain = Gauge(
    "engine_batch_gain",
    "How many times as much a run as large as the newest one does in a second as runs of one "
    "request, by what was measured.",
    ["lane"],
)

# GPUs
gpu_utilization = Gauge(
    "gpu_utilization_ratio",
    "Share of the driver's last sample period in which a kernel ran on the GPU; it says nothing "
    "of how full the GPU was.",
    ["device", "uuid"],
)
gpu_memory_used_bytes = Gauge(
    "gpu_memory_used_bytes", "Memory of the GPU in use, by all processes.", ["device", "uuid"]
)
gpu_memory_total_bytes = Gauge(
    "gpu_memory_total_bytes", "Memory that the GPU has.", ["device", "uuid"]
)
gpu_temperature_celsius = Gauge(
    "gpu_temperature_celsius", "Temperature of the GPU's chip.", ["device", "uuid"]
)
gpu_power_watts = Gauge("gpu_power_watts", "What the GPU draws.", ["device", "uuid"])
gpu_clocks_held_back = Gauge(
    "gpu_clocks_held_back",
    "1 while the GPU is slower than it could be: at its power cap, which is usual under load, too "
    "hot, or because the machine's power supply cannot give more.",
    ["device", "uuid", "reason"],
)

# Stages
asr_final_seconds = Histogram(
    "asr_final_seconds",
    "From the end of the visitor's speech being certain to the final transcript.",
    buckets=_FAST_S,
)
asr_partial_seconds = Histogram(
    "asr_partial_seconds", "Compute of one partial transcript.", buckets=_FAST_S
)
asr_audio_seconds = Counter("asr_audio_seconds_total", "Sound listened to.")
asr_far_voice_seconds = Counter(
    "asr_far_voice_seconds_total",
    "Speech that began no utterance: so far below the visitor, and going on, as a television does.",
)
llm_queue_seconds = Histogram(
    "llm_queue_seconds", "From the request to its first work.", buckets=_FAST_S
)
llm_ttft_seconds = Histogram(
    "llm_ttft_seconds", "From the request to the first token.", buckets=_FAST_S
)
llm_tokens = Counter("llm_tokens_total", "Tokens read and written.", ["direction"])
llm_engine_requests = Gauge(
    "llm_engine_requests",
    "Requests in the model's engine: running in its newest step, waiting for a step, "
    "or queued and not taken up (the depth of its queue).",
    ["state"],
)
llm_kv_cache_used_ratio = Gauge(
    "llm_kv_cache_used_ratio", "Share of the key-value cache's blocks in use, 0 to 1."
)
llm_kv_cache_hit_ratio = Gauge(
    "llm_kv_cache_hit_ratio", "Share of key-value blocks that were found in the cache, 0 to 1."
)
tts_ttfa_seconds = Histogram(
    "tts_ttfa_seconds", "From a speakable phrase to its first sound.", buckets=_FAST_S
)
tts_audio_seconds = Counter("tts_audio_seconds_total", "Voice made.", ["language"])
tts_phrase_cache_lookups = Counter(
    "tts_phrase_cache_lookups_total",
    "Phrases that were spoken: hit, their sound was prerendered; miss, it was not.",
    ["result"],
)
tts_phrase_cache_entries = Gauge("tts_phrase_cache_entries", "Prerendered phrases in memory.")
tts_phrase_cache_bytes = Gauge("tts_phrase_cache_bytes", "Memory of the prerendered phrases.")
tts_phrase_cache_evictions = Counter(
    "tts_phrase_cache_evictions_total", "Prerendered phrases that made room for others."
)
face_frame_seconds = Histogram(
    "face_frame_seconds", "Picture and encoding of one frame.", buckets=_FAST_S
)
face_pass_seconds = Histogram(
    "face_pass_seconds",
    "One pass over the faces that are due, to its last picture.",
    buckets=_FAST_S,
)
face_pass_frames = Histogram(
    "face_pass_frames", "Frames drawn in one pass.", buckets=(1, 2, 3, 4, 5, 6, 7, 8)
)
face_lateness_seconds = Histogram(
    "face_lateness_seconds",
    "How late a frame's drawing began, after it was to be shown; 0 for those in time.",
    buckets=(0, *_FAST_S),
)
face_frames = Counter(
    "face_frames_total",
    "Frames made: live, speaking or loop; blendshapes: not drawn, as viewers do it themselves; "
    "kept: of a loop that an earlier start has drawn.",
    ["mode"],
)
face_late_frames = Counter(
    "face_late_frames_total",
    "Frames skipped because their time had passed: live or speaking.",
    ["mode"],
)
for _mode in ("live", "speaking"):  # what counts late pictures is there before the first
    face_late_frames.labels(_mode)


def exemplar() -> dict[str, str] | None:
    """What finds the turn behind a sample: the session and the turn that log lines carry here.

    At most 86 of the 128 characters that OpenMetrics allows; None outside of sessions.
    """
    fields = context_fields()
    found: dict[str, str] = {
        name: str(value) for name, value in fields.items() if name in ("session", "turn")
    }
    return found if "session" in found else None
