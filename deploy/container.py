"""What a container of the image does beside the service itself: starts it, tells its health,
brings weights and compiles them.

    container.py serve [FLAG ...]     the service that SERVICE names, in this process
    container.py health               status 0 where it serves
    container.py pull SERVICE PROFILE what SERVICE needs of a profile's weights
    container.py wait                 until what SERVICE needs of its profile is there
    container.py plans DEVICE         compiles for the device what has plans of the profiles of asr,
                                      tts and face, once it is there
    container.py buckets URL N NAME ...  until it is told to end: the bus at URL has these object
                                      stores, each on N of its servers
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visavis.bundles.store.manifest import BundleManifest

_TIMEOUT_S = 4.0
_LOOK_EVERY_S = 2.0
_BUS_WAIT_S = 30.0
_INSIDE = ("CERT", "KEY", "CA")
_PAGE = ("VISAVIS_GATEWAY_TLS_CERT", "VISAVIS_GATEWAY_TLS_SELF_SIGNED")
BUCKETS_MADE = Path("/tmp/buckets-made")
_NOT_GIVEN = ("", "0", "f", "false", "n", "no", "off")


def serve(flags: Sequence[str]) -> None:
    """Become the service: signals are its own."""
    from visavis.large_pages import large_pages

    service = os.environ["SERVICE"]
    module = "gateway" if service == "gateway" else f"services.{service}"
    command = [sys.executable, "-m", module, *flags]
    os.execve(sys.executable, command, large_pages() | os.environ)


def health(_: Sequence[str]) -> None:
    """End with an error unless the service is ready, or the gateway has all that a turn needs."""
    service = os.environ["SERVICE"]
    port = int(os.environ[f"VISAVIS_{service.upper()}_PORT"])
    if service == "gateway":
        import httpx

        given = (os.environ.get(variable, "").lower() for variable in _PAGE)
        scheme = "http" if all(value in _NOT_GIVEN for value in given) else "https"
        # It is our own process that is asked: no certificate is looked at.
        url = f"{scheme}://127.0.0.1:{port}/readyz"
        httpx.get(url, timeout=_TIMEOUT_S, verify=False, trust_env=False).raise_for_status()
        return
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    from visavis.serving.authentication.access import Certificates
    from visavis.serving.way_out import PAST_PROXIES

    files = (os.environ.get(f"VISAVIS_{service.upper()}_STACK_TLS_{k}") for k in _INSIDE)
    credentials = Certificates(*(Path(file) if file else None for file in files)).client()
    address, named = f"127.0.0.1:{port}", ("grpc.ssl_target_name_override", service)
    opened = (
        grpc.insecure_channel(address, [PAST_PROXIES])
        if credentials is None
        else grpc.secure_channel(address, credentials, [PAST_PROXIES, named])
    )
    with opened as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_S)
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        sys.exit(f"{service} is not serving yet")


def pull(arguments: Sequence[str]) -> None:
    """Bring the bundles that one service needs of a profile; a gateway needs none."""
    from visavis.bundles.store.catalogue import default_catalog
    from visavis.bundles.store.pulling import puller

    service, profile = arguments
    roles = default_catalog().profile(profile)
    ours = {name for several in roles.get(service, ()) for name in several}
    chosen, _ = puller.choose_profile(profile)
    if names := [name for name in chosen if name in ours]:
        puller.pull(names)


def wait(_: Sequence[str]) -> None:
    """Return once every bundle of this service's profile is ready."""
    _once_here(os.environ["SERVICE"])


def plans(arguments: Sequence[str]) -> None:
    """Compile what the services have recipes for; what is there and fresh costs nothing.

    Of language models TensorRT-LLM compiles its own.
    """
    from visavis.bundles.store.catalogue import default_catalog

    (device,) = arguments
    shipped = [m for m in default_catalog().readable()[0] if m.shipped is not None]
    wanted = [m for service in ("asr", "tts", "face") for m in _once_here(service)]
    for name in dict.fromkeys(m.name for m in (*wanted, *shipped) if m.plans):
        command = [sys.executable, "-m", "visavis", "engine", "build", name, "--device", device]
        subprocess.run(command, check=True)


def _once_here(service: str) -> list[BundleManifest]:
    """The bundles of a service's profile, once every one is ready."""
    from visavis.bundles.store.catalogue import default_catalog, default_model_dir
    from visavis.bundles.store.choice import settled_profile
    from visavis.bundles.store.installed import State, inspect

    folder = default_model_dir()
    profile = os.environ.get(f"VISAVIS_{service.upper()}_PROFILE", "default")
    while True:
        catalog = default_catalog()
        wanted = settled_profile(catalog, profile, folder).get(service, [])
        manifests = [catalog.manifest(name) for name in wanted]
        missing = [
            m.name for m in manifests if inspect(m, m.folder(folder)).state is not State.READY
        ]
        if not missing:
            return manifests
        sys.stderr.write(f"waiting for {', '.join(missing)} in {folder}\n")
        time.sleep(_LOOK_EVERY_S)


def buckets(arguments: Sequence[str]) -> None:
    """Make each bucket, or move one that is there, onto as many of the bus's servers as said; and
    again whenever the bus has lost them. BUCKETS_MADE is there once they are.

    As the bus's operator, where BUS_PASSWORD_FILE names the file of its password; BUS_CA_FILE names
    who has signed the certificate of a bus at tls://.
    """
    import asyncio

    url, replicas, *names = arguments
    file = os.environ.get("BUS_PASSWORD_FILE")
    password = Path(file).read_text(encoding="utf-8").strip() if file else ""
    asyncio.run(keep(url, int(replicas), names, password))


async def keep(url: str, servers: int, names: Sequence[str], password: str = "") -> None:
    """Until SIGTERM. Raises BusError where they cannot be made at first."""
    import asyncio

    from visavis.serving.authentication.access import Certificates
    from visavis.serving.lifetime.supervision import ends_unless
    from visavis.serving.logs import configure_logging
    from visavis.wire.bucket import keep_buckets, make_buckets
    from visavis.wire.bus import Bus
    from visavis.wire.permissions import Login, User

    configure_logging("buckets", "INFO")
    login = Login(User.OPERATOR, password) if password else None
    ca = os.environ.get("BUS_CA_FILE")
    tls = Certificates(ca=Path(ca)).bus() if ca else None
    bus = await Bus.connect(url, name="buckets", wait_s=_BUS_WAIT_S, login=login, tls=tls)
    try:
        await make_buckets(bus, names, servers)
        BUCKETS_MADE.touch()  # noqa: ASYNC240 - nobody waits for it
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        await ends_unless(keep_buckets(bus, names, servers), told.wait())
    finally:
        await bus.close()


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "serve": serve,
    "health": health,
    "pull": pull,
    "wait": wait,
    "plans": plans,
    "buckets": buckets,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](sys.argv[2:])
