"""Prometheus counters and sums of the whole stack, and what they rise by."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping

import httpx
from prometheus_client.parser import text_string_to_metric_families

from visavis.client import GatewayClient

_TIMEOUT_S = 5.0
_SUFFIXES = ("_total", "_sum", "_count", "_bucket")


def parse_counters(text: str) -> dict[str, float]:
    """Sums over all labels of every counter, sum, count and bucket of a metrics page.

    Labelled ones stand there a second time as `name{label=value}`.
    """
    found: defaultdict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not sample.name.endswith(_SUFFIXES):
                continue
            found[sample.name] += sample.value
            for label, value in sample.labels.items():
                found[f"{sample.name}{{{label}={value}}}"] += sample.value
    return dict(found)


def rise(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """How much each counter grew; only those that did: a process that ended took its own along."""
    grown = {name: value - before.get(name, 0.0) for name, value in after.items()}
    return {name: value for name, value in grown.items() if value > 0}


def mean(counters: Mapping[str, float], name: str) -> float | None:
    """Mean of a histogram; None where nothing was counted."""
    count = counters.get(f"{name}_count", 0.0)
    return counters.get(f"{name}_sum", 0.0) / count if count else None


def bucket_quantile(counters: Mapping[str, float], name: str, quantile: float) -> float | None:
    """Upper bound of a histogram's quantile: the smallest bucket that holds so many.

    None where nothing was counted; infinity where it lies above the last bucket.
    """
    count = counters.get(f"{name}_count", 0.0)
    if not count:
        return None
    prefix = f"{name}_bucket{{le="
    bounds = sorted(
        (float(key.removeprefix(prefix)[:-1]), value)
        for key, value in counters.items()
        if key.startswith(prefix)
    )
    return next((le for le, value in bounds if value >= quantile * count), float("inf"))


class Scraper:
    """Reads the counters of all processes that `/v1/metrics-targets` names.

    A service whose metrics cannot be reached (it runs elsewhere) is left out and named in
    `unreachable`.
    """

    def __init__(self, client: GatewayClient) -> None:
        self.unreachable: set[str] = set()
        self._client = client

    async def read(self) -> dict[str, float]:
        """Counters of the stack, summed over its processes."""
        targets = (await self._client.call("GET", "/v1/metrics-targets")).json()
        urls = [
            (
                target["labels"]["service"],
                f"{target['labels'].get('__scheme__', 'http')}://{address}/metrics",
            )
            for target in targets
            for address in target["targets"]
        ]
        own = ""
        if [service for service, _ in urls].count("gateway") == 1:
            # At the address that we know: it may have given one that only others reach.
            urls = [target for target in urls if target[0] != "gateway"]
            own = (await self._client.call("GET", "/metrics")).text
        # No certificates without need: to read them would hold the visitor's clock up for 40 ms.
        verify = self._client.tls or False
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, verify=verify) as http:
            pages = await asyncio.gather(*(self._page(http, *target) for target in urls))
        total: defaultdict[str, float] = defaultdict(float)
        for page in (own, *pages):
            for name, value in parse_counters(page).items():
                total[name] += value
        return dict(total)

    async def _page(self, http: httpx.AsyncClient, service: str, url: str) -> str:
        try:
            headers = self._client.authorization if service == "gateway" else {}
            return (await http.get(url, headers=headers)).raise_for_status().text
        except httpx.HTTPError:
            self.unreachable.add(service)
            return ""
