"""The gateway that a command talks to: one that answers, or one of a stack of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console

from visavis.client import GatewayClient
from visavis.tools.cli.models import pull_profile
from visavis.tools.cli.up import gateway_section, stack_arguments, token_key
from visavis.tools.stack.process import log_dir
from visavis.tools.stack.supervisor import Stack, StackOptions

ApiKey: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar="VISAVIS_GATEWAY_API_KEY",
        help="Key of that gateway. Better set in the environment: every user of the machine can "
        "read a command line.",
    ),
]


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
    """The gateway at `url`, or one of a stack of our own for as long as needed.

    profile, config, flags (more of them by process), replicas: of a stack that is started; its
    logs lie under the command's name.
    """
    async with GatewayClient(url, api_key) as client:
        if await client.answers():
            yield client
            return
    pull_profile(profile, console)
    arguments = stack_arguments(profile, config)
    for name, more in (flags or {}).items():
        arguments[name] += more
    options = StackOptions(
        log_dir=log_dir() / command,
        token_key=token_key(gateway_section(config)),
        arguments=arguments,
        replicas=replicas or {},
    )
    with console.status("No stack is running; starting one …"):
        stack = await Stack(options).__aenter__()
    try:
        async with GatewayClient(stack.url) as client:
            yield client
    finally:
        await stack.stop()
