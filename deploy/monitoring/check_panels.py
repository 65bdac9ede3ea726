"""Asks a Prometheus every panel's query, every rule's expression and what KEDA scales by, and tells
which have no data and why.

    python -m deploy.monitoring.check_panels
    python -m deploy.monitoring.check_panels --pictures docs
    python -m deploy.monitoring.check_panels --prometheus http://127.0.0.1:9090 --window 5m

Without --prometheus it starts all that it needs and ends it again: a stack of profile `tiny` with
two gateways, a Prometheus with our scrape configuration and rules, visitors, and clients of all
other doors (OpenAI's, NVIDIA's, Wyoming's, a broadcast, a room). It prints a table; its exit status
is 1 where a query fails, or has no data for no reason known here. --window: what Grafana would put
for $__rate_interval; one that holds a load finds what has happened in it. --pictures: draw the
dashboards into that folder.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml
from rich.console import Console

from deploy.monitoring.catalogue import series_in
from deploy.monitoring.trial.crowd import (
    KNOWN_QUESTION,
    Crowd,
    own_stack,
    spoken_questions,
    visiting,
)
from deploy.monitoring.trial.doors import CLIENT_KEY, at_the_doors
from deploy.monitoring.trial.pictures import View, draw_dashboard, write_png
from deploy.monitoring.trial.prometheus import Prometheus, asking, own_prometheus
from visavis.client import GatewayClient
from visavis.serving.errors import VisavisError
from visavis.tools.stack.nats_server import free_port

DASHBOARDS = Path(__file__).parent / "grafana" / "dashboards"
_NEVER_HAPPENED = "nothing of the kind has happened: its series begins with the first"
_NEEDS_FAULT = "needs a fault, and there was none: its series begins with the first"

# Metrics that not every stack has, and why; by how their names begin.
_ABSENT = {
    "DCGM_FI_DEV_": "no GPU, or no DCGM exporter",
    "gpu_": "no GPU: services on a CPU tell nothing of one",
    "engine_run_seconds": "no GPU: only compiled plans have runs",
    "engine_memory_bytes": "no GPU: only compiled plans tell their memory",
    "simulated_device_": "no simulation",
    "engine_degraded_total": _NEEDS_FAULT,
    "engine_restarts_total": _NEEDS_FAULT,
    "background_restarts_total": _NEEDS_FAULT,
    "full_collection_seconds": "no such search fell into the time that was looked at",
    "bus_dropped_chunks_total": _NEVER_HAPPENED,
    "bus_lost_chunks_total": _NEVER_HAPPENED,
    "gateway_connections_refused_total": _NEVER_HAPPENED,
    "gateway_refused_total": _NEVER_HAPPENED,
    "gateway_queue_ended_total": _NEVER_HAPPENED,
    "gateway_room_comments_total": "no live room is open",
    "gateway_realtime_errors_total": _NEVER_HAPPENED,
    "gateway_realtime_responses_total": _NEVER_HAPPENED,
    "gateway_openai_": "no client of OpenAI's API is here",
    "gateway_passed_on_total": "one gateway: it hands nothing on",
    "gateway_wyoming_requests_total": "nobody speaks Wyoming here",
    "gateway_viewer_drops_total": _NEVER_HAPPENED,
    "gateway_mic_packets_total": _NEVER_HAPPENED,
    "gateway_broadcast_dropped_pictures_total": _NEVER_HAPPENED,
    "gateway_broadcast": "nobody broadcasts here",
    "gateway_idle_loop_fetches_total": _NEVER_HAPPENED,
    "false_interruptions_total": _NEVER_HAPPENED,
    "gateway_answer_cache_lookups_total": "no answers are prepared or learnt here",
    "gateway_answer_cache_removals_total": _NEVER_HAPPENED,
    "gateway_knowledge_lookups_total": "no folder of texts is given here",
    "gateway_tool_calls_total": "no tools are offered here",
    "gateway_tool_seconds": "no tools are offered here",
    "llm_engine_requests": "this backend of the language model does not tell",
    "barge_in_decided_to_silence_seconds": _NEVER_HAPPENED,
}
_THRESHOLD = re.compile(r"(?<![=!<>~])(?:==|>=|<=|>|<)\s*-?[\d.]+")
_MULTIPLE = re.compile(r">(?=\s*[\d.]+\s*\*)")  # of something else that is measured
_RULES, _SCALING = "rules", "scaling"
_MANIFESTS = Path(__file__).parents[1] / "kubernetes" / "base"
_OF_NAMESPACE = 'namespace="'
# One session less than are wanted, so that somebody always waits in line, and who does not is
# refused; and slots beyond them, which those who want no session find free.
_GATEWAYS, _SESSIONS_OF_ONE, _SPARE_SLOTS = 2, 3, 2
_SLOTS = _GATEWAYS * _SESSIONS_OF_ONE + _SPARE_SLOTS
_TALKING = Crowd(visitors=3, interval_s=8.0, visit_s=45.0, interrupt_share=0.8)
_BY_WEBRTC = Crowd(visitors=1, interval_s=10.0, visit_s=45.0, transport="webrtc", seed=5)
_KNOCK_EVERY_S = 40.0
_STAY_S = 5.0
_WARM_UP_S = 30.0
_LOOPS_WITHIN_S = 60
_PICTURE_WINDOW = "30s"
_TEXT = "# The museum\n\nIt opens at nine. The oldest thing in it is a lamp of clay.\n"
_DOORS = (
    "wyoming_port = {port}\nknowledge = {texts}\ntool_rounds = 2\n"
    "[asr]\nclient_key = {key}\n[tts]\nclient_key = {key}\n[face]\nclient_key = {key}\n"
)


@dataclass(frozen=True)
class Asked:
    """One query of a panel, or one rule."""

    board: str
    panel: str
    legend: str
    expression: str


@dataclass(frozen=True)
class Found:
    """What it brought."""

    asked: Asked
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


def boards() -> dict[str, dict[str, Any]]:
    """Grafana's JSON of each dashboard, by name."""
    files = sorted(DASHBOARDS.glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def targets() -> Iterator[Asked]:
    """Each query of each panel."""
    for name, board in boards().items():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield Asked(name, panel["title"], target["legendFormat"], target["expr"])


def scaling() -> Iterator[Asked]:
    """Each query of KEDA's in the Kubernetes manifests."""
    for file in sorted(_MANIFESTS.glob("*.yaml")):
        for manifest in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if manifest["kind"] == "ScaledObject":
                for trigger in manifest["spec"]["triggers"]:
                    what = trigger.get("name", trigger["type"])
                    yield Asked(_SCALING, file.stem, what, trigger["metadata"]["query"])


async def rules(prometheus: Prometheus) -> list[Asked]:
    """Each rule that the server knows. Of an alert, what it measures: its thresholds are left out,
    since a healthy stack breaks none. Raises VisavisError where the server cannot evaluate one."""
    known = await prometheus.rules()
    failed = [f"{rule['name']}: {rule['lastError']}" for rule in known if rule["health"] == "err"]
    if failed:
        raise VisavisError("; ".join(failed))
    return [
        Asked(_RULES, rule["name"], rule["type"], measured(rule["query"]))
        if rule["type"] == "alerting"
        else Asked(_RULES, rule["name"], rule["type"], rule["query"])
        for rule in known
    ]


def measured(alert: str) -> str:
    """An alert's expression without its thresholds."""
    return _THRESHOLD.sub("", _MULTIPLE.sub("-", alert))


async def ask(prometheus: Prometheus, window: str) -> list[Found]:
    """Every query of every panel and of KEDA's, and every rule.

    Raises httpx.HTTPError where there is no Prometheus, VisavisError where a rule cannot be
    evaluated.
    """
    found = []
    for asked in (*targets(), *scaling(), *await rules(prometheus)):
        why = ""
        try:
            values = await prometheus.values(asked.expression.replace("$__rate_interval", window))
        except httpx.HTTPStatusError as error:
            values, why = [], f"? {error.response.json().get('error', error)}"
        numbers = sum(not math.isnan(value) for value in values)
        if not numbers and not why:
            why = await _why(prometheus, asked.expression, window)
        found.append(Found(asked, len(values), numbers, why))
    return found


async def _why(prometheus: Prometheus, expression: str, window: str) -> str:
    """Why a query has nothing to show; "?" first where that is not known."""
    names = sorted(series_in(expression))
    for name in names:
        if not await prometheus.values(f"count({name})"):
            known = [why for start, why in _ABSENT.items() if name.startswith(start)]
            return known[0] if known else f"? there is no {name}"
    if _OF_NAMESPACE in expression and not await prometheus.values("count({namespace!=''})"):
        return "no namespace is told here: in Kubernetes the Prometheus operator puts it on"
    if "offset" in expression:
        return "judged once Prometheus has watched for twice the short window"
    if all(name.startswith("visavis:") for name in names):
        return "nothing of the kind in the window of the recorded ratio"
    counts = [name for name in names if name.endswith(("_bucket", "_count"))]
    rises = [sum(await prometheus.values(f"increase({name}[{window}])")) for name in counts]
    if counts and not any(rises):
        return f"nothing of the kind in the last {window}"
    return "? it has series and no value"


def table(found: Sequence[Found]) -> str:
    """Markdown."""
    lines = [
        "| dashboard | panel | query | series | with a value | if none, why |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        asked = one.asked
        shown = (asked.board, asked.panel, asked.legend, one.series, one.values, one.why)
        lines.append(f"| {' | '.join(map(str, shown))} |")
    lines.append("")
    for board in sorted({one.asked.board for one in found}):
        of_it = [one for one in found if one.asked.board == board]
        with_data = sum(bool(one.values) for one in of_it)
        lines.append(f"{board}: {with_data} of {len(of_it)} have data")
    unknown = sum(not one.known for one in found)
    lines.append(f"\n{unknown} have no data and no reason that is known.")
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------ a stack of our own


@contextlib.asynccontextmanager
async def loaded(folder: Path, clips: Path, seconds: float) -> AsyncIterator[Prometheus]:
    """A Prometheus that has watched a stack under load for so long; visitors still talk."""
    async with contextlib.AsyncExitStack() as contexts:
        port, texts = free_port(), folder / "texts"
        texts.mkdir(exist_ok=True)
        (texts / "museum.md").write_text(_TEXT, encoding="utf-8")
        more = _DOORS.format(port=port, texts=json.dumps(str(texts)), key=json.dumps(CLIENT_KEY))
        stack = await contexts.enter_async_context(
            own_stack(folder, _SLOTS, {"gateway": _GATEWAYS}, more=more, sessions=_SESSIONS_OF_ONE)
        )
        prometheus = await contexts.enter_async_context(own_prometheus(folder, stack.url))
        # First: who goes live does not wait in line.
        await contexts.enter_async_context(at_the_doors(stack.url, port))
        await _until_loops(prometheus)
        for crowd in (_BY_WEBRTC, _TALKING):
            await contexts.enter_async_context(visiting(stack.url, crowd, clips, folder))
        client = await contexts.enter_async_context(GatewayClient(stack.url))
        await asyncio.sleep(_WARM_UP_S)
        knocking = asyncio.create_task(_knock(client))
        try:
            await asyncio.sleep(seconds)
            yield prometheus
        finally:
            knocking.cancel()
            await asyncio.gather(knocking, return_exceptions=True)


async def _until_loops(prometheus: Prometheus) -> None:
    """A face makes a loop of its idle life while little else wants its processor: now, or late."""
    for _ in range(_LOOPS_WITHIN_S):
        if any(await prometheus.values("gateway_idle_loops")):
            return
        await asyncio.sleep(1.0)


async def _knock(client: GatewayClient) -> None:
    """Now and then one comes who asks what is known, by text, if he is let in at once; and one who
    connects and says nothing, until he is cut off."""
    while True:
        place = urlsplit(client.url)
        _, silent = await asyncio.open_connection(place.hostname, place.port)
        with contextlib.suppress(VisavisError):
            async with client.session(language="en") as session:
                await session.ask(KNOWN_QUESTION)
                await asyncio.sleep(_STAY_S)
        await asyncio.sleep(_KNOCK_EVERY_S)
        silent.close()


async def drawn(prometheus: Prometheus, found: Sequence[Found], seconds: float) -> dict[str, str]:
    """The dashboards' last seconds as SVG, by name."""
    now_s = time.time()
    view = View.of(now_s - seconds, now_s, _PICTURE_WINDOW)
    visitors = _TALKING.visitors + _BY_WEBRTC.visitors
    note = f"profile tiny on two cores, {visitors} visitors, rates over {_PICTURE_WINDOW}"
    pictures = {}
    for name, board in boards().items():
        why = {one.asked.panel: one.why for one in found if one.asked.board == name}
        pictures[name] = await draw_dashboard(prometheus, board, view, why, note)
    return pictures


async def _run(
    options: argparse.Namespace, clips: Path | None
) -> tuple[list[Found], dict[str, str]]:
    async with contextlib.AsyncExitStack() as contexts:
        if clips is None:
            prometheus = await contexts.enter_async_context(asking(options.prometheus))
        else:
            folder = options.keep
            if folder is None:
                folder = Path(contexts.enter_context(tempfile.TemporaryDirectory()))
            loading = loaded(folder, clips, options.seconds)
            prometheus = await contexts.enter_async_context(loading)
        found = await ask(prometheus, options.window or f"{options.seconds:.0f}s")
        pictures = await drawn(prometheus, found, options.seconds) if options.pictures else {}
    return found, pictures


def main() -> int:
    """The table, and the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prometheus", help="one that runs already")
    parser.add_argument("--window", help="of rates, such as 5m; default: as long as the load")
    parser.add_argument("--seconds", type=float, default=300.0, help="of load, and on pictures")
    parser.add_argument("--pictures", type=Path, help="folder for dashboard-NAME.png")
    parser.add_argument("--keep", type=Path, help="folder for logs and series; default: none")
    options = parser.parse_args()
    if options.keep is not None:
        options.keep = options.keep.resolve()
        options.keep.mkdir(parents=True, exist_ok=True)
    clips = None
    if options.prometheus is None:
        clips = spoken_questions(Console(stderr=True))
    found, pictures = asyncio.run(_run(options, clips))
    sys.stdout.write(table(found))
    if pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures.items():
        write_png(svg, options.pictures / f"dashboard-{name}.png")
    return 0 if all(one.known for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
