"""`visavis live`: sessions pushed to platforms and servers, and shown to viewers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Annotated, Any

import typer
from rich.console import Console

from visavis.client import GatewayClient, GatewayError
from visavis.client.errors import may_pass
from visavis.client.session import again
from visavis.serving.errors import VisavisError
from visavis.serving.settings import SERVICES
from visavis.tools.cli.running_gateway import ApiKey, gateway_at
from visavis.tools.shown import output_console

live_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Broadcast a session by RTMP(S) or WHIP, of a gateway that runs; see docs/live.md.\n\n"
    "The same on a page: `/static/live.html` of the gateway.",
)

Url = Annotated[str, typer.Option(help="Gateway to talk to.")]
Session = Annotated[str, typer.Option(help="Id of a session; empty: a new one, until Ctrl-C.")]
_URL = "http://127.0.0.1:8080"
_LOOK_S = 2.0
_OVER = ("stopped", "failed")


@live_app.command()
def start(
    server: Annotated[
        str,
        typer.Argument(
            metavar="SERVER", help="As the platform shows it: rtmp(s)://…, or https://… for WHIP."
        ),
    ],
    key: Annotated[
        str,
        typer.Option(
            envvar="VISAVIS_STREAM_KEY",
            help="Stream key, or bearer token of WHIP. Better set in the environment: every user "
            "of the machine can read a command line.",
        ),
    ] = "",
    session: Session = "",
    avatar: Annotated[str, typer.Option(help="Of a new session; empty: the default one.")] = "",
    url: Url = _URL,
    api_key: ApiKey = "",
) -> None:
    """Push a session to a server, and tell how it stands until Ctrl-C. Ends with status 1 where the
    broadcast is given up.

    What is said in it comes from elsewhere: its page, or the API.
    """

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(gateway_at(url, api_key, SERVICES))
            name = session
            if not name:
                made = await client.call("POST", "/v1/sessions", json={"avatar": avatar})
                name = made.json()["id"]
                stack.push_async_callback(_end, client, f"/v1/sessions/{name}")
            path = f"/v1/sessions/{name}/broadcasts"
            body = {"url": server, "key": key}
            try:
                target = (await client.call("POST", path, json=body)).json()
            except GatewayError as error:
                # What the API calls so: here, --url is another one.
                told = str(error).replace("url:", "SERVER:", 1)
                raise GatewayError(error.code, told) from error
            stack.push_async_callback(_end, client, f"{path}/{target['id']}")
            told = f"Session {name}, broadcast {target['id']} to {target['target']}"
            _console().print(told, markup=False, soft_wrap=True)
            while target["state"] not in _OVER:
                await asyncio.sleep(_LOOK_S)
                target = await _standing(client, f"{path}/{target['id']}")
                _console().print(_line(target), markup=False)
            if target["state"] == "failed":
                raise VisavisError(f"{target['target']}: the broadcast failed: {target['error']}")

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())


@live_app.command("list")
def list_(
    url: Url = _URL,
    api_key: ApiKey = "",
    as_json: Annotated[bool, typer.Option("--json", help="All of it, for programs.")] = False,
) -> None:
    """Show the broadcasts of all sessions."""

    async def run() -> list[tuple[str, dict[str, Any]]]:
        async with gateway_at(url, api_key) as client:
            sessions = (await client.call("GET", "/v1/sessions")).json()["sessions"]
            found = []
            for one in sessions:
                path = f"/v1/sessions/{one['id']}/broadcasts"
                told = (await client.call("GET", path)).json()
                found += [(one["id"], target) for target in told["broadcasts"]]
            return found

    found = asyncio.run(run())
    if as_json:
        shown = [{"session": session, **target} for session, target in found]
        _console().print_json(json.dumps(shown))
        return
    if not found:
        _console().print("Nothing is broadcast; `visavis live start` begins.", markup=False)
    for session, target in found:
        where = f"{session} {target['id']} {target['target']}"
        _console().print(f"{where} {_line(target)}", markup=False, soft_wrap=True)


@live_app.command()
def stop(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.")],
    broadcast: Annotated[
        str, typer.Argument(metavar="BROADCAST", help="Id of one; empty: all of it.")
    ] = "",
    url: Url = _URL,
    api_key: ApiKey = "",
) -> None:
    """End a broadcast, or all of a session; tell how each was."""

    async def run() -> None:
        path = f"/v1/sessions/{session}/broadcasts"
        async with gateway_at(url, api_key) as client:
            told = (await client.call("GET", path)).json()["broadcasts"]
            running = [target["id"] for target in told if target["state"] not in _OVER]
            for name in [broadcast] if broadcast else running:
                target = (await client.call("DELETE", f"{path}/{name}")).json()
                begins = "Ended" if name in running else "Over already"
                where = f"{begins}: broadcast {name} to {target['target']}"
                _console().print(f"{where}, {_line(target)}", markup=False, soft_wrap=True)
            if not (broadcast or running):
                _console().print(f"Nothing of session {session} is broadcast.", markup=False)

    asyncio.run(run())


@live_app.command()
def links(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.")],
    url: Url = _URL,
    api_key: ApiKey = "",
) -> None:
    """Tell where viewers watch a session: a page, WHEP and HLS, with a token for them."""

    async def run() -> dict[str, Any]:
        async with gateway_at(url, api_key) as client:
            path, role = f"/v1/sessions/{session}/token", {"role": "viewer"}
            told: dict[str, Any] = (await client.call("POST", path, json=role)).json()
            return told

    told = asyncio.run(run())
    folder = f"{url.rstrip('/')}/v1/sessions/{session}"
    for name, where in (
        ("Page", f"{url.rstrip('/')}/?session={session}#token={told['token']}"),
        ("WHEP", f"{folder}/whep"),
        ("HLS", f"{folder}/hls/index.m3u8"),
        ("Bearer", told["token"]),
    ):
        _console().print(f"{name:7}{where}", markup=False, soft_wrap=True)
    _console().print(f"The token holds for {told['token_expires_in_s']:.0f} s.")


async def _standing(client: GatewayClient, path: str) -> dict[str, Any]:
    """How a broadcast stands, told within half a minute: it goes on where nobody hears of it.

    Raises GatewayError.
    """

    async def ask() -> dict[str, Any]:
        try:
            target: dict[str, Any] = (await client.call("GET", path)).json()
            return target
        except GatewayError as error:
            if may_pass(error):
                _console().print(f"no news of it: {error}", markup=False, soft_wrap=True)
            raise

    return await again(ask, client.reconnect_s)


async def _end(client: GatewayClient, path: str) -> None:
    with contextlib.suppress(GatewayError):  # it may be over
        await client.call("DELETE", path)


def _console() -> Console:
    return output_console(highlight=False)


def _line(target: dict[str, Any]) -> str:
    told = (
        f"{target['state']}: {target['live_s']:.0f} s, {target['sent_bytes'] / 1e6:.1f} MB, "
        f"{target['sent_pictures']} pictures, {target['dropped_pictures']} left out, "
        f"connected again {target['reconnects']} times, {target['lag_s']:.1f} s wait"
    )
    return f"{told} ({target['error']})" if target["error"] else told
