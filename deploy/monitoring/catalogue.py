"""Every metric of ours as one list: name, type, unit, labels and what they may be.

`python -m deploy.monitoring.catalogue` writes docs/metrics.md anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from prometheus_client.metrics import MetricWrapperBase

import gateway.metrics
import simulation.occupied
import visavis.serving.metrics

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "metrics.md"

# Where metrics are defined, and who exports them.
MODULES: Mapping[ModuleType, str] = {
    gateway.metrics: "The gateway",
    visavis.serving.metrics: "Services, bus and engines",
    simulation.occupied: "Simulated devices",
}

# The unit of names that do not say it themselves: things that are counted.
COUNTED: Mapping[str, str] = {
    "admission_free_slots": "sessions",
    "admission_refusals": "sessions",
    "admission_run_queue_share": "ratio",
    "admission_session_cores": "cores",
    "admission_slack_ratio": "ratio",
    "admission_units_per_second": "units per second",
    "attached_sessions": "sessions",
    "draining": "0 or 1",
    "engine_backend_info": "0 or 1",
    "engine_batch_gain": "ratio",
    "engine_batch_rows": "requests",
    "engine_queue_depth": "requests",
    "face_pass_frames": "frames",
    "gateway_answer_cache_entries": "answers",
    "gateway_broadcasts": "targets",
    "gateway_broadcasts_ended": "targets",
    "gateway_broadcasts_lost": "targets",
    "gateway_hls_streams": "sessions",
    "gateway_idle_loop_skipped_frames": "frames",
    "gateway_knowledge_passages": "passages",
    "gateway_idle_loops": "loops",
    "gateway_openai_requests": "requests",
    "gateway_processes_met": "processes",
    "gateway_narrow_sessions": "sessions",
    "gateway_queue_length": "visitors",
    "gateway_realtime_responses": "responses",
    "gateway_realtime_sessions": "clients",
    "gateway_room_comments": "comments",
    "gateway_room_waiting": "comments",
    "gateway_session_refusals": "answers",
    "gateway_sessions": "sessions",
    "gateway_tick_sessions": "sessions",
    "gateway_viewers": "viewers",
    "gpu_clocks_held_back": "0 or 1",
    "gpu_power_watts": "watts",
    "gpu_temperature_celsius": "degrees Celsius",
    "llm_engine_requests": "requests",
    "slots": "sessions",
    "tts_phrase_cache_entries": "phrases",
}

_ORIGIN = "speech, text, welcome"
_STAGE = "asr, llm, tts, face"
_KIND = "mic, transcript, turn, tokens, voice, mel, video, face, clock"

# What each label may be; `metric{label}` where it means something of its own.
LABELS: Mapping[str, str] = {
    "engine": "one for each network",
    "backend": "as in `--backend`",
    "from_backend": "as in `--backend`",
    "to_backend": "as in `--backend`",
    "device": "cpu, or one for each GPU",
    "uuid": "one for each GPU",
    "lane": "one for each lane: `asr-…`, tts, `face-…`",
    "work": "one for each piece of lasting work",
    "method": "methods of protos/visavis/v1; of NVIDIA's packages behind that of the service",
    "code": "gRPC status codes",
    "origin": _ORIGIN,
    "language": "codes of languages that a voice is loaded for",
    "direction": "read, written",
    "state": "running, waiting, queued",
    "mode": "live, speaking, loop, kept, blendshapes",
    "face_late_frames{mode}": "live, speaking",
    "figure": "measured, predicted, alone",
    "transport": "webrtc, websocket",
    "gateway_viewers{transport}": "webrtc, websocket, hls",
    "type": "http, websocket",
    "picture": "lags, leads",
    "source": "turn, live, loop",
    "fate": "lost, late",
    "given": "ducked, paused",
    "how": "admitted, left, vanished, refused",
    "outcome": "finished, interrupted, failed, replaced, discarded",
    "bus_published_chunks{kind}": _KIND,
    "bus_received_chunks{kind}": _KIND,
    "bus_dropped_chunks{kind}": _KIND,
    "bus_dropped_chunks{reason}": "full, stale, garbage",
    "bus_lost_chunks{kind}": _KIND,
    "barge_in_decided_to_silence_seconds{origin}": "speech, text, interrupt",
    "engine_memory_bytes{kind}": "weights, scratch, buffer, pinned",
    "engine_run_seconds{stage}": "copy_in, infer, copy_out",
    "process": f"{_STAGE}, gateway",
    "protocol": "rtmp, whip",
    "gateway_broadcasts{state}": "connecting, live, waiting",
    "gateway_broadcasts_ended{how}": "stopped, refused, given_up",
    "gateway_openai_audio_seconds{direction}": "spoken, heard",
    "gateway_openai_requests{status}": "statuses of HTTP",
    "gateway_realtime_errors{code}": "codes of gateway/realtime and gateway/openai/errors.py",
    "gateway_realtime_responses{status}": "completed, cancelled, incomplete, failed",
    "route": "routes of OpenAI's HTTP API",
    "gateway_answer_cache_entries{kind}": "configured, learned",
    "gateway_answer_cache_lookups{result}": "exact, normalised, learned, miss",
    "gateway_answer_cache_removals{reason}": "evicted, expired",
    "gateway_connections_refused{reason}": "slow_head, slow_body, stalled, too_many",
    "gateway_idle_loop_fetches{result}": "kept, failed, refused",
    "gateway_refused{service}": f"{_STAGE}, answer, queue, gateway",
    "gateway_room_comments{outcome}": "outcomes of gateway/room/choosing/comments.py",
    "gateway_session_refusals{status}": "429, 503",
    "gateway_session_refusals{reason}": "at_capacity, stage_lost, unavailable",
    "gateway_sessions_ended{reason}": "deleted, expired, failed, moved, shutdown",
    "by": "server, client, nobody",
    "gateway_knowledge_lookups{result}": "found, nothing",
    "gateway_tool_calls{result}": "done, failed, dropped",
    "gateway_stage_attach{stage}": _STAGE,
    "gateway_sessions_stood_in{result}": "taken, lost",
    "gateway_turns_resumed{stage}": "llm, tts, face",
    "gateway_stage_attach{result}": "ready, refused, timeout, lost, moved",
    "gateway_wyoming_requests{kind}": "transcribe, synthesize, handle",
    "gateway_wyoming_requests{code}": "ok, cancelled, invalid_input, not_found, over_limit, "
    "at_capacity, stage_lost, unavailable, internal",
    "gpu_clocks_held_back{reason}": "power_cap, heat, power_brake",
    "simulated_device_late_seconds{stage}": _STAGE,
    "simulated_device_busy_seconds{stage}": _STAGE,
    "simulated_device_runs{stage}": _STAGE,
    "simulated_device_steps{stage}": _STAGE,
    "tts_phrase_cache_lookups{result}": "hit, miss",
    "turn_span_seconds{stage}": f"{_STAGE}, tools, encoder, playout",
    "turn_span_seconds{kind}": "transfer, wait, queue, compute",
}


@dataclass(frozen=True)
class Metric:
    """One metric as the code defines it."""

    name: str
    """Without the suffixes of samples."""
    type: str
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...]

    @property
    def unit(self) -> str:
        """As its name says it, or what it counts."""
        if self.name in COUNTED:
            return COUNTED[self.name]
        found = re.search(r"_(seconds|bytes|ratio)$", self.name)
        if found is not None:
            return found[1]
        return "times" if self.type == "counter" else ""

    @property
    def samples(self) -> tuple[str, ...]:
        """The names of its series."""
        match self.type:
            case "counter":
                return (f"{self.name}_total",)
            case "histogram":
                return tuple(f"{self.name}{end}" for end in ("_bucket", "_sum", "_count"))
        return (self.name,)

    def values(self, label: str) -> str:
        """What a label of it may be. Raises KeyError for one that is not told."""
        return LABELS.get(f"{self.name}{{{label}}}") or LABELS[label]


def metrics_of(module: ModuleType) -> list[Metric]:
    """The metrics of a module, in the order in which it defines them."""
    return [
        Metric(
            name=wrapped._name,
            type=str(wrapped._type),
            help=wrapped._documentation,
            labels=tuple(wrapped._labelnames),
            buckets=tuple(getattr(wrapped, "_upper_bounds", ()))[:-1],
        )
        for wrapped in vars(module).values()
        if isinstance(wrapped, MetricWrapperBase)
    ]


def every_metric() -> list[Metric]:
    """All of ours."""
    return [metric for module in MODULES for metric in metrics_of(module)]


def series_in(expression: str) -> set[str]:
    """The series that a PromQL expression asks for."""
    bare = re.sub(r"\"[^\"]*\"", "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    names = re.findall(r"(?<![\w:.])([A-Za-z_:][\w:]*)\b(?!\s*\()", bare)
    return set(names) - {"and", "or", "unless", "bool", "offset", "e", "inf", "nan"}


def page() -> str:
    """docs/metrics.md."""
    count = len(every_metric())
    lines = [
        "# Metrics",
        "",
        f"All {count} metrics, as the code defines them. `python -m deploy.monitoring.catalogue` "
        "writes this page; a test holds",
        "it fresh. Every process shows its own at `/metrics`, and beside them those of",
        "`prometheus_client` about itself (`process_…`, `python_…`). A service also shows the "
        "metrics of the others, at 0.",
        "No label names a session or a turn: what its values are is fixed, or one for each "
        "network, lane or language.",
        "Which turn stands behind a sample of a histogram is told by exemplars "
        "([timeline.md](timeline.md#prometheus)).",
        "How to look at all this: [monitoring.md](monitoring.md).",
    ]
    for module, title in MODULES.items():
        where = f"{module.__name__.replace('.', '/')}.py"
        lines += ["", f"## {title}", "", f"`{where}`", ""]
        lines += ["| metric | type | unit | labels | what it tells |", "|---|---|---|---|---|"]
        lines += [_row(metric) for metric in metrics_of(module)]
    lines += ["", "## Buckets", "", "Upper bounds of the histograms, without infinity.", ""]
    lines += ["| histogram | bounds |", "|---|---|"]
    lines += [
        f"| `{metric.name}` | {_bounds(metric.buckets)} |"
        for metric in every_metric()
        if metric.buckets
    ]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    name = metric.samples[0] if metric.type == "counter" else metric.name
    labels = "; ".join(f"{label}: {metric.values(label)}" for label in metric.labels) or "–"
    return f"| `{name}` | {metric.type} | {metric.unit} | {labels} | {metric.help} |"


def _bounds(bounds: Sequence[float]) -> str:
    return ", ".join(f"{bound:g}" for bound in bounds)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
