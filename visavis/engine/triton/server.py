"""A Triton server: the questions that it is asked, and what its refusals mean.

Refusals were read off a real server (2.51): a full queue and a request that waited too long in it
are UNAVAILABLE there, as a server that is away is here, and only their words tell them apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeVar

import grpc

from visavis.engine.base import TensorSpec
from visavis.engine.in_hand import in_hand
from visavis.engine.triton.exchange import specs_of
from visavis.serving.errors import (
    AtCapacityError,
    EngineError,
    InvalidInputError,
    VisavisError,
)
from visavis.serving.way_out import PAST_PROXIES
from visavis.v1 import kserve_pb2 as pb
from visavis.v1.kserve_pb2_grpc import GRPCInferenceServiceStub

_OPTIONS: Sequence[tuple[str, int]] = (
    PAST_PROXIES,
    ("grpc.max_receive_message_length", -1),
    # A server that was started anew is found again within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_QUESTION_S = 5.0
"""How long a question about a model may take."""

DIGEST_PARAMETER = "sha256"
"""Under which a model's config in our repositories says of which ONNX file it was made."""

T = TypeVar("T")


@dataclass(frozen=True)
class ServedModel:
    """What a server says of one of its models."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    sha256: str
    """Of the ONNX file; empty: its config does not say."""


@dataclass(frozen=True)
class Batches:
    """What a server's batcher has done with one model since it was loaded."""

    rows: int
    runs: dict[int, int]
    """Number of runs by batch size."""
    queue_s: float
    """Time that requests have waited, together."""


class TritonServer:
    """One server, over one channel. Safe for use from any thread."""

    def __init__(self, url: str) -> None:
        """url: host:port of its gRPC."""
        self.url = url
        self._channel = grpc.insecure_channel(url, options=_OPTIONS)
        self._stub = GRPCInferenceServiceStub(self._channel)

    def close(self) -> None:
        """End what is under way. Idempotent."""
        self._channel.close()

    def describe(self, model: str) -> ServedModel:
        """What it serves under the name `model`.

        Raises EngineError where it is away, has no such model, or has not loaded it.
        """
        ready = self._asked(self._stub.ModelReady, pb.ModelReadyRequest(name=model))
        # Of a model that it does not know it says the same as of one that is being loaded.
        if not ready.ready:
            raise EngineError(f"Triton at {self.url} has no model {model} that is ready")
        about = self._asked(self._stub.ModelMetadata, pb.ModelMetadataRequest(name=model))
        config = self._asked(self._stub.ModelConfig, pb.ModelConfigRequest(name=model)).config
        digest = config.parameters[DIGEST_PARAMETER].string_value
        return ServedModel(specs_of(about.inputs), specs_of(about.outputs), digest)

    def batches(self, model: str) -> Batches:
        """Raises EngineError."""
        request = pb.ModelStatisticsRequest(name=model)
        answer = self._asked(self._stub.ModelStatistics, request)
        stats = answer.model_stats[0]
        return Batches(
            stats.inference_count,
            {batch.batch_size: batch.compute_infer.count for batch in stats.batch_stats},
            stats.inference_stats.queue.ns / 1e9,
        )

    def infer(self, request: pb.ModelInferRequest, *, timeout_s: float) -> pb.ModelInferResponse:
        """The server's answer. It is asked once more where the connection was lost: a network has
        no memory, so that no run is one too many.

        Given up, on a lane's thread, as soon as nobody waits for it any more. Raises
        InvalidInputError for what the model does not take, AtCapacityError where too many wait
        already, EngineError else.
        """
        until_s = time.monotonic() + timeout_s
        try:
            return self._inferred(request, timeout_s)
        except grpc.RpcError as error:
            left_s = until_s - time.monotonic()
            if not _is_lost(error) or left_s <= 0:
                raise self._told(error) from error
        try:
            return self._inferred(request, left_s)
        except grpc.RpcError as error:
            raise self._told(error) from error

    def _inferred(self, request: pb.ModelInferRequest, timeout_s: float) -> pb.ModelInferResponse:
        hand = in_hand()
        call = self._stub.ModelInfer.future(request, timeout=timeout_s)
        try:
            with nullcontext() if hand is None else hand.given_up_by(call.cancel):
                response: pb.ModelInferResponse = call.result()
                return response
        except grpc.FutureCancelledError as error:
            raise EngineError("nobody waited for it any more") from error

    def _asked(self, method: Callable[..., T], request: object) -> T:
        try:
            return method(request, timeout=_QUESTION_S)
        except grpc.RpcError as error:
            raise self._told(error) from error

    def _told(self, error: grpc.RpcError) -> VisavisError:
        code, details = error.code(), error.details() or ""
        match code:
            case grpc.StatusCode.INVALID_ARGUMENT:
                return InvalidInputError(details)
            case grpc.StatusCode.UNAVAILABLE if _QUEUE_IS_FULL in details:
                return AtCapacityError(f"Triton at {self.url}: {details}")
            case grpc.StatusCode.UNAVAILABLE if not _is_lost(error):
                return EngineError(f"Triton at {self.url}: {details}")
            case grpc.StatusCode.UNAVAILABLE:
                return EngineError(f"Triton at {self.url} is away: {details}")
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return EngineError(f"Triton at {self.url} did not answer in time")
            case _:
                return EngineError(f"Triton at {self.url}: {code.name}: {details}")


_QUEUE_IS_FULL = "Exceeds maximum queue size"
_WAITED_TOO_LONG = "Request timeout expired"


def _is_lost(error: grpc.RpcError) -> bool:
    """Nobody answered, rather than the server that it has no room or no time."""
    details = error.details() or ""
    return error.code() is grpc.StatusCode.UNAVAILABLE and not (
        _QUEUE_IS_FULL in details or _WAITED_TOO_LONG in details
    )
