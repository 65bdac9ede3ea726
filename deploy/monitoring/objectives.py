"""What visitors are promised, and the rules that tell when it is broken.

`python -m deploy.monitoring.objectives` writes rules/objectives.yml anew. The alerts are those of
the Google SRE Workbook, chapter 5 (Alerting on SLOs), section 6: multi-window, multi-burn-rate. A
burn rate of 1 spends the error budget in exactly the window of the objective, 30 days.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RULES = Path(__file__).parent / "rules" / "objectives.yml"
RUNBOOKS = "docs/runbooks.md"

# Burn rate, long window, short window.
_PAGE = ((14.4, "1h", "5m"), (6.0, "6h", "30m"))
_TICKET = ((1.0, "3d", "6h"),)
_WINDOWS = ("5m", "30m", "1h", "6h", "3d")
# Fewer events in a window say nothing about a share: one failed turn of three is no outage, and
# two of twenty, of the two visitors whom one process' end has hit, are none either.
_FEWEST, _FEWEST_BAD = 20, 5
# Of pictures there are 25 in a second: a minute of them, and three seconds.
_FEWEST_PICTURES, _FEWEST_BAD_PICTURES = 1500, 75
# Processes that start with the Prometheus that watches them are not there at first. Once it has
# watched for twice the short window, that window knows nothing of it.
_STAGES_THERE = "visavis:stages_there:ratio"
_WATCHED = {"5m": "10m", "30m": "1h", "6h": "12h"}


@dataclass(frozen=True)
class Objective:
    """One promise to visitors."""

    name: str
    """Of the recorded ratios: visavis:NAME:ratio_rate5m."""
    alert: str
    promise: str
    """What is promised, as a sentence."""
    target: float
    """The share of events, or of time, that shall be good."""
    bad: str
    """PromQL of the share that was bad in $window."""
    events: str = ""
    """PromQL of how many there were in $window, good and bad; "": it is a share of time."""
    fewest: int = _FEWEST
    """Events that are enough to judge by."""
    fewest_bad: int = _FEWEST_BAD
    """And those of them that have to be bad."""

    def enough(self, window: str, watched: str) -> str:
        """PromQL that has a value where a window, or the time watched, is enough to judge by."""
        if not self.events:
            return f"{_STAGES_THERE} offset {watched}"
        events = self.events.replace("$window", window)
        bad = f"visavis:{self.name}:ratio_rate{window} * ({events})"
        return f"{events} >= {self.fewest} and {bad} >= {self.fewest_bad}"


ASKED = 'origin!="welcome"'
# What the face skipped because its time had passed never came to the gateway.
_PICTURES_LOST = (
    "sum($increase(gateway_dropped_pictures_total[$window]))"
    ' + sum($increase(face_late_frames_total{mode="speaking"}[$window]))'
)
_PICTURES = f'sum($increase(gateway_pictures_total{{source="turn"}}[$window])) + {_PICTURES_LOST}'
_PICTURES_BAD = f"sum($increase(gateway_late_pictures_total[$window])) + {_PICTURES_LOST}"
_STAGES = "asr|llm|tts|face|gateway"

OBJECTIVES = (
    Objective(
        "answers_slow",
        "AnswersSlow",
        "95 % of answers begin within 1 s of the end of the question",
        0.95,
        f'1 - sum(rate(voice_to_voice_seconds_bucket{{le="1.0",{ASKED}}}[$window]))'
        f" / sum(rate(voice_to_voice_seconds_count{{{ASKED}}}[$window]))",
        f"sum(increase(voice_to_voice_seconds_count{{{ASKED}}}[$window]))",
    ),
    Objective(
        "turns_failed",
        "TurnsFail",
        "99 % of turns do not fail",
        0.99,
        '(sum(rate(gateway_turns_total{outcome="failed"}[$window])) or vector(0))'
        ' / sum(rate(gateway_turns_total{outcome!~"discarded|replaced"}[$window]))',
        'sum(increase(gateway_turns_total{outcome!~"discarded|replaced"}[$window]))',
    ),
    Objective(
        "visitors_refused",
        "VisitorsRefused",
        "99 % of those who ask for a session are let in",
        0.99,
        "(sum(rate(gateway_refused_total[$window])) or vector(0))"
        " / ((sum(rate(gateway_refused_total[$window])) or vector(0))"
        " + sum(rate(gateway_sessions_begun_total[$window])))",
        "(sum(increase(gateway_refused_total[$window])) or vector(0))"
        " + sum(increase(gateway_sessions_begun_total[$window]))",
    ),
    Objective(
        "pictures_late",
        "PicturesLate",
        "99 % of the pictures of an answer leave in time",
        0.99,
        f"({_PICTURES_BAD}) / ({_PICTURES})".replace("$increase", "rate"),
        _PICTURES.replace("$increase", "increase"),
        _FEWEST_PICTURES,
        _FEWEST_BAD_PICTURES,
    ),
    Objective(
        "stages_gone",
        "StagesGone",
        "for 99.9 % of the time every kind of process answers",
        0.999,
        f"1 - avg_over_time({_STAGES_THERE}[$window])",
    ),
)

_HEAD = """\
# Written by `python -m deploy.monitoring.objectives`; a test holds it fresh.
# Multi-window, multi-burn-rate alerts on promises to visitors: Google SRE Workbook, chapter 5.
groups:
  - name: visavis-stages
    interval: 30s
    rules:
      - record: visavis:stages_there:ratio
        expr: >-
          (count(count by (service) (up{job="visavis", service=~"%s"} == 1))
          or vector(0)) / 5
"""

_GROUP = """\
  # {promise}.
  - name: visavis-{name}
    interval: 30s
    rules:
"""

_RECORD = """\
      - record: visavis:{name}:ratio_rate{window}
        expr: >-
          {expression}
"""

_ALERT = """\
      - alert: {alert}
        expr: >-
          {expression}
        labels: {{severity: {severity}}}
        annotations:
          summary: "Promised: {promise}."
          description: >-
            {{{{ $value | humanizePercentage }}}} of the last {window} were bad;
            {allowed} are allowed.
          runbook_url: {runbooks}#{anchor}
"""


def rules() -> str:
    """rules/objectives.yml."""
    return (_HEAD % _STAGES) + "".join(map(_group, OBJECTIVES))


def _group(objective: Objective) -> str:
    promise = objective.promise[0].upper() + objective.promise[1:]
    parts = [_GROUP.format(promise=promise, name=objective.name)]
    parts += [
        _RECORD.format(
            name=objective.name,
            window=window,
            expression=objective.bad.replace("$window", window),
        )
        for window in _WINDOWS
    ]
    for severity, burns in (("page", _PAGE), ("ticket", _TICKET)):
        parts.append(
            _ALERT.format(
                alert=objective.alert,
                expression=_breaks(objective, burns),
                severity=severity,
                promise=objective.promise,
                window=burns[0][1],
                allowed=_percent(objective),
                runbooks=RUNBOOKS,
                anchor=objective.alert.lower(),
            )
        )
    return "".join(parts)


def _breaks(objective: Objective, burns: tuple[tuple[float, str, str], ...]) -> str:
    """PromQL that has a value where the budget burns as fast in both windows of a pair."""
    pairs = []
    for rate, long, short in burns:
        bound = f"{rate * (1 - objective.target):.6g}"
        parts = [
            f"visavis:{objective.name}:ratio_rate{window} > {bound}" for window in (long, short)
        ]
        parts.append(objective.enough(long, _WATCHED[short]))
        pairs.append(f"({' and '.join(parts)})")
    return "\n          or ".join(pairs)


def _percent(objective: Objective) -> str:
    return f"{100 * (1 - objective.target):.6g} %"


if __name__ == "__main__":
    RULES.write_text(rules(), encoding="utf-8")
