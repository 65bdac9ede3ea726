"""The Triton backend: a network on a server that several processes share."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from visavis.bundles.store.installed import recorded_sha256
from visavis.engine.base import Engine, Tensors, TensorSpec, TritonOptions, on_host
from visavis.engine.in_hand import in_hand
from visavis.engine.triton.exchange import infer_request, outputs_of
from visavis.engine.triton.server import TritonServer
from visavis.serving.errors import EngineError, EngineLoadError

log = logging.getLogger(__name__)


class TritonEngine(Engine):
    """A network that a Triton server runs, in batches with what other processes ask of it.

    The one backend that takes several runs at the same time: its server forms the batches. State
    between runs travels as tensors, as with every backend, here over the network and back.
    """

    backend = "triton"

    def __init__(self, model: Path, asked: TritonOptions) -> None:
        """model: the ONNX file that the server's was made of."""
        super().__init__(model, device=f"triton://{asked.url}", threads=1)
        self.at_once = asked.at_once
        self._asked = asked
        self._server: TritonServer | None = None

    def _load(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        if not self.model.is_file():
            raise EngineLoadError(f"{self.model}: no such model; run `visavis models pull`")
        server = TritonServer(self._asked.url)
        try:
            served = server.describe(self._asked.model)
            self._check_weights(served.sha256)
        except EngineError as error:
            server.close()
            raise EngineLoadError(
                f"{self.model}: {error}; "
                "`visavis engine triton-repository` writes what it is to serve"
            ) from error
        self._server = server
        return dict(served.inputs), dict(served.outputs)

    def _check_weights(self, served: str) -> None:
        if not served:
            log.info("%s: nothing says which weights Triton has", self._asked.model)
            return
        if served != (recorded_sha256(self.model) or _sha256(self.model)):
            raise EngineLoadError(
                f"Triton at {self._asked.url} has {self._asked.model} with other weights "
                f"than {self.model}"
            )

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        assert self._server is not None
        hand = in_hand()
        timeout_s = self._asked.timeout_s
        if hand is not None and hand.left_s is not None:
            timeout_s += max(0.0, hand.left_s)  # what is needed later may come later
        request = infer_request(
            self._asked.model,
            on_host(inputs),
            timeout_s=timeout_s,
            priority=0 if hand is None else hand.urgency.priority,
        )
        return outputs_of(self._server.infer(request, timeout_s=timeout_s))

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
