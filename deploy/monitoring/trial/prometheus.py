"""A Prometheus of our own, with our scrape configuration and rules; and what one is asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from deploy.monitoring.trial.scaled import RULES, scaled_duration, scaled_rules
from visavis.serving.errors import VisavisError
from visavis.tools.stack.nats_server import free_port

_NAMESPACE = "visavis"
"""That of deploy/kubernetes."""
_CONFIGURATION = Path(__file__).parents[1] / "prometheus.yml"
_READY_TIMEOUT_S = 20.0
_POLL_S = 0.1
_HTTP_TIMEOUT_S = 10.0
# A twentieth of 5 s would make the scraping itself the load.
_QUICKEST_SCRAPE_S = 1
NOTICED_S = 12.0
"""Until Prometheus has read a process that is new, at most, however short the rules' times are: it
asks for the list and reads once a second, and in between gathers changes twice, for 5 s each."""


@dataclass(frozen=True)
class Series:
    """What a query brought for one set of labels."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]
    """Seconds since 1970, and the value then."""


class Prometheus:
    """What is asked of a Prometheus server. Its methods raise httpx.HTTPError."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def values(self, expression: str) -> list[float]:
        """The newest value of each series. Raises httpx.HTTPStatusError where the query is bad."""
        result = (await self._asked("/api/v1/query", query=expression))["result"]
        return [float(series["value"][1]) for series in result]

    async def over(
        self, expression: str, start_s: float, end_s: float, step_s: float
    ) -> list[Series]:
        """Each series between two moments, a value for every step that has one."""
        asked = await self._asked(
            "/api/v1/query_range", query=expression, start=start_s, end=end_s, step=step_s
        )
        return [
            Series(one["metric"], tuple((float(at), float(value)) for at, value in one["values"]))
            for one in asked["result"]
        ]

    async def alerts(self) -> set[str]:
        """`Alert severity` of all that fire now."""
        told = (await self._asked("/api/v1/alerts"))["alerts"]
        return {
            f"{alert['labels']['alertname']} {alert['labels']['severity']}"
            for alert in told
            if alert["state"] == "firing"
        }

    async def rules(self) -> list[dict[str, Any]]:
        """Every rule as the server knows it: name, type, query, health …"""
        groups = (await self._asked("/api/v1/rules"))["groups"]
        return [rule for group in groups for rule in group["rules"]]

    async def _asked(self, path: str, **parameters: Any) -> Any:
        answer = await self._http.get(path, params=parameters)
        answer.raise_for_status()
        return answer.json()["data"]


@contextlib.asynccontextmanager
async def asking(url: str) -> AsyncIterator[Prometheus]:
    """The server at an address."""
    async with httpx.AsyncClient(base_url=url, timeout=_HTTP_TIMEOUT_S, trust_env=False) as http:
        yield Prometheus(http)


def configuration(gateway_url: str, port: int, rules: str, time_scale: float) -> str:
    """prometheus.yml for the gateway at an address and a server at a port, as JSON.

    rules: pattern of the files; time_scale: other than 1 where those are `scaled_rules`.
    """
    told = yaml.safe_load(_CONFIGURATION.read_text(encoding="utf-8"))
    told["rule_files"] = [rules]
    jobs = {job["job_name"]: job for job in told["scrape_configs"]}
    # As the Prometheus operator does, for what scales by the series of its own namespace alone.
    namespace = {"target_label": "namespace", "replacement": _NAMESPACE}
    jobs["visavis"].setdefault("relabel_configs", []).append(namespace)
    found = jobs["visavis"]["http_sd_configs"][0]
    found["url"] = f"{gateway_url}/v1/metrics-targets"
    jobs["prometheus"]["static_configs"][0]["targets"] = [f"127.0.0.1:{port}"]
    if time_scale != 1:
        told["global"] = {
            "scrape_interval": f"{_QUICKEST_SCRAPE_S}s",
            "evaluation_interval": scaled_duration("30s", time_scale),
        }
        found["refresh_interval"] = f"{_QUICKEST_SCRAPE_S}s"
    return json.dumps(told, indent=1)


@contextlib.asynccontextmanager
async def own_prometheus(
    folder: Path, gateway_url: str, time_scale: float = 1.0
) -> AsyncIterator[Prometheus]:
    """A server that scrapes the gateway's stack; what it keeps lies in the folder.

    Raises VisavisError where none is installed, or it does not start.
    """
    program = shutil.which("prometheus")
    if program is None:
        raise VisavisError("there is no prometheus; Debian's package of that name will do")
    port, rules = free_port(), str(RULES / "*.yml")
    if time_scale != 1:
        scaled = folder / "rules.json"
        scaled.write_text(scaled_rules(time_scale), encoding="utf-8")
        rules = str(scaled)
    config = folder / "prometheus.json"
    config.write_text(configuration(gateway_url, port, rules, time_scale), encoding="utf-8")
    flags = ["--config.file", str(config), "--storage.tsdb.path", str(folder / "series")]
    flags += ["--web.listen-address", f"127.0.0.1:{port}"]
    flags += ["--enable-feature=exemplar-storage"]
    with (folder / "prometheus.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            program, *flags, stdout=log, stderr=log, start_new_session=True
        )
    try:
        url = f"http://127.0.0.1:{port}"
        async with asking(url) as prometheus:
            await _until_ready(url, process, folder / "prometheus.log")
            yield prometheus
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _until_ready(url: str, process: asyncio.subprocess.Process, log: Path) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_READY_TIMEOUT_S), httpx.AsyncClient(trust_env=False) as http:
            while process.returncode is None:
                with contextlib.suppress(httpx.HTTPError):
                    if (await http.get(f"{url}/-/ready")).is_success:
                        return
                await asyncio.sleep(_POLL_S)
    raise VisavisError(f"prometheus does not start; its log: {log}")
