"""Asks a Prometheus every panel's query, and tells which have no data and why.

`python -m deploy.monitoring.check_panels --prometheus http://127.0.0.1:9090` prints a table; its
exit status is 1 where a query fails, or has no data for no reason known here. --window: what
Grafana would put for $__rate_interval; one that holds a load finds what has happened in it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from deploy.monitoring.catalogue import series_in

_DASHBOARDS = Path(__file__).parent / "grafana" / "dashboards"
_NEVER_HAPPENED = "nothing of the kind has happened: its series begins with the first"

# Metrics that not every stack has, and why; by how their names begin.
_ABSENT = {
    "DCGM_FI_DEV_": "no GPU, or no DCGM exporter",
    "gpu_": "no GPU: services on a CPU tell nothing of one",
    "engine_run_seconds": "no GPU: only compiled plans have runs",
    "engine_memory_bytes": "no GPU: only compiled plans tell their memory",
    "simulated_device_": "no simulation",
    "engine_degraded_total": _NEVER_HAPPENED,
    "engine_restarts_total": _NEVER_HAPPENED,
    "background_restarts_total": _NEVER_HAPPENED,
    "bus_dropped_chunks_total": _NEVER_HAPPENED,
    "bus_lost_chunks_total": _NEVER_HAPPENED,
    "gateway_refused_total": _NEVER_HAPPENED,
    "gateway_queue_ended_total": _NEVER_HAPPENED,
    "gateway_passed_on_total": "one gateway: it hands nothing on",
    "gateway_viewer_drops_total": _NEVER_HAPPENED,
    "gateway_mic_packets_total": _NEVER_HAPPENED,
    "gateway_idle_loop_fetches_total": _NEVER_HAPPENED,
    "false_interruptions_total": _NEVER_HAPPENED,
    "gateway_answer_cache_lookups_total": "no answers are prepared or learnt here",
    "llm_engine_requests": "this backend of the language model does not tell",
    "barge_in_decided_to_silence_seconds": _NEVER_HAPPENED,
}


@dataclass(frozen=True)
class Found:
    """What one query of a panel brought."""

    board: str
    panel: str
    legend: str
    series: int
    """Lines that it would draw."""
    values: int
    """Of these, those with a number now."""
    why: str
    """Where there is nothing to see."""

    @property
    def known(self) -> bool:
        """Whether it has data, or a reason to have none."""
        return bool(self.values) or (bool(self.why) and not self.why.startswith("?"))


class Prometheus:
    """What is asked of a Prometheus server."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def values(self, expression: str) -> list[float]:
        """The newest value of each series. Raises httpx.HTTPError, also where the query is bad."""
        answer = self._http.get("/api/v1/query", params={"query": expression})
        answer.raise_for_status()
        result = answer.json()["data"]["result"]
        return [float(series["value"][1]) for series in result]


def targets() -> Iterator[tuple[str, str, str, str]]:
    """Dashboard, panel, legend and expression of each query."""
    for file in sorted(_DASHBOARDS.glob("*.json")):
        for panel in json.loads(file.read_text(encoding="utf-8"))["panels"]:
            for target in panel.get("targets", ()):
                yield file.stem, panel["title"], target["legendFormat"], target["expr"]


def ask(prometheus: Prometheus, window: str) -> list[Found]:
    """Every query of every panel. Raises httpx.HTTPError where there is no Prometheus."""
    found = []
    for board, panel, legend, expression in targets():
        why = ""
        try:
            values = prometheus.values(expression.replace("$__rate_interval", window))
        except httpx.HTTPStatusError as error:
            values, why = [], f"? {error.response.json().get('error', error)}"
        numbers = sum(not math.isnan(value) for value in values)
        if not numbers and not why:
            why = _why(prometheus, expression, window)
        found.append(Found(board, panel, legend, len(values), numbers, why))
    return found


def _why(prometheus: Prometheus, expression: str, window: str) -> str:
    """Why a query has nothing to show; "?" first where that is not known."""
    names = sorted(series_in(expression))
    for name in names:
        if not prometheus.values(f"count({name})"):
            known = [why for start, why in _ABSENT.items() if name.startswith(start)]
            return known[0] if known else f"? there is no {name}"
    if all(name.startswith("visavis:") for name in names):
        return "nothing of the kind in the window of the recorded ratio"
    counts = [name for name in names if name.endswith(("_bucket", "_count"))]
    if counts and not any(sum(prometheus.values(f"increase({n}[{window}])")) for n in counts):
        return f"nothing of the kind in the last {window}"
    return "? it has series and no value"


def main() -> int:
    """The table, and the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090")
    parser.add_argument("--window", default="5m")
    options = parser.parse_args()
    with httpx.Client(base_url=options.prometheus, timeout=10.0, trust_env=False) as http:
        found = ask(Prometheus(http), options.window)
    write = sys.stdout.write
    write("| dashboard | panel | query | series | with a value | if none, why |\n")
    write("|---|---|---|---|---|---|\n")
    for one in found:
        shown = (one.board, one.panel, one.legend, str(one.series), str(one.values), one.why)
        write(f"| {' | '.join(shown)} |\n")
    with_data = sum(bool(one.values) for one in found)
    unknown = sum(not one.known for one in found)
    write(f"\n{with_data} of {len(found)} queries have data; {unknown} have none and no reason.\n")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
