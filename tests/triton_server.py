"""A Triton server in the test's process: KServe's protocol over real gRPC, ONNX Runtime behind it.

What it says, refusals word for word, was read off a real one (2.51, with `nvidia-pytriton` 0.7):
`tests/engine/triton/test_real_server.py` holds this one against it where that is installed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from visavis.engine import TensorSpec, open_engine
from visavis.engine.triton.exchange import datatype_of
from visavis.v1 import kserve_pb2 as pb
from visavis.v1.kserve_pb2_grpc import (
    GRPCInferenceServiceServicer,
    add_GRPCInferenceServiceServicer_to_server,
)

QUEUE_FULL = (grpc.StatusCode.UNAVAILABLE, "[request id: <id_unknown>] Exceeds maximum queue size")
TOO_LATE = (grpc.StatusCode.UNAVAILABLE, "Request timeout expired")

_DTYPES = {"FP32": np.float32, "INT64": np.int64}
_Context = grpc.ServicerContext


class TritonDouble(GRPCInferenceServiceServicer):
    """Serves `NAME.onnx` of a folder as the model NAME."""

    def __init__(self, folder: Path) -> None:
        self.url = ""
        self.digests: dict[str, str] = {}
        """What a model's config says it was made of."""
        self.asked: list[pb.ModelInferRequest] = []
        self.refusals: list[tuple[grpc.StatusCode, str]] = []
        """Given instead of the next answers, in order."""
        self.hold = threading.Event()
        """Requests wait for it."""
        self.hold.set()
        self.arrived = threading.Semaphore(0)
        """Released for each request that has come."""
        self.cancelled = threading.Semaphore(0)
        """Released for each request that ended before it was answered."""
        self._folder = folder

    def ModelReady(self, request: pb.ModelReadyRequest, context: _Context) -> pb.ModelReadyResponse:
        ready = (self._folder / f"{request.name}.onnx").is_file()
        return pb.ModelReadyResponse(ready=ready)

    def ModelMetadata(
        self, request: pb.ModelMetadataRequest, context: _Context
    ) -> pb.ModelMetadataResponse:
        with open_engine(self._folder / f"{request.name}.onnx", backend="onnxruntime") as engine:
            return pb.ModelMetadataResponse(
                name=request.name,
                versions=["1"],
                platform="python",
                inputs=[_told(spec) for spec in engine.inputs.values()],
                outputs=[_told(spec) for spec in engine.outputs.values()],
            )

    def ModelConfig(
        self, request: pb.ModelConfigRequest, context: _Context
    ) -> pb.ModelConfigResponse:
        answer = pb.ModelConfigResponse()
        if request.name in self.digests:
            answer.config.parameters["sha256"].string_value = self.digests[request.name]
        return answer

    def ModelInfer(self, request: pb.ModelInferRequest, context: _Context) -> pb.ModelInferResponse:
        answered = threading.Event()
        context.add_callback(lambda: answered.is_set() or self.cancelled.release())
        self.asked.append(request)
        self.arrived.release()
        self.hold.wait()
        answered.set()
        if self.refusals:
            context.abort(*self.refusals.pop(0))
        inputs = {
            tensor.name: np.frombuffer(raw, _DTYPES[tensor.datatype]).reshape(tensor.shape)
            for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True)
        }
        model = self._folder / f"{request.model_name}.onnx"
        with open_engine(model, backend="onnxruntime") as engine:
            outputs = engine.infer(inputs)
        response = pb.ModelInferResponse(model_name=request.model_name, model_version="1")
        for name, array in outputs.items():
            datatype = datatype_of(array.dtype)
            response.outputs.add(name=name, datatype=datatype, shape=array.shape)
            response.raw_output_contents.append(array.tobytes())
        return response


def _told(spec: TensorSpec) -> Any:
    shape = [-1 if size is None else size for size in spec.shape]
    datatype = datatype_of(spec.dtype)
    return pb.ModelMetadataResponse.TensorMetadata(name=spec.name, datatype=datatype, shape=shape)


@contextmanager
def serving(double: TritonDouble, port: int = 0) -> Iterator[Callable[[], None]]:
    """Meanwhile `double` answers at `double.url`; the call that it gives ends that at once."""
    server = grpc.server(ThreadPoolExecutor(32), options=[("grpc.so_reuseport", 0)])
    add_GRPCInferenceServiceServicer_to_server(double, server)
    double.url = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    server.start()

    def stop() -> None:
        double.hold.set()
        server.stop(None).wait()

    try:
        yield stop
    finally:
        stop()


Exchange = tuple[str, bytes, bytes]
"""Method, what was asked, what was answered."""


class Relay(grpc.GenericRpcHandler):
    """Hands every request on as bytes and notes what was said, or says what was noted."""

    def __init__(self, answer: Callable[[str, bytes], bytes]) -> None:
        self.exchanges: list[Exchange] = []
        self._answer = answer

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def answered(request: bytes, context: _Context) -> bytes:
            answer = self._answer(details.method, request)
            self.exchanges.append((details.method, request, answer))
            return answer

        return grpc.unary_unary_rpc_method_handler(answered)


@contextmanager
def relayed(relay: Relay) -> Iterator[str]:
    """Meanwhile `relay` answers at this address."""
    server = grpc.server(ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([relay])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
