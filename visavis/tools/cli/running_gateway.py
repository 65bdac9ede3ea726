"""The gateway that a command talks to: one that answers, or will, or one of a stack of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console

from visavis.client import GatewayClient
from visavis.client.errors import NoGatewayError
from visavis.serving.errors import VisavisError
from visavis.serving.settings import SERVICES
from visavis.tools.cli.models import pull_profile
from visavis.tools.cli.up import section_of, stack_arguments, token_key
from visavis.tools.stack.control import starts_here
from visavis.tools.stack.process import log_dir
from visavis.tools.stack.supervisor import GATEWAY, Stack, StackOptions

ApiKey: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar="VISAVIS_GATEWAY_API_KEY",
        help="Key of that gateway. Better set in the environment: every user of the machine can "
        "read a command line.",
    ),
]


_LOOK_S = 0.3
_PATIENCE_S = 120.0
"""With what does not get ready, and does not say that it is starting."""


@contextlib.asynccontextmanager
async def gateway_at(
    url: str, api_key: str, needs: Collection[str] = ()
) -> AsyncIterator[GatewayClient]:
    """The gateway at `url`, waited for where its stack is just starting.

    needs: services that it has to have. Raises GatewayError where there is no gateway, VisavisError
    where one of these does not come.
    """
    async with GatewayClient(url, api_key) as client:
        if not await _comes(client, needs):
            raise NoGatewayError(client.url)
        yield client


async def _comes(client: GatewayClient, needs: Collection[str]) -> bool:
    """Whether a gateway is there, once it is ready or nothing is left to wait for.

    Raises VisavisError where it does not get ready.
    """
    loop = asyncio.get_running_loop()
    told, give_up_at_s = "", 0.0
    while True:
        starts = starts_here(client.url)
        if await client.answers():
            missing = await client.missing() if needs else {}
            lacks = [part for part in missing if part in ("bus", *needs)]
            if not lacks:
                return True
            waits_for = "; ".join(f"{part}: {missing[part]}" for part in lacks)
        elif starts:
            waits_for = "its gateway"
        else:
            return False
        if not told:
            doing = "is starting" if starts else f"is not ready ({waits_for})"
            _say(f"The stack at {client.url} {doing}: waiting for it …")
        if starts or told != waits_for:
            told, give_up_at_s = waits_for, loop.time() + _PATIENCE_S
        elif loop.time() >= give_up_at_s:
            raise VisavisError(f"the stack at {client.url} does not get ready: {told}")
        await asyncio.sleep(_LOOK_S)


def _say(line: str) -> None:
    """Beside what the command is asked for, which may go elsewhere."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(line, markup=False)


@contextlib.asynccontextmanager
async def running_gateway(
    url: str,
    api_key: str,
    profile: str,
    console: Console,
    *,
    command: str,
    config: Path | None = None,
    flags: Mapping[str, Sequence[str]] | None = None,
    replicas: Mapping[str, int] | None = None,
) -> AsyncIterator[GatewayClient]:
    """The gateway at `url`, ready for turns, or one of a stack of our own for as long as needed.

    profile, config, flags (more of them by process), replicas: of a stack that is started; its
    logs lie under the command's name.
    """
    async with GatewayClient(url, api_key) as client:
        if await _comes(client, SERVICES):
            yield client
            return
    arguments = stack_arguments(profile, config)
    pull_profile(profile, console)
    for name, more in (flags or {}).items():
        arguments[name] += more
    options = StackOptions(
        log_dir=log_dir() / command,
        token_key=token_key(section_of(GATEWAY, config)),
        arguments=arguments,
        replicas=replicas or {},
    )
    starting = f"No stack is running at {url}; starting one …"
    if not console.is_terminal:
        _say(starting)
    with console.status(starting):
        stack = await Stack(options).__aenter__()
    try:
        async with GatewayClient(stack.url) as client:
            yield client
    finally:
        await stack.stop()
