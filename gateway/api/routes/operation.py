"""For operators: services, metrics, health."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import REGISTRY, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gateway.api.problems import RETRY_AFTER_S, responses
from gateway.api.schemas import EngineInfo, Health, ReplicaInfo, ServiceList, Target
from gateway.api.state import TheGateway
from gateway.stages.registry import ReplicaState

router = APIRouter(tags=["operation"])
health = APIRouter(tags=["operation"])
"""Open to whoever asks: no key is wanted."""

_PAUSE_S = 0.0001
"""After each metric. A thread that only computes lets others go on every 5 ms at most, which is a
quarter of a tick."""
_HEALTH: dict[str, Any] = {
    "responses": {200: {"model": Health}, 503: {"model": Health}},
    "openapi_extra": {"security": []},
}


def _info(state: ReplicaState) -> ReplicaInfo:
    replica = state.replica
    return ReplicaInfo(
        service=replica.service,
        instance=replica.instance,
        version=replica.version,
        address=replica.grpc_address,
        healthy=state.healthy,
        slots=state.slots,
        free_slots=state.free_slots,
        languages=list(state.languages),
        engines=[EngineInfo(**asdict(engine)) for engine in state.engines],
    )


@router.get("/v1/services", responses=responses(401, 403))
async def list_services(gateway: TheGateway) -> ServiceList:
    """Every replica that is known, its model, health and capacity."""
    states = sorted(gateway.registry.replicas(), key=lambda s: s.replica.instance)
    return ServiceList(services=[_info(s) for s in states])


@router.get("/v1/metrics-targets", responses=responses(401, 403))
async def list_metrics_targets(request: Request, gateway: TheGateway) -> list[Target]:
    """Prometheus' HTTP service discovery: where every process shows its metrics."""
    gateways = gateway.registry.gateways
    if len(gateways) > 1:
        own = [
            Target(
                targets=[g.http_address],
                labels={"service": "gateway", "instance_id": g.instance} | _by(g.scheme),
            )
            for g in gateways
        ]
    else:
        labels = {"service": "gateway"} | _by(request.url.scheme)
        own = [Target(targets=[request.url.netloc], labels=labels)]
    return own + [
        Target(
            targets=[s.replica.metrics_address],
            labels={"service": s.replica.service, "instance_id": s.replica.instance},
        )
        for s in gateway.registry.replicas()
        if s.replica.metrics_address
    ]


def _by(scheme: str) -> dict[str, str]:
    return {} if scheme == "http" else {"__scheme__": scheme}


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}},
        **responses(401, 403),
    },
)
async def get_metrics(request: Request) -> Response:
    """The gateway's own metrics: in Prometheus' text format or, where asked for, in OpenMetrics.

    Only OpenMetrics carries exemplars: the session and the turn behind a sample.
    """
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    # Written on a thread: it takes longer than half a tick, which all sessions would wait for.
    written = await asyncio.to_thread(encode, _Unhurried())
    return Response(written, headers={"content-type": content_type})


class _Unhurried(Collector):
    """All metrics, one after the other, with room between them for whoever else is at work."""

    def collect(self) -> Iterable[Metric]:
        for metric in REGISTRY.collect():
            yield metric
            time.sleep(_PAUSE_S)


@health.get("/healthz", **_HEALTH)
async def get_health(gateway: TheGateway) -> JSONResponse:
    """200 while the gateway can work: the bus is connected."""
    connected = gateway.bus.connected
    status = "ok" if connected else "the bus is not connected"
    return JSONResponse({"status": status}, 200 if connected else 503)


@health.get("/readyz", **_HEALTH)
async def get_readiness(gateway: TheGateway) -> JSONResponse:
    """200 once a turn would work: the bus and a replica of every stage answer.

    Else 503 with `missing`: what is not there, and why.
    """
    if gateway.sessions.draining:
        return JSONResponse({"status": "draining"}, 503)
    missing = await gateway.registry.missing()
    if not missing:
        return JSONResponse({"status": "ok"})
    status = f"waiting for {', '.join(missing)}"
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return JSONResponse({"status": status, "missing": missing}, 503, headers=headers)
