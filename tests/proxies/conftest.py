"""A gateway with doubles of the services, and nginx or Caddy in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from gateway.edge import self_signed
from tests.gateway.conftest import Rig, RunningGateway
from tests.gateway.doubles import KINDS, LlmDouble
from tests.proxies.programs import Proxy, behind_a_proxy, needs, proxy
from visavis.v1 import llm_pb2

KEY = "whoever comes by the proxy shows this"


class Pausing(LlmDouble):
    """Writes its second word when it is told to."""

    go_on: ClassVar[asyncio.Event]

    async def Generate(self, _request: Any, _context: Any) -> AsyncIterator[Any]:
        yield llm_pb2.GenerateResponse(text="Hello")
        await self.go_on.wait()
        yield llm_pb2.GenerateResponse(text=" you.")
        yield llm_pb2.GenerateResponse(finish_reason="stop")


class ProxiedRig(Rig):
    kinds = MappingProxyType({**KINDS, "llm": Pausing})


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProxiedRig]:
    rig = ProxiedRig(tmp_path_factory.mktemp("proxied"))
    await rig.start(api_key=KEY, upload_limit_mb=20, **behind_a_proxy())
    yield rig
    await rig.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def gateway(rig: ProxiedRig) -> AsyncIterator[RunningGateway]:
    yield rig.running
    await rig.reset()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("certificate")))
        return self_signed.ensure()


@pytest_asyncio.fixture(loop_scope="session", scope="module", params=["nginx", "caddy"])
async def front(
    request: Any,
    rig: ProxiedRig,
    certificate: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Proxy]:
    """One of the proxies, in front of the rig's gateway."""
    needs(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    async with proxy(request.param, folder, rig.running.url, certificate) as front:
        yield front
