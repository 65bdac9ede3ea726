"""The rules with every time in them shortened by one factor.

A burn rate over six hours cannot be waited for. With `time_scale` 1/20 six hours are 18 minutes and
five minutes are 15 seconds: the same expressions, thresholds and names, so that what fires does so
for the same reason. What does not shrink with them is told in docs/monitoring.md.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).parents[1] / "rules"
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+)([smhd])")
# Where a duration stands in PromQL: a range, or after `offset`.
_IN_EXPRESSION = re.compile(r"(\[|\boffset )(\d+[smhd])\b")


def scaled_rules(time_scale: float) -> str:
    """All rules in one file, as JSON (which is YAML), with their times multiplied."""
    groups: list[dict[str, Any]] = []
    for file in sorted(RULES.glob("*.yml")):
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]:
            rules = [_scaled_rule(rule, time_scale) for rule in group["rules"]]
            interval = scaled_duration(group["interval"], time_scale)
            groups.append({**group, "interval": interval, "rules": rules})
    return json.dumps({"groups": groups}, indent=1)


def _scaled_rule(rule: dict[str, Any], time_scale: float) -> dict[str, Any]:
    def scaled(found: re.Match[str]) -> str:
        return found[1] + scaled_duration(found[2], time_scale)

    changed = {**rule, "expr": _IN_EXPRESSION.sub(scaled, rule["expr"])}
    if "for" in rule:
        changed["for"] = scaled_duration(rule["for"], time_scale)
    return changed


def scaled_duration(duration: str, time_scale: float) -> str:
    """Such as "5m", multiplied, in Prometheus' notation. Raises ValueError for what is none."""
    found = _DURATION.fullmatch(duration)
    if found is None:
        raise ValueError(f"{duration!r} is no duration such as 5m")
    return f"{round(1000 * int(found[1]) * _UNITS_S[found[2]] * time_scale)}ms"
