"""Every metric of the gateway, with the buckets of each."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_ANSWER_S = (
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.35,
    0.4,
    0.45,
    0.5,
    0.6,
    0.8,
    1.0,
    1.5,
    2.5,
    5.0,
    10.0,
)
_BARGE_IN_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0)
_OVERHEAD_S = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5)
# Up to a language model that computes on a busy machine.
_SPAN_S = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3),
    *(0.6, 1.0, 2.5, 5.0),
)
_SKEW_S = (0.0025, 0.005, 0.01, 0.015, 0.02, 0.04, 0.08, 0.16, 0.32)
_LATE_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
_PASS_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
_ROOM_S = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 25.0, 30.0, 45.0, 60.0)
_SESSIONS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

sessions = Gauge("gateway_sessions", "Sessions that are open.")
sessions_begun = Counter(
    "gateway_sessions_begun_total", "Sessions that were let in, or came from another gateway."
)
sessions_ended = Counter("gateway_sessions_ended_total", "Sessions that ended, by why.", ["reason"])
sessions_stood_in = Counter(
    "gateway_sessions_stood_in_total",
    "Sessions whose gateway died: taken, which go on here, or lost.",
    ["result"],
)
refused = Counter(
    "gateway_refused_total",
    "Sessions that were not let in, by what had no room: a service, answer for all between "
    "question and answer together, queue, gateway.",
    ["service"],
)
session_refusals = Counter(
    "gateway_session_refusals_total",
    "POST /v1/sessions that were answered 429 or 503, by that and by the code of the error.",
    ["status", "reason"],
)
queue_length = Gauge("gateway_queue_length", "Visitors who wait for a session.")
queue_ended = Counter(
    "gateway_queue_ended_total",
    "Places in line that wait no more: admitted, left, vanished, refused.",
    ["how"],
)
queue_wait_seconds = Histogram(
    "gateway_queue_wait_seconds",
    "From joining the line to the session.",
    buckets=(0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280),
)
queue_told_ratio = Histogram(
    "gateway_queue_told_ratio",
    "The wait that visitors were told as they joined, of the wait that they had.",
    buckets=(0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2, 4, 10),
)
passed_on = Counter(
    "gateway_passed_on_total",
    "Requests and sockets for the sessions of other gateways, handed on to them.",
    ["type"],
)
connections_refused = Counter(
    "gateway_connections_refused_total",
    "Connections that were closed for what they took: slow_head and slow_body, a request that did "
    "not come to its end; stalled, a client that read nothing; too_many at once.",
    ["reason"],
)
viewers = Gauge(
    "gateway_viewers",
    "Viewers now: connected, or by HLS those who have just asked for the playlist.",
    ["transport"],
)
narrow_sessions = Gauge(
    "gateway_narrow_sessions", "Sessions whose pictures are coarser: a network carries no more."
)
viewer_drops = Counter(
    "gateway_viewer_drops_total", "Times that a slow viewer lost media.", ["transport"]
)
broadcasts = Gauge(
    "gateway_broadcasts",
    "Targets that sessions are pushed to: live; connecting; waiting, to be tried again.",
    ["protocol", "state"],
)
broadcast_reconnects = Counter(
    "gateway_broadcast_reconnects_total",
    "Times that a target of a broadcast was lost and tried again.",
    ["protocol"],
)
broadcasts_lost = Gauge(
    "gateway_broadcasts_lost",
    "Targets that were live, are not now, and are tried again.",
    ["protocol"],
)
broadcasts_ended = Counter(
    "gateway_broadcasts_ended_total",
    "Targets that are not pushed to any more: stopped by somebody; refused for good; given_up "
    "after ten minutes without a lasting connection.",
    ["protocol", "how"],
)
broadcast_bytes = Counter(
    "gateway_broadcast_bytes_total", "Handed over to targets of broadcasts.", ["protocol"]
)
broadcast_dropped_pictures = Counter(
    "gateway_broadcast_dropped_pictures_total",
    "Pictures that a target of a broadcast did not get, because its network was too slow.",
    ["protocol"],
)
hls_bytes = Counter("gateway_hls_bytes_total", "Segments that were asked for by HLS.")
hls_streams = Gauge("gateway_hls_streams", "Sessions that are cut into HLS segments.")
mic_packets = Counter(
    "gateway_mic_packets_total",
    "Packets of browsers' microphones that brought nothing: lost; late, or copies of others.",
    ["fate"],
)
turns = Counter(
    "gateway_turns_total",
    "Turns that ended, by how; replaced: the visitor went on with the question before a word of "
    "its answer was heard; discarded: prepared in a pause, and never asked for.",
    ["outcome"],
)
turns_resumed = Counter(
    "gateway_turns_resumed_total",
    "Turns that a stage goes on with in their midst, in place of a replica that was lost or missed "
    "some of them.",
    ["stage"],
)
voice_to_voice_seconds = Histogram(
    "voice_to_voice_seconds",
    "End of the visitor's speech or text to the first sample of the answer that leaves.",
    ["origin"],
    buckets=_ANSWER_S,
)
first_frame_seconds = Histogram(
    "first_frame_seconds",
    "End of the visitor's speech or text to the first lip-synced picture that leaves.",
    ["origin"],
    buckets=_ANSWER_S,
)
overhead_seconds = Histogram(
    "overhead_seconds",
    "Voice to voice without the endpoint wait and the models' work on the critical path.",
    ["origin"],
    buckets=_OVERHEAD_S,
)
turn_span_seconds = Histogram(
    "turn_span_seconds",
    "A turn's first chunk in each stage: transfer to it, wait, queue, compute.",
    ["stage", "kind"],
    buckets=_SPAN_S,
)
barge_in_to_silence_seconds = Histogram(
    "barge_in_to_silence_seconds",
    "First sample that the VAD marks of speech which interrupts to the last voice sample that "
    "leaves; what proved to be no interruption does not count.",
    buckets=_BARGE_IN_S,
)
barge_in_decided_seconds = Histogram(
    "barge_in_decided_to_silence_seconds",
    "The part of it after the decision to fall silent; also of text and of the button.",
    ["origin"],
    buckets=_BARGE_IN_S,
)
false_interruptions = Counter(
    "false_interruptions_total",
    "Times that an answer went on after a sound, by how far it gave way: ducked or paused.",
    ["given"],
)
echo_suppressed = Counter(
    "echo_suppressed_total", "Utterances that were the avatar's own voice in the microphone."
)
speculation_opened = Counter(
    "speculation_opened_total", "Answers prepared in a pause of the visitor's speech, or before it."
)
speculation_foreseen = Counter(
    "speculation_foreseen_total", "Of these, before the visitor had paused."
)
speculation_lead_seconds = Histogram(
    "speculation_lead_seconds",
    "Of those that were spoken: how long before the final words they were begun.",
    buckets=_ANSWER_S,
)
speculation_confirmed = Counter(
    "speculation_confirmed_total", "Prepared answers that were then spoken."
)
speculation_discarded = Counter(
    "speculation_discarded_total", "Prepared answers that were thrown away unheard."
)
speculation_wasted_tokens = Counter(
    "speculation_wasted_tokens_total", "Tokens written for answers that were thrown away."
)
speculation_wasted_voice_seconds = Counter(
    "speculation_wasted_voice_seconds_total", "Voice made for answers that were thrown away."
)
av_skew_seconds = Histogram(
    "av_skew_seconds",
    "Sound minus picture at the moment of release, absolute; picture: lags or leads the sound.",
    ["picture"],
    buckets=_SKEW_S,
)
tick_late_seconds = Histogram(
    "gateway_tick_late_seconds",
    "How late the ticks of sessions run, the wait for those before them in the pass included.",
    buckets=_LATE_S,
)
tick_sessions = Histogram(
    "gateway_tick_sessions", "Sessions that one pass of the ticker serves.", buckets=_SESSIONS
)
tick_pass_seconds = Histogram(
    "gateway_tick_pass_seconds",
    "One pass of the ticker: the tick of every session that is due.",
    buckets=_PASS_S,
)
pictures = Counter(
    "gateway_pictures_total",
    "Pictures that left: of a turn; live, idle and drawn for this session; loop, from memory.",
    ["source"],
)
loops = Gauge("gateway_idle_loops", "Loops of idle life in memory.")
loop_bytes = Gauge("gateway_idle_loop_bytes", "Memory of these loops.")
loop_skips = Histogram(
    "gateway_idle_loop_skipped_frames",
    "Frames of the face's motion that are left out, or seen twice, where a turn ends the loop.",
    buckets=(0, 1, 2, 3, 5, 10, 25, 100),
)
loop_fetches = Counter(
    "gateway_idle_loop_fetches_total",
    "Loops asked of the face: kept; failed; refused, for want of memory.",
    ["result"],
)
underruns = Counter("gateway_voice_underruns_total", "Gaps in the voice during an answer.")
late_pictures = Counter("gateway_late_pictures_total", "Pictures that left after their time.")
dropped_pictures = Counter(
    "gateway_dropped_pictures_total",
    "Pictures that were wanted and never left: too late, or no viewer could have decoded them.",
)
stage_attach = Counter(
    "gateway_stage_attach_total", "Leases on a stage, by result.", ["stage", "result"]
)
processes_met = Counter(
    "gateway_processes_met_total",
    "Processes that were found for the first time, without those that were there before this "
    "gateway.",
    ["process"],
)
answer_cache_lookups = Counter(
    "gateway_answer_cache_lookups_total",
    "Questions looked up: exact, normalised and learned are hits, miss goes to the language model.",
    ["result"],
)
answer_cache_entries = Gauge(
    "gateway_answer_cache_entries", "Answers that are known, by where they come from.", ["kind"]
)
answer_cache_bytes = Gauge("gateway_answer_cache_bytes", "Text of the learned answers.")
answer_cache_removals = Counter(
    "gateway_answer_cache_removals_total",
    "Learned answers that are gone: evicted for others, or expired.",
    ["reason"],
)

room_comments = Counter(
    "gateway_room_comments_total",
    "Comments and gifts of live rooms, by what became of them.",
    ["outcome"],
)
room_answer_age_seconds = Histogram(
    "gateway_room_answer_age_seconds",
    "From when a viewer sent a comment to the first sound of its answer.",
    buckets=_ROOM_S,
)
room_waiting = Gauge("gateway_room_waiting", "Comments that wait in live rooms.")
knowledge_passages = Gauge(
    "gateway_knowledge_passages", "Passages of the operator's texts that can be found."
)
knowledge_lookups = Counter(
    "gateway_knowledge_lookups_total",
    "Questions for which passages were looked for: found, nothing.",
    ["result"],
)
tool_calls = Counter(
    "gateway_tool_calls_total",
    "Tools that answers have called, by who does them: the gateway itself (server), a client of "
    "the session, nobody where there is no such tool; dropped: nobody waited any more.",
    ["by", "result"],
)
tool_seconds = Histogram(
    "gateway_tool_seconds",
    "From the call of a tool to its result, by who does it.",
    ["by"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0),
)
realtime_sessions = Gauge(
    "gateway_realtime_sessions", "Clients of OpenAI's Realtime protocol now.", ["transport"]
)
realtime_responses = Counter(
    "gateway_realtime_responses_total", "Responses of the Realtime protocol, by status.", ["status"]
)
realtime_errors = Counter(
    "gateway_realtime_errors_total",
    "Errors that clients of the Realtime protocol were told, by code.",
    ["code"],
)
openai_requests = Counter(
    "gateway_openai_requests_total",
    "Requests of OpenAI's HTTP API, by route and status; 499: the client left first.",
    ["route", "status"],
)
openai_audio_seconds = Counter(
    "gateway_openai_audio_seconds_total",
    "Sound of OpenAI's HTTP API: spoken, as it is made; heard, of recordings.",
    ["direction"],
)
wyoming_requests = Counter(
    "gateway_wyoming_requests_total",
    "Requests of Wyoming's clients that were answered, by kind and by code: ok, cancelled, or that "
    "of the error.",
    ["kind", "code"],
)


def _begin_at_zero() -> None:
    """Prometheus sees no rise in a series that begins with its first event; promises are judged
    by such rises."""
    for origin in ("speech", "text", "welcome", "say", "brought"):
        for seconds in (voice_to_voice_seconds, first_frame_seconds, overhead_seconds):
            seconds.labels(origin)
    for outcome in ("finished", "interrupted", "failed", "replaced", "discarded"):
        turns.labels(outcome)
    for status, reason in (
        ("429", "at_capacity"),
        ("503", "at_capacity"),
        ("503", "stage_lost"),
        ("503", "unavailable"),
    ):
        session_refusals.labels(status, reason)
    for stage in ("llm", "tts", "face"):
        turns_resumed.labels(stage)
    for result in ("taken", "lost"):
        sessions_stood_in.labels(result)
    for service in ("asr", "llm", "tts", "face", "answer", "queue", "gateway"):
        refused.labels(service)
    for process in ("asr", "llm", "tts", "face", "gateway"):
        processes_met.labels(process)
    for protocol in ("rtmp", "whip"):
        broadcasts_lost.labels(protocol)
        for how in ("stopped", "refused", "given_up"):
            broadcasts_ended.labels(protocol, how)


_begin_at_zero()


def exemplar(session: str, turn: int, trace_id: str = "") -> dict[str, str]:
    """What finds the turn behind a sample: at most 126 of OpenMetrics' 128 characters.

    trace_id: where the turn is traced.
    """
    found = {"session": session, "turn": str(turn)}
    return {**found, "trace_id": trace_id} if trace_id else found
