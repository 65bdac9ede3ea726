"""What a real Triton server was asked and what it said, kept as bytes.

Server 2.51, carried by nvidia-pytriton 0.7.0, with the network of the lips in the Python backend:
`test_real_server.py` compares it again, and writes the file anew with RECORD_TRITON=1.
"""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

from services.face.lips.audio_to_face import WEIGHTS
from tests.triton_server import Exchange
from visavis.engine import EngineOptions, TritonOptions, open_engine
from visavis.engine.triton.server import Batches, TritonServer

RECORDED = Path(__file__).with_name("exchanges.json")
MODEL = "audio-to-face.audio_to_face"


def conversation(url: str) -> tuple[dict[str, np.ndarray[Any, Any]], Batches]:
    """What is asked of it: a load, a run of two rows, the statistics."""
    asked = TritonOptions(url, MODEL, timeout_s=30.0)
    with open_engine(WEIGHTS, backend="triton", options=EngineOptions(triton=asked)) as engine:
        outputs = engine.infer({"mel": rows()})
    server = TritonServer(url)
    try:
        return outputs, server.batches(MODEL)
    finally:
        server.close()


def rows() -> np.ndarray[Any, np.dtype[np.float32]]:
    """[2, 33, 40]: the least that makes an output, twice."""
    steps = np.arange(2 * 33 * 40, dtype=np.float32).reshape(2, 33, 40)
    return np.sin(steps) - np.float32(5.0)


def recorded() -> list[Exchange]:
    kept = json.loads(RECORDED.read_text("utf-8"))
    return [(e["method"], *(base64.b64decode(e[k]) for k in ("asked", "said"))) for e in kept]


def record(exchanges: list[Exchange]) -> None:
    kept = [
        {"method": method, "asked": _text(asked), "said": _text(said)}
        for method, asked, said in exchanges
    ]
    RECORDED.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
