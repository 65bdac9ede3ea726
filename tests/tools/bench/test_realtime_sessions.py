"""Many Realtime sessions at once: what is found where something of one is heard in another."""

from __future__ import annotations

import base64
from typing import Any

from tests.tools.bench.realtime.judging import (
    crossed_ids,
    crossed_voices,
    crossed_words,
    session_of,
)


def heard(word: str, answer: str) -> dict[str, Any]:
    """A whole conversation of a visitor with ids of his own, as `visitors` tells it."""
    item, said, reply = (f"{kind}_{word}" for kind in ("item", "said", "resp"))
    typed = [{"type": "input_text", "text": f"Say {word}."}]
    asked = {"id": item, "object": "realtime.item", "type": "message", "status": "completed"}
    response = {"id": reply, "status": "in_progress", "conversation_id": "c"}
    spoken = {**asked, "id": said, "status": "in_progress", "content": []}
    at = {"response_id": reply, "item_id": said, "output_index": 0, "content_index": 0}
    part = {"type": "audio", "transcript": answer}
    done = {**spoken, "status": "completed", "content": [{"type": "output_audio", **part}]}
    over = {**response, "status": "completed", "status_details": None, "output": [done]}
    events: list[dict[str, Any]] = [
        {"type": "session.created", "session": {"id": f"s_{word}", "object": "r", "type": "r"}},
        *(
            {"type": f"conversation.item.{what}", "item": {**asked, "content": typed}}
            for what in ("added", "done")
        ),
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", **at, "item": spoken},
        {"type": "conversation.item.added", "item": spoken},
        {"type": "response.content_part.added", **at, "part": {"type": "audio"}},
        {"type": "response.output_audio_transcript.delta", **at, "delta": answer},
        {
            "type": "response.output_audio.delta",
            **at,
            "delta": base64.b64encode(bytes(8)).decode(),
        },
        {"type": "response.output_audio.done", **at},
        {"type": "response.output_audio_transcript.done", **at, "transcript": answer},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "conversation.item.done", "item": done},
        {"type": "response.output_item.done", **at, "item": done},
        {"type": "response.done", "response": over},
    ]
    for number, event in enumerate(events):
        event["event_id"] = f"{word}{number}"
        if event["type"].startswith("conversation.item."):
            event["previous_item_id"] = None
    told = [(number / 10, event) for number, event in enumerate(events)]
    return {"word": word, "fault": "", "heard": told, "asked_s": [0.3]}


def test_what_stays_in_its_session_is_no_fault() -> None:
    sessions = [session_of(heard("cactus", "It is green.")), session_of(heard("violin", "I hear."))]
    assert [session.order_error for session in sessions] == ["", ""]
    assert sessions[0].waits_s == [0.5] and sessions[0].answers == ["It is green."]
    assert crossed_words(sessions) == crossed_ids(sessions) == []
    texts = {"cactus": ["It's green."], "violin": ["I hear"]}
    assert crossed_voices(sessions, texts) == []


def test_what_crosses_is_found() -> None:
    one, other = heard("cactus", "It is a violin."), heard("violin", "I hear music.")
    other["heard"][3][1]["response"]["id"] = "resp_cactus"
    sessions = [session_of(one), session_of(other)]
    assert crossed_words(sessions) == ["cactus: violin"]
    assert "KeyError" in sessions[1].order_error, "deltas of a response that was never created"
    other = heard("violin", "I hear music.")
    other["heard"][1][1]["item"]["id"] = "item_cactus"
    sessions[1] = session_of(other)
    assert crossed_ids(sessions) == ["violin: item_cactus"]
    assert len(crossed_voices(sessions, {"cactus": ["I hear music."]})) == 1
