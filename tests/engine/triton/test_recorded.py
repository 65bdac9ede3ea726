"""Our side of the protocol against bytes of a real server: what it said is what we read."""

import numpy as np

from services.face.lips.audio_to_face import WEIGHTS
from tests.engine.triton.exchanges import MODEL, conversation, recorded, rows
from tests.triton_server import Relay, relayed
from visavis.engine import open_engine
from visavis.v1 import kserve_pb2 as pb


def test_what_a_real_server_said_is_understood() -> None:
    exchanges = recorded()
    said = {method: answer for method, _, answer in exchanges}
    relay = Relay(lambda method, asked: said[method])
    with relayed(relay) as url:
        outputs, batches = conversation(url)
    with open_engine(WEIGHTS) as engine:
        for name, array in engine.infer({"mel": rows()}).items():
            np.testing.assert_allclose(outputs[name], array, atol=1e-5)
    assert batches.runs == {2: 1} and batches.rows == 2
    # And what it was asked then is what is asked today.
    asked = [(method, request) for method, request, _ in relay.exchanges]
    assert [method for method, _ in asked] == [method for method, _, _ in exchanges]
    for (_, now), (method, then, _) in zip(asked, exchanges, strict=True):
        if method.endswith("/ModelInfer"):  # a map has no order on the wire
            assert pb.ModelInferRequest.FromString(now) == pb.ModelInferRequest.FromString(then)
        else:
            assert now == then and MODEL.encode() in now
