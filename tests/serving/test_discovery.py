import json

from visavis.serving.discovery import Replica, parse_info

INFO = {
    "name": "visavis-tts",
    "version": "0.1.0",
    "metadata": {"instance": "tts-1", "grpc": "127.0.0.1:5", "device": "cpu"},
}


def test_only_readable_answers_of_ours_are_replicas() -> None:
    found = parse_info(json.dumps(INFO).encode())
    assert found == Replica("tts", "tts-1", "0.1.0", "127.0.0.1:5", "", "cpu")
    others = ({**INFO, "metadata": {}}, {**INFO, "name": "weather"})
    for payload in (b"", b"{", b"[]", b"{}", *(json.dumps(other).encode() for other in others)):
        assert parse_info(payload) is None
