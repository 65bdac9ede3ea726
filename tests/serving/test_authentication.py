"""Calls between the parts of a stack: each side proves itself, and learns nothing of the secret."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from visavis.serving.authentication import proof
from visavis.serving.authentication.access import Access, Certificates
from visavis.serving.authentication.channel import Door, ServiceChannel
from visavis.serving.errors import BusError, SettingsError, UnauthenticatedError
from visavis.serving.interceptor import ErrorInterceptor
from visavis.tools.stack.nats_server import NatsServer
from visavis.v1 import control_pb2, llm_pb2, llm_pb2_grpc
from visavis.wire.bus import Bus

SECRET, METHOD, ADDRESS, NONCE, NOW_S = "s3cret", "/p.Service/Call", "10.0.0.7:50052", "00ff", 1e9


def made(
    secret: str = SECRET, method: str = METHOD, address: str = ADDRESS, unix_s: float = NOW_S
) -> str:
    return proof.call_proof(secret, method, address, NONCE, unix_s)


def test_whoever_knows_the_secret_is_let_in_for_a_while() -> None:
    for late_s in (-proof.VALID_S, 0.0, proof.VALID_S):
        found = proof.check_call(SECRET, METHOD, ADDRESS, made(), NOW_S + late_s)
        assert found == NONCE
    assert SECRET not in made()


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("", "proves nothing"),
        ("garbage", "wrong"),
        ("1.2", "wrong"),
        ("ä.ä.ä", "wrong"),
        (made(secret="another"), "another stack_secret"),
        (made(method="/p.Service/Other"), "wrong"),
        (made(address="10.0.0.8:50052"), "advertise"),
        (made().replace(NONCE, "00fe"), "wrong"),
        (made(unix_s=NOW_S - 1).replace("999999999", "1000000000"), "wrong"),
        (made(unix_s=NOW_S - proof.VALID_S - 1), "clocks"),
        (made(unix_s=NOW_S + proof.VALID_S + 1), "clocks"),
    ],
)
def test_every_other_proof_is_refused_with_a_reason(told: str, why: str) -> None:
    with pytest.raises(UnauthenticatedError, match=why) as refused:
        proof.check_call(SECRET, METHOD, ADDRESS, told, NOW_S)
    assert SECRET not in str(refused.value)


def test_an_answer_is_of_one_call_and_one_address() -> None:
    answer = proof.answer_proof(SECRET, NONCE, ADDRESS)
    proof.check_answer(SECRET, NONCE, ADDRESS, answer)
    call = made().rpartition(".")[2]
    for nonce, address, told in (
        ("00fe", ADDRESS, answer),
        (NONCE, "10.0.0.8:50052", answer),
        (NONCE, ADDRESS, ""),
        (NONCE, ADDRESS, call),
    ):
        with pytest.raises(UnauthenticatedError, match="does not prove"):
            proof.check_answer(SECRET, nonce, address, told)


class Model(llm_pb2_grpc.LanguageModelServicer):
    """Notes what comes to it."""

    def __init__(self) -> None:
        self.came: list[Any] = []

    async def GetStatus(self, request: Any, context: Any) -> Any:
        self.came.append(request)
        return control_pb2.ServiceStatus(slots=10_000, free_slots=10_000)

    async def Attach(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            self.came.append(request)
            yield control_pb2.AttachEvent(ready=control_pb2.AttachReady(instance="one"))


Open = Callable[[str], ServiceChannel]


@contextlib.asynccontextmanager
async def service(secret: str, model: Model, tells: str = "") -> AsyncIterator[Open]:
    """A service with this secret, and how to call it; `tells`: the address it believes to have."""
    door = Door(secret)
    server = grpc.aio.server(interceptors=[ErrorInterceptor(door.admit)])
    llm_pb2_grpc.add_LanguageModelServicer_to_server(model, server)
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    door.address = tells or address
    await server.start()
    async with contextlib.AsyncExitStack() as channels:
        opened: list[ServiceChannel] = []

        def call(with_secret: str) -> ServiceChannel:
            opened.append(ServiceChannel(address, Access(with_secret), "llm"))
            return opened[-1]

        yield call
        for channel in opened:
            await channels.enter_async_context(channel)
    await server.stop(0)


async def test_both_sides_of_every_kind_of_call_prove_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # the stack's calls never go by one
    model = Model()
    async with service(SECRET, model) as call:
        channel = call(SECRET)
        stub = llm_pb2_grpc.LanguageModelStub(channel)
        status = stub.GetStatus(control_pb2.GetStatusRequest())
        assert (await status).slots == 10_000
        await channel.check(status)
        attach = stub.Attach()
        await channel.check(attach)
        assert len(model.came) == 1, "nothing was told before"
        await attach.write(llm_pb2.LlmAttachRequest())
        assert (await attach.read()).ready.instance == "one"
        attach.cancel()


@pytest.mark.parametrize("method", ["GetStatus", "Attach"])
async def test_whoever_leaves_before_he_is_let_in_is_no_failure(
    method: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def admit(self: Door, method: str, context: Any) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            answered.set()
            raise grpc.aio.InternalError from None  # as gRPC does where it cannot write any more

    monkeypatch.setattr(Door, "admit", admit)
    async with service(SECRET, Model()) as call:
        stub = llm_pb2_grpc.LanguageModelStub(call(SECRET))
        of = getattr(stub, method)
        made = of() if method == "Attach" else of(control_pb2.GetStatusRequest())
        async with asyncio.timeout(30):
            await asked.wait()
            made.cancel()
            await answered.wait()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("secret", ["", "another"])
async def test_a_stranger_is_told_what_to_do_and_reaches_nothing(secret: str) -> None:
    model = Model()
    async with service(SECRET, model) as call:
        stub = llm_pb2_grpc.LanguageModelStub(call(secret))
        attach = stub.Attach()
        for answer in (stub.GetStatus(control_pb2.GetStatusRequest()), attach.read()):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await answer
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "stack_secret" in (refused.value.details() or "")
        assert model.came == []
        probe = health_pb2_grpc.HealthStub(call(secret))
        assert (await probe.Check(health_pb2.HealthCheckRequest())).status


@pytest.mark.parametrize(("secret", "tells"), [("", ""), ("another", ""), (SECRET, "127.0.0.1:9")])
async def test_who_cannot_prove_to_be_a_replica_is_told_nothing(secret: str, tells: str) -> None:
    """One without the secret, with another, and one that hands on to a real one elsewhere."""
    model = Model()
    async with service(secret, model, tells) as call:
        channel = call(SECRET)
        status = llm_pb2_grpc.LanguageModelStub(channel).GetStatus(control_pb2.GetStatusRequest())
        with contextlib.suppress(grpc.aio.AioRpcError):  # the one behind may refuse it, too
            await status
        with pytest.raises(UnauthenticatedError, match="does not prove"):
            await channel.check(status)


async def test_without_a_secret_everybody_is_believed() -> None:
    model = Model()
    async with service("", model) as call:
        channel = call("")
        status = llm_pb2_grpc.LanguageModelStub(channel).GetStatus(control_pb2.GetStatusRequest())
        await status
        await channel.check(status)
        assert len(model.came) == 1


RIVA = "/nvidia.riva.asr.RivaSpeechRecognition/Recognize"


class Told:
    """A call of which its metadata alone are known."""

    def __init__(self, authorization: str) -> None:
        self._told = (("authorization", authorization),) if authorization else ()

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._told


@pytest.mark.parametrize(
    ("secret", "client_key", "authorization", "why"),
    [
        ("", "", "", ""),
        (SECRET, "", "", "client_key"),
        (SECRET, "", f"Bearer {SECRET}", "client_key"),
        (SECRET, "k3y", "Bearer k3y", ""),
        ("", "k3y", "bearer k3y", ""),
        ("", "k3y", "", "Bearer"),
        ("", "k3y", "k3y", "Bearer"),
        ("", "k3y", "Bearer k3yé", "Bearer"),
    ],
)
async def test_clients_of_other_protocols_show_a_key_of_their_own(
    secret: str, client_key: str, authorization: str, why: str
) -> None:
    door, call = Door(secret, client_key), Told(authorization)
    if why:
        with pytest.raises(UnauthenticatedError, match=why):
            await door.admit(RIVA, call)  # type: ignore[arg-type]
    else:
        await door.admit(RIVA, call)  # type: ignore[arg-type]
    if secret:
        with pytest.raises(UnauthenticatedError):
            await door.admit(METHOD, call)  # type: ignore[arg-type]


async def test_names_are_listed_for_whoever_may_come_at_all() -> None:
    """NVIDIA's scripts and Pipecat's services ask for them and show no key."""
    listing = "/nvidia.riva.tts.RivaSpeechSynthesis/GetRivaSynthesisConfig"
    await Door(SECRET, "k3y").admit(listing, Told(""))  # type: ignore[arg-type]
    with pytest.raises(UnauthenticatedError, match="client_key"):
        await Door(SECRET).admit(listing, Told(""))  # type: ignore[arg-type]


class Issuer:
    """A certificate authority of a test's own, as openssl makes one."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.ca = self.folder / "ca.pem"
        _openssl(
            *("req", "-x509", "-subj", f"/CN={name}", "-days", "1", *_NEW_KEY),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),  # wanted by Python 3.13
            *("-keyout", self.folder / "ca.key", "-out", self.ca),
        )

    def certificates(self, name: str, ca: Path | None = None) -> Certificates:
        """Of a process of this service; it believes `ca`, this one by default."""
        request, key, cert = (self.folder / f"{name}.{part}" for part in ("csr", "key", "pem"))
        names = self.folder / f"{name}.names"
        names.write_text(f"subjectAltName=DNS:{name}")
        _openssl("req", "-subj", f"/CN={name}", *_NEW_KEY, "-keyout", key, "-out", request)
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key"),
            *("-CAcreateserial", "-days", "1", "-extfile", names, "-out", cert),
        )
        return Certificates(cert, key, ca or self.ca)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*command: str | Path) -> None:
    subprocess.run(["openssl", *command], check=True, capture_output=True)


async def test_by_tls_both_sides_show_certificates_of_one_authority(tmp_path: Path) -> None:
    """Made out to the service: one of another stage is not enough."""
    ours, theirs = Issuer(tmp_path, "ours"), Issuer(tmp_path, "theirs")
    llm, gateway, model = ours.certificates("llm"), ours.certificates("gateway"), Model()
    server = grpc.aio.server()
    llm_pb2_grpc.add_LanguageModelServicer_to_server(model, server)
    credentials = llm.server()
    assert credentials is not None
    address = f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', credentials)}"
    await server.start()

    async def asked(certificates: Certificates, service: str = "llm") -> int:
        access = Access(certificates=certificates)
        async with ServiceChannel(address, access, service) as channel:
            stub = llm_pb2_grpc.LanguageModelStub(channel)
            status = await stub.GetStatus(control_pb2.GetStatusRequest(), timeout=10)
            return int(status.slots)

    assert await asked(gateway) == 10_000
    for stranger, service in (
        (Certificates(), "llm"),
        (theirs.certificates("gateway", ours.ca), "llm"),
        (Certificates(gateway.cert, gateway.key, theirs.ca), "llm"),
        (gateway, "tts"),
    ):
        with pytest.raises(grpc.aio.AioRpcError):
            await asked(stranger, service)
    assert len(model.came) == 1
    await server.stop(0)


async def test_a_bus_by_tls_is_believed_by_its_authority_and_left_in_order_once_it_is_gone(
    tmp_path: Path,
) -> None:
    ours, theirs = Issuer(tmp_path, "ours"), Issuer(tmp_path, "theirs")
    shown = ours.certificates("localhost")
    config = tmp_path / "bus.conf"
    config.write_text(f'tls {{ cert_file: "{shown.cert}", key_file: "{shown.key}" }}')
    server = NatsServer(tmp_path)
    server.process.users = config
    with server:
        url = server.url.replace("nats://127.0.0.1", "tls://localhost")
        bus = await Bus.connect(url, name="test", wait_s=10, tls=Certificates(ca=ours.ca).bus())
        await bus.flush()
        await bus.close()
        with pytest.raises(BusError):
            await Bus.connect(url, name="test", tls=Certificates(ca=theirs.ca).bus())
        left = await Bus.connect(url, name="test", wait_s=10, tls=Certificates(ca=ours.ca).bus())
    async with asyncio.timeout(30):
        await left.next_loss(0)
    await left.client.publish("vv.test", b"waits")
    await left.close()  # in order, whatever is lost


def test_half_of_the_certificates_is_an_error_that_says_so(tmp_path: Path) -> None:
    file = tmp_path / "one.pem"
    file.write_text("")
    for half in (
        Certificates(cert=file),
        Certificates(file, file),
        Certificates(key=file, ca=file),
    ):
        with pytest.raises(SettingsError, match="stack_tls_key"):
            half.check()
    with pytest.raises(SettingsError, match="stack_tls_ca: cannot read"):
        Certificates(ca=tmp_path / "none.pem").check()
