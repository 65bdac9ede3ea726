"""The orders that clients of OpenAI's Realtime protocol rely on, as one state machine.

Every test feeds it with everything that a server sends, whoever the client is: it raises
AssertionError at the first event that comes out of turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_DELTAS = {
    "response.output_audio.delta": "audio",
    "response.output_audio_transcript.delta": "transcript",
    "response.output_text.delta": "text",
    "response.function_call_arguments.delta": "arguments",
}
_ENDS = {kind.replace(".delta", ".done"): what for kind, what in _DELTAS.items()}
_OUTCOMES = ("completed", "cancelled", "incomplete", "failed")


@dataclass
class _Output:
    """An item that a response makes."""

    kind: str
    in_conversation: bool = False
    part: str = ""
    """none, open, done: the newest of its parts."""
    parts: int = 0
    said: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    done: bool = False
    """conversation.item.done has come."""
    over: bool = False


@dataclass
class _Response:
    apart: bool
    outputs: dict[str, _Output] = field(default_factory=dict)
    outcome: str = ""
    playing: str = ""


class Orders:
    """Feed it all events of one connection, in order."""

    def __init__(self) -> None:
        self.session: dict[str, Any] = {}
        self.items: dict[str, str] = {}
        """Ids in the conversation, and where each stands: added, done."""
        self.responses: dict[str, _Response] = {}
        self.transcribed: list[tuple[str, int]] = []
        self.errors: list[dict[str, Any]] = []
        self.seen: list[str] = []
        self._ids: set[str] = set()
        self._utterance = ""
        self._committed: list[str] = []
        self._stopped = self._unwanted = False
        self._segments: dict[tuple[str, int], tuple[set[str], float]] = {}
        """Of each item: their ids, and when the last one begins."""

    def feed_all(self, events: Iterable[dict[str, Any]]) -> Orders:
        for event in events:
            self.feed(event)
        return self

    def feed(self, event: dict[str, Any]) -> None:
        kind, event_id = event["type"], event["event_id"]
        assert event_id and event_id not in self._ids, f"{kind}: event_id {event_id!r}"
        self._ids.add(event_id)
        if not self.seen:
            assert kind in ("session.created", "error"), f"first comes {kind}"
        before = self.seen[-1] if self.seen else ""
        self.seen.append(kind)
        if kind.startswith("session."):
            self._session(kind, event)
        elif kind.startswith("input_audio_buffer."):
            self._input(kind.rpartition(".")[2], event)
        elif "input_audio_transcription" in kind:
            self._transcription(kind.rpartition(".")[2], event)
        elif kind.startswith("conversation.item."):
            self._item(kind.rpartition(".")[2], event)
        elif kind.startswith("output_audio_buffer."):
            self._buffer(kind.rpartition(".")[2], event)
        elif kind.startswith("response."):
            self._response(kind, event)
        elif kind == "rate_limits.updated":
            assert before == "response.created", f"limits behind {before}"
            for limit in event["rate_limits"]:
                assert limit["name"] in ("requests", "tokens")
                assert 0 <= limit["remaining"] <= limit["limit"] and limit["reset_seconds"] >= 0
        else:
            assert kind == "error", f"nobody knows {kind}"
            assert {"type", "code", "message", "param", "event_id"} <= event["error"].keys()
            self.errors.append(event["error"])

    @property
    def quiet(self) -> bool:
        """Nothing has been begun that is not over."""
        return not self._utterance and all(r.outcome for r in self.responses.values())

    # ------------------------------------------------------------ by kind

    def _session(self, kind: str, event: dict[str, Any]) -> None:
        assert (kind == "session.created") is (not self.session), kind
        session = event["session"]
        assert session["id"] and session["object"] and session["type"]
        if self.session:
            assert session["id"] == self.session["id"]
        self.session = session

    def _input(self, what: str, event: dict[str, Any]) -> None:
        match what:
            case "speech_started":
                assert not self._utterance, "two utterances at once"
                assert event["item_id"] not in self.items and event["audio_start_ms"] >= 0
                self._utterance, self._stopped = event["item_id"], False
                self._unwanted = False
            case "speech_stopped":
                assert event["item_id"] == self._utterance and not self._stopped
                assert event["audio_end_ms"] >= 0
                self._stopped = True
                if self._unwanted:  # nothing follows of it
                    self._utterance = ""
            case "committed":
                if self._utterance:
                    assert self._stopped, "committed while the visitor speaks"
                    assert event["item_id"] == self._utterance
                    self._utterance = ""
                assert event["item_id"] not in self.items
                assert "previous_item_id" in event
                self._committed.append(event["item_id"])
            case "timeout_triggered":
                assert event["audio_start_ms"] <= event["audio_end_ms"]
            case _:
                assert what == "cleared"
                self._unwanted = True

    def _transcription(self, what: str, event: dict[str, Any]) -> None:
        assert event["item_id"] in self.items, "a transcript of no item"
        part = (event["item_id"], event["content_index"])
        assert part not in self.transcribed
        if what == "segment":
            self._segment(event)
        if what == "completed":
            assert event["usage"] and isinstance(event["transcript"], str)
        if what in ("completed", "failed"):
            self.transcribed.append(part)

    def _segment(self, event: dict[str, Any]) -> None:
        part = (event["item_id"], event["content_index"])
        ids, since = self._segments.get(part, (set(), 0.0))
        assert event["id"] not in ids, "a segment twice"
        assert since <= event["start"] <= event["end"], "a segment before the one before it"
        assert event["text"] and event["speaker"]
        self._segments[part] = (ids | {event["id"]}, event["start"])

    def _item(self, what: str, event: dict[str, Any]) -> None:
        match what:
            case "added" | "done":
                self._item_told(what, event)
            case "retrieved":
                assert event["item"]["id"] in self.items
            case "truncated":
                assert event["item_id"] in self.items and event["audio_end_ms"] >= 0
            case "deleted":
                del self.items[event["item_id"]]
            case _:
                raise AssertionError(f"conversation.item.{what} is of the beta")

    def _item_told(self, what: str, event: dict[str, Any]) -> None:
        item, before = event["item"], event["previous_item_id"]
        assert item["object"] == "realtime.item" and item["status"] and item["type"]
        assert before is None or before in self.items, "behind an item that is not there"
        for part in item.get("content", ()):
            assert part["type"] != "input_audio" or "transcript" in part
        name = item["id"]
        if what == "added":
            assert name not in self.items, "added twice"
            if self._committed:
                assert name == self._committed.pop(0), "another item than was committed"
                said = [part["transcript"] for part in item["content"]]
                assert said == [None], "what was said is told by `completed` alone"
            self.items[name] = "added"
        else:
            assert self.items[name] == "added", "done before it was added, or twice"
            self.items[name] = "done"
        output = self._making(name)
        if output is not None:
            assert item["status"] == "in_progress" or what == "done"
            if what == "done":
                assert output.part in ("", "done") and not output.over
                output.done = True
            else:
                output.in_conversation = True

    def _making(self, item_id: str) -> _Output | None:
        found = (r.outputs[item_id] for r in self.responses.values() if item_id in r.outputs)
        return next(found, None)

    def _buffer(self, what: str, event: dict[str, Any]) -> None:
        response = self.responses[event["response_id"]]
        if what == "started":
            assert not response.playing and response.outputs
        else:
            assert what in ("stopped", "cleared") and response.playing == "started"
        response.playing = what

    # ------------------------------------------------------------ responses

    def _response(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "response.created":
            self._created(event["response"])
            return
        name = event["response"]["id"] if kind == "response.done" else event["response_id"]
        response = self.responses[name]
        assert not response.outcome, f"{kind} after the end of its response"
        if kind == "response.done":
            self._over(response, event["response"])
        elif kind == "response.output_item.added":
            self._begun(response, event)
        else:
            item_id = event["item"]["id"] if "item" in event else event["item_id"]
            output = response.outputs[item_id]
            assert list(response.outputs).index(item_id) == event["output_index"]
            assert not output.over, f"{kind} after the end of its item"
            self._of_output(kind, event, response, output)

    def _created(self, told: dict[str, Any]) -> None:
        apart = told["conversation_id"] is None
        assert told["id"] not in self.responses and told["status"] == "in_progress"
        active = [r for r in self.responses.values() if not r.apart and not r.outcome]
        assert apart or not active, "two responses of the conversation at once"
        assert not self._committed, "a response before its item was added"
        self.responses[told["id"]] = _Response(apart)

    def _begun(self, response: _Response, event: dict[str, Any]) -> None:
        item = event["item"]
        assert item["status"] == "in_progress" and item["id"] not in response.outputs
        assert all(output.over for output in response.outputs.values())
        response.outputs[item["id"]] = _Output(item["type"])
        assert event["output_index"] == len(response.outputs) - 1

    def _of_output(
        self, kind: str, event: dict[str, Any], response: _Response, output: _Output
    ) -> None:
        assert output.in_conversation or response.apart, "before conversation.item.added"
        if kind in _DELTAS:
            self._delta(_DELTAS[kind], event, output)
        elif kind in _ENDS:
            self._end(_ENDS[kind], event, output)
        elif kind == "response.content_part.added":
            assert output.part in ("", "done") and output.kind == "message"
            assert event["content_index"] == output.parts
            output.part, output.parts, output.said, output.ended = "open", output.parts + 1, {}, []
        elif kind == "response.content_part.done":
            assert output.part == "open"
            text = event["part"].get("transcript", event["part"].get("text"))
            assert text == output.said.get("transcript", output.said.get("text", ""))
            ends = ["audio", "transcript"] if event["part"]["type"] == "audio" else ["text"]
            assert output.ended == ends, output.ended
            output.part = "done"
        else:
            assert kind == "response.output_item.done", kind
            assert output.done or response.apart, "before conversation.item.done"
            assert event["item"]["status"] in ("completed", "incomplete")
            output.over = True

    def _delta(self, what: str, event: dict[str, Any], output: _Output) -> None:
        assert what == "arguments" or output.part == "open", f"a delta of {what} outside of a part"
        assert what not in output.ended, f"a delta of {what} after its end"
        output.said[what] = output.said.get(what, "") + event["delta"]

    def _end(self, what: str, event: dict[str, Any], output: _Output) -> None:
        if what != "audio":
            assert event[what] == output.said.get(what, ""), f"{what}: not what the deltas said"
        if what == "arguments":
            assert event["call_id"] and event["name"]
        output.ended.append(what)

    def _over(self, response: _Response, told: dict[str, Any]) -> None:
        assert told["status"] in _OUTCOMES
        details = told["status_details"]
        assert (details is None) is (told["status"] == "completed")
        assert details is None or details["type"] == told["status"]
        assert all(output.over for output in response.outputs.values())
        assert [item["id"] for item in told["output"]] == list(response.outputs)
        response.outcome = told["status"]
