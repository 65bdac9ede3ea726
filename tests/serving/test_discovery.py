import json
from typing import Any

from visavis.serving.discovery import Replica, parse_info
from visavis.serving.lifetime.draining import Phase
from visavis.wire.levels import BEFORE, LEVEL

INFO: dict[str, Any] = {
    "name": "visavis-tts",
    "version": "0.1.0",
    "metadata": {"instance": "tts-1", "grpc": "127.0.0.1:5", "device": "cpu"},
}


def test_only_readable_answers_of_ours_are_replicas() -> None:
    found = parse_info(json.dumps(INFO).encode())
    assert found is not None and found == Replica("tts", "tts-1", "0.1.0", "127.0.0.1:5", "", "cpu")
    ending = {**INFO, "metadata": INFO["metadata"] | {"phase": str(Phase.DRAINING)}}
    leaving = parse_info(json.dumps(ending).encode())
    assert leaving is not None and leaving.draining and not found.draining
    told = {**INFO, "metadata": INFO["metadata"] | {"level": str(LEVEL)}}
    of_now = parse_info(json.dumps(told).encode())
    assert of_now is not None and (found.level, of_now.level) == (BEFORE, LEVEL)
    others = ({**INFO, "metadata": {}}, {**INFO, "name": "weather"})
    for payload in (b"", b"{", b"[]", b"{}", *(json.dumps(other).encode() for other in others)):
        assert parse_info(payload) is None
