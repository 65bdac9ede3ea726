"""A real Triton server on the CPU, where there is one.

TRITON_PYTHON names the Python of an environment with deploy/triton/requirements.txt in it.
"""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

from services.face.lips.audio_to_face import WEIGHTS
from tests.engine.triton.exchanges import MODEL, conversation, record, rows
from tests.triton_server import QUEUE_FULL, TOO_LATE, Relay, relayed
from visavis.bundles.store import load_manifest
from visavis.bundles.triton.repository import ServingChoice, write_network
from visavis.engine import Engine, EngineLane, EngineOptions, TritonOptions, open_engine
from visavis.engine.triton.exchange import infer_request
from visavis.engine.triton.server import TritonServer
from visavis.serving.errors import EngineLoadError, InvalidInputError
from visavis.v1.kserve_pb2_grpc import GRPCInferenceServiceStub

PYTHON = os.environ.get("TRITON_PYTHON", "")
SERVE = Path(__file__).parents[3] / "deploy" / "triton" / "serve.py"
SMALL_QUEUE = "small-queue"

pytestmark = pytest.mark.skipif(not PYTHON, reason="TRITON_PYTHON names no Python with a Triton")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, free_ports: list[int]) -> Iterator[str]:
    repository = tmp_path_factory.mktemp("repository")
    # Longer than Python takes to send a few, so that they meet.
    choice = ServingChoice(platform="python", wait_us=200_000)
    write_network(repository, WEIGHTS, load_manifest("audio-to-face"), choice)
    _add_small_queue(repository)
    grpc_port, http_port, metrics_port = free_ports
    server = subprocess.Popen(
        [
            *(PYTHON, SERVE, repository, "--grpc-port", str(grpc_port)),
            *("--http-port", str(http_port), "--metrics-port", str(metrics_port)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"127.0.0.1:{grpc_port}"
    try:
        with grpc.insecure_channel(url) as channel:
            grpc.channel_ready_future(channel).result(timeout=60)
        yield url
    finally:
        server.terminate()
        server.wait(30)


def _add_small_queue(repository: Path) -> None:
    """The same network with room for one request in the queue, and seconds between batches."""
    shutil.copytree(repository / MODEL, repository / SMALL_QUEUE)
    config = repository / SMALL_QUEUE / "config.pbtxt"
    text = config.read_text("utf-8").replace(MODEL, SMALL_QUEUE)
    text = text.replace("max_queue_size: 256", "max_queue_size: 1")
    config.write_text(text.replace("microseconds: 200000", "microseconds: 1000000"), "utf-8")


@pytest.fixture(scope="module")
def free_ports() -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [taken.getsockname()[1] for taken in sockets]
    for taken in sockets:
        taken.close()
    return ports


def opened(url: str, model: str = MODEL) -> Engine:
    asked = TritonOptions(url, model, at_once=8, timeout_s=30.0)
    return open_engine(WEIGHTS, backend="triton", options=EngineOptions(triton=asked))


def test_the_recorded_exchanges_are_what_it_says(url: str) -> None:
    with grpc.insecure_channel(url) as channel:
        relay = Relay(lambda method, asked: channel.unary_unary(method)(asked))
        with relayed(relay) as address:
            outputs, _ = conversation(address)
    if os.environ.get("RECORD_TRITON"):
        record(relay.exchanges)
    with open_engine(WEIGHTS) as engine:
        for name, array in engine.infer({"mel": rows()}).items():
            np.testing.assert_array_equal(outputs[name], array)


async def test_requests_of_two_processes_share_a_batch(url: str) -> None:
    """Two engines with a channel each: the server cannot tell them from two processes."""
    server = TritonServer(url)
    before = server.batches(MODEL)
    lanes = [EngineLane(f"t{index}", at_once=8) for index in range(2)]
    row = {"mel": rows()[:1]}
    with opened(url) as one, opened(url) as two:
        asks = [
            lane.run(engine.infer, row)
            for _ in range(3)
            for lane, engine in zip(lanes, (one, two), strict=True)
        ]
        await asyncio.gather(*asks)
    for lane in lanes:
        lane.close()
    after = server.batches(MODEL)
    server.close()
    assert after.rows - before.rows == 6
    shared = {size: count - before.runs.get(size, 0) for size, count in after.runs.items()}
    assert sum(shared.values()) < 6 and max(size for size, runs in shared.items() if runs) > 3


def test_it_refuses_in_the_words_that_the_double_has(url: str) -> None:
    with grpc.insecure_channel(url) as channel:
        stub = GRPCInferenceServiceStub(channel)
        patient = infer_request(SMALL_QUEUE, {"mel": rows()[:1]}, timeout_s=9, priority=0)
        calls = [stub.ModelInfer.future(patient) for _ in range(8)]
        said = {(call.code(), call.details()) for call in calls if call.exception()}
        assert said == {QUEUE_FULL}
        hasty = infer_request(SMALL_QUEUE, {"mel": rows()[:1]}, timeout_s=1e-6, priority=0)
        refused = stub.ModelInfer.future(hasty).exception()
        assert (refused.code(), refused.details()) == TOO_LATE


def test_what_does_not_fit_or_is_not_there_is_told(url: str) -> None:
    with opened(url) as engine, pytest.raises(InvalidInputError, match="batch-size must be <= 8"):
        engine.infer({"mel": np.zeros((9, 33, 40), np.float32)})
    with pytest.raises(EngineLoadError, match="no model other that is ready"):
        opened(url, "other").load()
