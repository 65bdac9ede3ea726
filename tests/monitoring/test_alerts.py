"""Each alert fires on its fault and is silent otherwise: on synthetic series, by promtool.

A fault is a healthy fleet in which some series go wrong. What fires is compared as a whole, so an
alert that fires beside the right ones fails the test as well.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.monitoring.test_lists import MONITORING, all_rules, queries

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool: it comes with Prometheus"
)

STAGES = ("asr", "llm", "tts", "face")
JOB = 'job="visavis",service="{0}",instance="{0}"'


def growing(per_minute: float) -> str:
    """A counter, one sample a minute, in promtool's notation."""
    return f"0+{per_minute:g}x$minutes"


def level(value: float) -> str:
    """A gauge that stays."""
    return f"{value:g}+0x$minutes"


def histogram(name: str, labels: str, bounds: Mapping[str, float]) -> dict[str, str]:
    """Its series: what falls below each bound in a minute, `+Inf` last."""
    series = {f'{name}_bucket{{le="{le}"{labels}}}': growing(n) for le, n in bounds.items()}
    bare = f"{{{labels.removeprefix(',')}}}" if labels else ""
    return series | {f"{name}_count{bare}": growing(bounds["+Inf"])}


def answers(in_time: float) -> dict[str, str]:
    """A hundred answers a minute, of which so many begin within a second."""
    bounds = {"1.0": in_time, "+Inf": 100.0}
    return histogram("voice_to_voice_seconds", ',origin="speech"', bounds)


def services() -> Iterator[tuple[str, str]]:
    for stage in (*STAGES, "gateway"):
        labels = JOB.format(stage)
        yield f"up{{{labels}}}", level(1)
        yield f"draining{{{labels}}}", level(0)
        yield f"process_start_time_seconds{{{labels}}}", level(1000)
    for stage in STAGES:
        labels = JOB.format(stage)
        yield f"slots{{{labels}}}", level(4)
        yield f"attached_sessions{{{labels}}}", level(2)
        yield f"admission_free_slots{{{labels}}}", level(2)


def gpu(used: float) -> dict[str, str]:
    """Of two services on one GPU of 100 bytes."""
    return {
        f'gpu_memory_{name}_bytes{{{JOB.format(stage)},device="cuda:0",uuid="GPU-1"}}': level(value)
        for stage in ("asr", "tts")
        for name, value in (("used", used), ("total", 100))
    }


def held_back(reason: str) -> str:
    labels = f'{JOB.format("asr")},device="cuda:0",uuid="GPU-1",reason="{reason}"'
    return f"gpu_clocks_held_back{{{labels}}}"


MET = 'gateway_processes_met_total{service="gateway",instance="gateway",process="face"}'
LOST = 'gateway_broadcasts_lost{job="visavis",service="gateway",protocol="rtmp"}'
GIVEN_UP = 'gateway_broadcasts_ended_total{protocol="rtmp",how="given_up"}'
HEALTHY: Mapping[str, str] = {
    **dict(services()),
    **answers(99),
    **histogram("gateway_queue_wait_seconds", "", {"40.0": 10, "80.0": 10, "+Inf": 10}),
    **histogram("av_skew_seconds", ',picture="lags"', {"0.01": 100, "0.08": 100, "+Inf": 100}),
    **histogram("barge_in_to_silence_seconds", "", {"0.2": 5, "0.4": 5, "+Inf": 5}),
    **histogram("gateway_tick_late_seconds", "", {"0.005": 3000, "0.05": 3000, "+Inf": 3000}),
    **gpu(90),
    held_back("power_cap"): level(1),
    held_back("heat"): level(0),
    'gateway_turns_total{outcome="finished"}': growing(100),
    'gateway_turns_total{outcome="failed"}': growing(0),
    "gateway_sessions_begun_total": growing(20),
    'gateway_refused_total{service="asr"}': growing(0),
    'gateway_pictures_total{source="turn"}': growing(10000),
    "gateway_late_pictures_total": growing(10),
    "gateway_dropped_pictures_total": growing(0),
    'face_late_frames_total{mode="speaking"}': growing(0),
    'face_late_frames_total{mode="live"}': growing(5000),
    "gateway_voice_underruns_total": growing(0),
    MET: growing(0),
    LOST: level(0),
    GIVEN_UP: growing(0),
    'gateway_openai_requests_total{route="/v1/audio/speech",status="200"}': growing(20),
    'bus_received_chunks_total{kind="voice"}': growing(100000),
    'bus_lost_chunks_total{kind="voice"}': growing(0),
    'bus_dropped_chunks_total{kind="voice",reason="stale"}': growing(5000),
}


@dataclass(frozen=True)
class Fault:
    """What goes wrong in a healthy fleet, and what shall be told after so many minutes."""

    name: str
    series: Mapping[str, str]
    fires: tuple[str, ...]
    """`Alert severity` of all that fire."""
    gone: tuple[str, ...] = ()
    """Series that there are no more."""
    minutes: int = 90


def of(alert: str) -> tuple[str, str]:
    """Both alerts of an objective: where the fleet is younger than 3 days, a fast burn is both."""
    return f"{alert} page", f"{alert} ticket"


def slow(count: float) -> dict[str, str]:
    return answers(100 - count)


FACE, GATEWAY = JOB.format("face"), JOB.format("gateway")
OBJECTIVES = ("AnswersSlow", "TurnsFail", "VisitorsRefused", "PicturesLate", "StagesGone")
SECOND_FACE = 'job="visavis",service="face",instance="face-2"'
HOUR, DAYS = 60, 3 * 24 * 60
NONE: tuple[str, ...] = ()
SKIPPED = 'face_late_frames_total{mode="speaking"}'
FAILED, LATE = 'gateway_turns_total{outcome="failed"}', "gateway_late_pictures_total"
REFUSED = 'gateway_refused_total{service="asr"}'
WORK = 'background_restarts_total{service="gateway",work="ticker"}'
DEGRADED = 'engine_degraded_total{engine="x",from_backend="tensorrt",to_backend="onnxruntime"}'

FAULTS = (
    Fault("nothing", {}, NONE),
    Fault("80 of 100 answers are slow", slow(80), of("AnswersSlow")),
    Fault("a fifth of turns fails", {FAILED: growing(30)}, of("TurnsFail")),
    Fault("as many refused as let in", {REFUSED: growing(20)}, of("VisitorsRefused")),
    Fault("a third of pictures is late", {LATE: growing(3300)}, of("PicturesLate")),
    Fault("pictures are dropped", {"gateway_dropped_pictures_total": growing(3300)},
          of("PicturesLate")),
    Fault("the face skips a third of its pictures", {SKIPPED: growing(3300)}, of("PicturesLate")),
    Fault("the face has gone from discovery", {}, ("StagesGone page",), gone=(FACE,)),
    Fault("the face hangs", {f"up{{{FACE}}}": level(0)}, ("StagesGone page", "ProcessDown ticket")),
    Fault(
        "the face was away while the fleet started",
        {f"up{{{FACE}}}": "0+0x4 1+0x30"},
        NONE,
        minutes=25,
    ),
    Fault("a second gateway hangs",
          {'up{job="visavis",service="gateway",instance="b"}': level(0)}, ("ProcessDown ticket",)),
    Fault("asr is full", {f"attached_sessions{{{JOB.format('asr')}}}": level(4)},
          ("NoRoomLeft ticket",)),
    Fault("nothing more is predicted to fit",
          {f"admission_free_slots{{{JOB.format('llm')}}}": level(0)}, ("NoRoomLeft ticket",)),
    Fault("the line is slow",
          histogram("gateway_queue_wait_seconds", "", {"40.0": 5, "80.0": 5, "160.0": 10,
                                                       "+Inf": 10}),
          ("WaitingLong ticket",)),
    Fault("a drain hangs", {f"draining{{{FACE}}}": level(1)}, ("DrainNeverEnds ticket",)),
    Fault("the bus loses a hundredth", {'bus_lost_chunks_total{kind="voice"}': growing(1000)},
          ("BusLosesChunks ticket",)),
    Fault("a reader is too slow",
          {'bus_dropped_chunks_total{kind="voice",reason="full"}': growing(1000)},
          ("BusLosesChunks ticket",)),
    Fault("an engine has stepped down", {DEGRADED: "_x60 1+0x30"}, ("EngineSteppedDown ticket",)),
    Fault("it did so long ago", {DEGRADED: "1+0x90"}, NONE),
    Fault("lasting work fails", {WORK: growing(1)}, ("BackgroundWorkFails ticket",)),
    Fault("it began anew twice", {WORK: "_x80 1 2+0x10"}, NONE),
    Fault("the voice has gaps", {"gateway_voice_underruns_total": growing(30)},
          ("VoiceHasGaps ticket",)),
    Fault("sound and picture part",
          histogram("av_skew_seconds", ',picture="lags"', {"0.01": 0, "0.08": 100, "+Inf": 100}),
          ("PictureOutOfStep ticket",)),
    Fault("the voice is slow to stop",
          histogram("barge_in_to_silence_seconds", "", {"0.2": 0, "0.4": 5, "+Inf": 5}),
          ("InterruptionsSlow ticket",)),
    Fault("the gateway is late",
          histogram("gateway_tick_late_seconds", "", {"0.005": 0, "0.05": 3000, "+Inf": 3000}),
          ("GatewayTicksLate ticket",)),
    Fault("the GPU's memory is full", gpu(99), ("GpuMemoryNearlyFull ticket",)),
    Fault("the GPU is too hot", {held_back("heat"): level(1)}, ("GpuHeldBack ticket",)),
    Fault("a broadcast's target is away", {LOST: "0+0x80 1+0x10"}, ("BroadcastLost page",)),
    Fault("it was back after two minutes", {LOST: "0+0x80 1 1 0+0x8"}, NONE),
    Fault("it is tried no more", {GIVEN_UP: "0+0x80 1+0x10"}, ("BroadcastLost page",)),
    Fault("a third of the requests of OpenAI's clients fails",
          {'gateway_openai_requests_total{route="/v1/audio/speech",status="500"}': growing(10)},
          ("OpenAiFails ticket",)),
    Fault("four faces began and ended",
          {f'process_start_time_seconds{{job="visavis",service="face",instance="{n}"}}':
           f"_x80 {n}+0x5" for n in range(4)}, ("ProcessesKeepEnding ticket",)),
    Fault("four faces began and ended, and none is there now",
          {f'process_start_time_seconds{{job="visavis",service="face",instance="{n}"}}':
           f"_x80 {n}+0x5" for n in range(4)},
          ("ProcessesKeepEnding ticket", "StagesGone page"), gone=(FACE,)),
    Fault("one of two faces ends before it is read, all the time",
          {f"up{{{SECOND_FACE}}}": level(1), MET: "0+0x80 1+1x10"},
          ("ProcessesKeepEnding ticket",)),
    Fault("so does the only face", {MET: "0+0x80 1+1x10"},
          ("ProcessesKeepEnding ticket", "StagesGone page"), gone=(FACE,)),
    Fault("a fleet of three began anew twice",
          {f"up{{{SECOND_FACE}}}": level(1), f"up{{{SECOND_FACE}}}".replace("-2", "-3"): level(1),
           MET: "0+0x80 3 3 6+0x8"}, NONE),
    Fault("turns fail, of which there are three an hour",
          {'gateway_turns_total{outcome="finished"}': growing(0.05), FAILED: growing(0.05)}, NONE),
    Fault("one process' end fails two of thirty turns",
          {'gateway_turns_total{outcome="finished"}': growing(0.3), FAILED: "0+0x70 2+0x20"}, NONE),
    Fault("one process' end loses a second of its pictures",
          {'gateway_pictures_total{source="turn"}': growing(25), LATE: growing(0),
           "gateway_dropped_pictures_total": "0+0x70 33+0x20"}, NONE),
    Fault("an eighth of turns fails for seven hours", {FAILED: growing(13)}, of("TurnsFail"),
          minutes=7 * HOUR),
)  # fmt: skip
# Three days, in which budgets are spent at twice, or at half, the rate that they allow.
SLOW_FAULTS = tuple(
    Fault(
        f"budgets are spent {rate:g} times as fast",
        {
            **slow(5 * rate),
            FAILED: growing(rate),
            REFUSED: growing(0.2 * rate),
            LATE: growing(100 * rate),
            f"up{{{FACE}}}": "1+0x4139 0+0x1 1+0x180" if rate > 1 else level(1),
        },
        tuple(f"{name} ticket" for name in OBJECTIVES if rate > 1),
        minutes=DAYS,
    )
    for rate in (2.0, 0.5)
)


def as_test(fault: Fault) -> dict[str, object]:
    """As promtool reads it."""
    series = {
        name: values
        for name, values in {**HEALTHY, **fault.series}.items()
        if not any(labels in name for labels in fault.gone)
    }
    return {
        "name": fault.name,
        "interval": "1m",
        "input_series": [
            {"series": name, "values": values.replace("$minutes", str(fault.minutes))}
            for name, values in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname, severity) (ALERTS{alertstate="firing"})',
                "eval_time": f"{fault.minutes}m",
                "exp_samples": [
                    {
                        "labels": f'{{alertname="{alert}", severity="{severity}"}}',
                        "value": 1,
                    }
                    for alert, severity in map(str.split, fault.fires)
                ],
            }
        ],
    }


def promtool(*arguments: str | Path) -> str:
    """What is wrong; nothing if all is right."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(
    ("faults", "interval"), [(FAULTS, "5m"), (SLOW_FAULTS, "1h")], ids=["faults", "slow faults"]
)
def test_each_fault_is_told_and_nothing_else(
    tmp_path: Path, faults: tuple[Fault, ...], interval: str
) -> None:
    # JSON is YAML.
    tests = {
        "rule_files": [str(file) for file in sorted((MONITORING / "rules").glob("*.yml"))],
        "evaluation_interval": interval,
        "tests": [as_test(fault) for fault in faults],
    }
    (tmp_path / "faults.yml").write_text(json.dumps(tests), encoding="utf-8")
    assert promtool("test", "rules", tmp_path / "faults.yml") == ""


def test_every_alert_has_a_fault() -> None:
    told = {alert for fault in (*FAULTS, *SLOW_FAULTS) for alert in fault.fires}
    rules = [rule for rule in all_rules() if "alert" in rule]
    assert {f"{r['alert']} {dict(r['labels'])['severity']}" for r in rules} == told


def test_prometheus_takes_the_configuration_and_every_panels_query(tmp_path: Path) -> None:
    assert promtool("check", "config", MONITORING / "prometheus.yml") == ""
    expressions = [e for panel in queries().values() for e in panel]
    rules = [
        {"record": "panel:query", "labels": {"number": str(number)}, "expr": expression}
        for number, expression in enumerate(
            e.replace("$__rate_interval", "1m") for e in expressions
        )
    ]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}), "utf-8")
    assert promtool("check", "rules", file) == ""
