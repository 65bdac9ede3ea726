"""The adapter between OpenAI's Realtime protocol and a session: pure, so in no time."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pytest

from gateway.api.events import AnswerEvent, ErrorEvent, ShownEvent, TranscriptEvent, TurnEvent
from gateway.api.hub import Overheard, Voiced
from gateway.openai.errors import RefusedError
from gateway.realtime.protocol import effects as to_do
from gateway.realtime.protocol.config import Pcm, Telephone, first_config
from gateway.realtime.protocol.dialogue import Dialogue, News
from gateway.realtime.protocol.sound import LONGEST_APPEND_BYTES, SoundIn, SoundOut
from gateway.realtime.queues import MicQueue
from gateway.stages.plain_calls import Passage
from gateway.stages.stages import Endpointing
from gateway.talk.actions import Emit, Message
from gateway.talk.conversation import Conversation
from gateway.talk.history import SpokenMark
from gateway.tools.offers import FREE
from tests.realtime_orders import Orders
from visavis.serving.errors import UnknownNameError
from visavis.wire.media import WordTime

T = TypeVar("T")

SECOND = np.zeros(48_000, np.int16)
TOOL = {"type": "function", "name": "look_up", "description": "", "parameters": {"type": "object"}}
GO = {"type": "function", "name": "go"}
"""The choice of another one."""
WHERE = "input_audio_transcription"


class Known:
    """Two voices and one language."""

    def voice(self, name: str) -> str:
        if name not in ("", "alloy", "ada"):
            raise RefusedError(f"voice: there is no {name}", "voice", "invalid_value")
        return name and "ada"

    def language(self, tag: str) -> None:
        if tag not in ("en", "zh"):
            raise UnknownNameError(f"language: {tag} is not spoken")


class Talk:
    """A client, the adapter, and whoever does what it asks for; all is held against the orders."""

    def __init__(self, session: dict[str, Any] | None = None, *, by_channel: bool = False) -> None:
        count = itertools.count(1)
        config = first_config(session, "You are kind.")
        about = {"id": "sess_1", "object": "realtime.session", "model": "gpt-realtime"}
        self.dialogue = Dialogue(
            config, about, lambda kind: f"{kind}_{next(count)}", Known(), by_channel=by_channel
        )
        self.orders = Orders()
        self.events: list[dict[str, Any]] = []
        self.done: list[to_do.Effect] = []
        self._take(self.dialogue.begin())

    def say(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """An event of the client's; what comes back at once."""
        return self._take(self.dialogue.client({"type": kind, **fields}))

    def hear(self, *news: News) -> list[dict[str, Any]]:
        """What the session tells."""
        return [event for one in news for event in self._take(self.dialogue.hear(one))]

    def update(self, **session: Any) -> list[dict[str, Any]]:
        return self.say("session.update", session={"type": "realtime", **session})

    def of(self, kind: type[T]) -> list[T]:
        return [effect for effect in self.done if isinstance(effect, kind)]

    def remembered(self) -> tuple[Message, ...]:
        return self.of(to_do.Remember)[-1].said

    def begin(self, turn: int) -> None:
        """The session speaks the newest reply that it was asked for."""
        asked = [e for e in self.done if isinstance(e, to_do.Answer | to_do.Speak)]
        self._take(self.dialogue.began(asked[-1].reply, turn))
        self.hear(TurnEvent(turn=turn, event="opened"))

    def answer(self, turn: int, text: str = "Fine, thank you.") -> list[dict[str, Any]]:
        """A whole answer of one second is made, and begins to be heard."""
        return self.hear(
            AnswerEvent(turn=turn, text=text),
            Voiced(turn, SECOND, (SpokenMark(5, 0.4),), last=False),
            TurnEvent(turn=turn, event="speaking"),
            AnswerEvent(turn=turn, text="", final=True),
            Voiced(turn, SECOND[:0], (SpokenMark(len(text), 1.0),), last=True),
        )

    def ask(self, text: str = "How are you?") -> None:
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        self.say("conversation.item.create", item=item)

    def asked_aloud(self) -> None:
        """A typed question is being answered by turn 1."""
        self.ask()
        self.say("response.create")
        self.begin(1)

    def record(self) -> list[dict[str, Any]]:
        """Half a second is committed."""
        self.say("input_audio_buffer.append", audio=sound(0.5))
        return self.say("input_audio_buffer.commit")

    def speak(self, utterance: int, text: str, turn: int | None) -> list[dict[str, Any]]:
        """The visitor says something, which the session answers in `turn`."""
        news: list[News] = [
            Overheard("began", utterance, 100),
            Overheard("ended", utterance, 900),
            TranscriptEvent(utterance=utterance, text=text, final=True, turn=turn),
        ]
        if turn is not None:
            news.append(TurnEvent(turn=turn, event="opened"))
        return self.hear(*news)

    def _take(self, effects: Sequence[to_do.Effect]) -> list[dict[str, Any]]:
        self.done += effects
        events = [effect.event for effect in effects if isinstance(effect, to_do.Send)]
        self.orders.feed_all(events)
        self.events += events
        return events


def sound(seconds: float) -> str:
    return base64.b64encode(np.ones(round(24_000 * seconds), "<i2").tobytes()).decode()


def kinds(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def code(events: Sequence[dict[str, Any]]) -> str:
    (event,) = events
    assert event["type"] == "error"
    return str(event["error"]["code"])


def last(talk: Talk) -> dict[str, Any]:
    """The newest response.done."""
    response: dict[str, Any] = [e for e in talk.events if e["type"] == "response.done"][-1]
    return dict(response["response"])


# ------------------------------------------------------------ the session object


def test_an_update_is_sparse_and_the_whole_session_comes_back() -> None:
    talk = Talk()
    talk.update(audio={"input": {"turn_detection": {"threshold": 0.7}}}, tracing="auto")
    (told,) = talk.update(audio={"output": {"voice": "alloy"}}, instructions="Be brief.")
    session = told["session"]
    assert session["audio"]["input"]["turn_detection"]["threshold"] == 0.7
    assert session["audio"]["input"]["turn_detection"]["interrupt_response"] is True
    assert (session["audio"]["output"]["voice"], session["tracing"]) == ("alloy", "auto")
    (told,) = talk.update(audio={"input": {"turn_detection": {"type": "semantic_vad"}}})
    detection = told["session"]["audio"]["input"]["turn_detection"]
    assert detection["eagerness"] == "auto" and "threshold" not in detection
    (told,) = talk.update(audio={"input": {"turn_detection": None}})
    assert told["session"]["audio"]["input"]["turn_detection"] is None
    assert talk.of(to_do.Remember)[-1].persona == "Be brief."
    for wanted, known in (({}, False), ({"languages": ["en"]}, True), ({"languages": None}, False)):
        (told,) = talk.update(audio={"input": {"transcription": wanted}})
        heard = told["session"]["audio"]["input"]["transcription"]
        assert heard["model"] == "whisper-1"
        assert ("languages" in heard) is known, "Pipecat takes none that it has not set"
    (told,) = talk.update(audio={"input": {"noise_reduction": {"type": "far_field"}}})
    not_done = told["session"]["audio"]["input"]["noise_reduction"]
    assert not_done is None, "nobody does that here"


def test_what_is_wrong_with_an_update_is_told_by_name() -> None:
    talk, invalid, form = Talk(), "invalid_value", {"type": "audio/pcm", "rate": 1}
    hush = {"noise_reduction": {"type": "loud"}}
    many = [GO | {"name": f"go{n}", "description": "x" * 2000} for n in range(60)]
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({}, "session.type", "missing_required_parameter"),
        ({"type": "transcription"}, "session.type", invalid),
        ({"type": "realtime", "modalities": ["text"]}, "session.modalities", "unknown_parameter"),
        ({"audio": {"output": {"speed": 9}}}, "session.audio.output.speed", invalid),
        ({"audio": {"input": {"format": form}}}, "session.audio.input.format.rate", invalid),
        ({"audio": {"input": hush}}, "session.audio.input.noise_reduction.type", invalid),
        ({"audio": {"output": {"voice": "x"}}}, "voice", invalid),
        ({"output_modalities": ["text", "audio"]}, "session.output_modalities", invalid),
        ({"tools": [{"name": "a.b"}]}, "session.tools.0.name", invalid),
        ({"tools": [{"name": "a"}] * 2}, "session.tools", invalid),
        ({"tools": [TOOL], "tool_choice": GO}, "session.tool_choice", invalid),
        ({"prompt": [[]] * 160_000}, "session.prompt", invalid),
        ({"tools": many}, "session", invalid),
    ]
    for session, param, why in wrong:
        whole = {"type": "realtime"} | session if session else session
        (error,) = talk.say("session.update", session=whole, event_id="mine")
        told = error["error"]
        assert (told["param"], told["code"], told["event_id"]) == (param, why, "mine")
        assert told["type"] == "invalid_request_error"
        assert talk.dialogue.config == first_config(None, "You are kind."), session


def test_a_response_may_only_want_tools_called_that_there_are() -> None:
    look_up = {"type": "function", "name": "look_up"}
    talk = Talk({"tools": [TOOL], "tool_choice": look_up, "output_modalities": ["text"]})
    talk.ask("How high is it?")
    for wrong in ({"tool_choice": GO}, {"tools": [], "tool_choice": "required"}):
        (error,) = talk.say("response.create", response=wrong)
        told = (error["error"]["param"], error["error"]["code"])
        assert told == ("response.tool_choice", "invalid_value")
    talk.say("response.create", response={"tools": [{"type": "function", "name": "go"}]})
    (write,) = talk.of(to_do.Write)
    assert write.wanted.choice == FREE, "the session's choice is of the session's tools"


def test_nonsense_is_an_error_and_the_session_lives() -> None:
    talk = Talk()
    wrong: list[dict[str, Any]] = [{"type": "session.destroy"}, {}]
    for nonsense in wrong:
        assert code(talk._take(talk.dialogue.client(nonsense))) == "invalid_value"
    for audio in ("%%%", "AAAA" * (LONGEST_APPEND_BYTES // 3 + 2)):
        assert code(talk.say("input_audio_buffer.append", audio=audio)) == "invalid_value"
    parts: list[Any] = [{"type": "input_audio", "transcript": {}}, {"type": "input_image"}, 3, {}]
    for part in parts:
        item = {"type": "message", "role": "user", "content": [part]}
        told = talk.say("conversation.item.create", item=item, previous_item_id=[])
        assert told[0]["type"] == "error"
    call = {"type": "function_call", "call_id": "c", "name": "files.read", "arguments": "{}"}
    for wrong_call in (call, call | {"name": "read", "arguments": '{"at": NaN}'}):
        assert code(talk.say("conversation.item.create", item=wrong_call)) == "invalid_value"
    asked: list[Any] = [3, {"tools": [{}]}, {"metadata": {str(i): "" for i in range(17)}}]
    for response in asked:
        assert code(talk.say("response.create", response=response)) != ""
    assert code(talk.say("conversation.item.retrieve", item_id="x")) == "item_not_found"
    assert kinds(talk.update(tools=[TOOL])) == ["session.updated"]


def test_a_conversation_is_no_longer_than_it_may_be_however_it_grows() -> None:
    def asked(*texts: str) -> list[dict[str, Any]]:
        content = [{"type": "input_text", "text": text} for text in texts]
        item = {"type": "message", "role": "user", "content": content}
        return talk.say("conversation.item.create", item=item)

    talk, half = Talk(), "x" * 16_001
    assert code(asked(*"a" * 129)) == code(asked(half, half)) == "invalid_value"
    for number in range(60):
        asked(f"{number}", half, "\n")
    (said,) = talk.remembered()
    assert len(said.content) < 520_000 and said.content.endswith(half)
    assert said.content.split(maxsplit=1)[0] == "29", "the oldest are forgotten"


@pytest.mark.parametrize(
    ("detection", "wanted"),
    [
        (
            {"type": "server_vad", "threshold": 0.8, "silence_duration_ms": 900},
            Endpointing(speech_probability=0.8, lead_ms=300, silence_ms=900),
        ),
        (
            {"threshold": 1.0, "prefix_padding_ms": 0, "silence_duration_ms": 0},
            Endpointing(speech_probability=0.98, lead_ms=0, silence_ms=64),
        ),
        ({"type": "semantic_vad"}, Endpointing(patience_ms=4000)),
        ({"type": "semantic_vad", "eagerness": "low"}, Endpointing(patience_ms=8000)),
        ({"type": "semantic_vad", "eagerness": "high"}, Endpointing(patience_ms=2000)),
        (None, Endpointing()),
    ],
)
def test_turn_detection_reaches_the_recogniser(detection: Any, wanted: Endpointing) -> None:
    talk, other = Talk(), Talk()
    talk.update(audio={"input": {"turn_detection": detection}})
    assert talk.of(to_do.Configure)[-1].config.endpointing == wanted
    assert other.dialogue.config == first_config(None, "You are kind."), "another session's"


# ------------------------------------------------------------ an answer aloud


def test_a_spoken_turn_in_its_order() -> None:
    talk = Talk({"audio": {"input": {"transcription": {"model": "whisper-1"}}}})
    spoken, answered = talk.speak(1, "How are you?", turn=1), talk.answer(1)
    of_item = "conversation.item"
    told = [kind for kind, _ in itertools.groupby(kinds(spoken + answered))]
    assert told == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        f"{of_item}.added",
        f"{of_item}.done",
        f"{of_item}.{WHERE}.delta",
        f"{of_item}.{WHERE}.completed",
        "response.created",
        "response.output_item.added",
        f"{of_item}.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        f"{of_item}.done",
        "response.output_item.done",
        "response.done",
    ]
    started, stopped, committed, added = spoken[:4]
    assert {e["item_id"] for e in (started, stopped, committed)} == {added["item"]["id"]}
    # With what lies before the voice, and with the silence that has told its end.
    assert (started["audio_start_ms"], stopped["audio_end_ms"]) == (0, 1400)
    assert last(talk)["status"] == "completed" and talk.orders.quiet
    # The session itself remembers what it says, once that was heard.
    assert talk.remembered() == (Message("user", "How are you?"),)
    talk.hear(TurnEvent(turn=1, event="finished"))
    assert talk.remembered()[-1] == Message("assistant", "Fine, thank you.")


@pytest.mark.parametrize("transcription", [{"model": "whisper-1"}, None])
@pytest.mark.parametrize("read_apart", [True, False])
def test_what_is_said_is_told_where_transcription_is_on_and_then_once(
    transcription: dict[str, Any] | None, read_apart: bool
) -> None:
    detection = None if read_apart else {"type": "server_vad"}
    talk = Talk({"audio": {"input": {"transcription": transcription, "turn_detection": detection}}})
    if read_apart:
        talk.record()
        talk.hear(to_do.Recognised(talk.of(to_do.Recognise)[0].of, "How are you?"))
    else:
        talk.speak(1, "How are you?", turn=1)
    told = [event for event in talk.events if "How are you?" in str(event)]
    of_words = ["delta", "completed"] if transcription else []
    assert kinds(told) == [f"conversation.item.{WHERE}.{kind}" for kind in of_words]
    done = next(e["item"] for e in talk.events if e["type"] == "conversation.item.done")
    assert done["content"] == [{"type": "input_audio", "transcript": None}]
    (got,) = talk.say("conversation.item.retrieve", item_id=done["id"])
    kept = "How are you?" if transcription else None
    assert got["item"]["content"] == [{"type": "input_audio", "transcript": kept}]
    assert talk.remembered() == (Message("user", "How are you?"),)


def test_sound_is_sent_as_it_is_made_and_the_wanted_form_has_its_length() -> None:
    for form, seconds_bytes in (
        ({"type": "audio/pcm", "rate": 24_000}, 48_000),
        ({"type": "audio/pcmu"}, 8_000),
        ({"type": "audio/pcm", "rate": 48_000}, 96_000),
    ):
        talk = Talk({"audio": {"output": {"format": form}}})
        talk.speak(1, "How are you?", turn=1)
        sent = [e["delta"] for e in talk.answer(1) if e["type"] == "response.output_audio.delta"]
        assert sum(len(base64.b64decode(piece)) for piece in sent) == seconds_bytes


def test_an_answer_prepared_in_a_pause_is_sent_once_it_is_wanted() -> None:
    talk = Talk()
    assert talk.hear(Voiced(1, SECOND, (), last=False)) == []
    assert talk.hear(Voiced(2, SECOND, (), last=False)) == []
    events = talk.speak(1, "How are you?", turn=2)
    events += talk.hear(AnswerEvent(turn=2, text="Fine.", final=True), Voiced(2, SECOND, (), True))
    deltas = [e for e in events if e["type"] == "response.output_audio.delta"]
    assert sum(len(base64.b64decode(e["delta"])) for e in deltas) == 2 * 48_000
    assert last(talk)["output"][0]["content"][0]["transcript"] == "Fine."


def test_a_typed_question_is_answered_by_the_session_with_all_that_was_said() -> None:
    talk = Talk()
    content = [{"type": "input_text", "text": "It is late."}]
    item = {"type": "message", "role": "system", "content": content}
    talk.say("conversation.item.create", item=item)
    talk.ask("Hello?")
    talk.ask("How are you?")
    assert kinds(talk.say("response.create")) == ["response.created"]
    (asked,) = talk.of(to_do.Answer)
    assert asked.prompt == (
        Message("system", "You are kind. It is late. Answer in English."),
        Message("user", "Hello? How are you?"),
    )
    talk.begin(1)
    talk.answer(1)
    assert last(talk)["status"] == "completed"
    # Before it is heard to its end here, the client may go on.
    talk.ask("And now?")
    talk.say("response.create")
    assert talk.of(to_do.Answer)[-1].prompt[-2:] == (
        Message("assistant", "Fine, thank you."),
        Message("user", "And now?"),
    )


def test_one_response_at_a_time_and_a_cancel_may_come_too_late() -> None:
    talk = Talk()
    assert code(talk.say("response.cancel")) == "response_cancel_not_active"
    talk.asked_aloud()
    active = "conversation_already_has_active_response"
    assert code(talk.say("response.create", event_id="second")) == active
    assert talk.events[-1]["error"]["event_id"] == "second"
    talk.hear(AnswerEvent(turn=1, text="Fi"), Voiced(1, SECOND, (), False))
    cancelled = talk.say("response.cancel")
    assert kinds(cancelled)[-1] == "response.done"
    details = {"type": "cancelled", "reason": "client_cancelled"}
    assert cancelled[-1]["response"]["status_details"] == details
    assert isinstance(talk.done[-1], to_do.Remember) and talk.of(to_do.Silence)
    # What was on its way is not told any more.
    over = TurnEvent(turn=1, event="interrupted", reason="interrupt", heard="")
    assert talk.hear(AnswerEvent(turn=1, text="ne."), Voiced(1, SECOND, (), True), over) == []
    assert code(talk.say("response.cancel")) == "response_cancel_not_active"
    talk.ask()
    assert kinds(talk.say("response.create")) == ["response.created"]


def test_what_was_heard_is_what_the_client_says() -> None:
    talk = Talk()
    talk.asked_aloud()
    talk.answer(1)
    (item,) = last(talk)["output"]
    cut = {"item_id": item["id"], "content_index": 0}
    assert code(talk.say("conversation.item.truncate", **cut, audio_end_ms=1001)) == "invalid_value"
    (told,) = talk.say("conversation.item.truncate", **cut, audio_end_ms=500)
    assert told["type"] == "conversation.item.truncated" and told["audio_end_ms"] == 500
    assert isinstance(talk.done[-2], to_do.Silence), "nobody hears the rest"
    talk.hear(TurnEvent(turn=1, event="interrupted", reason="interrupt", heard="Fine, thank"))
    assert talk.remembered()[-1] == Message("assistant", "Fine,")
    (shown,) = talk.say("conversation.item.retrieve", item_id=item["id"])
    assert shown["item"]["content"] == [{"type": "output_audio", "transcript": "Fine,"}]
    (gone,) = talk.say("conversation.item.delete", item_id=item["id"])
    assert gone["item_id"] == item["id"]
    assert talk.remembered() == (Message("user", "How are you?"),)
    assert code(talk.say("conversation.item.truncate", **cut, audio_end_ms=0)) == "item_not_found"


def test_a_turn_that_fails() -> None:
    talk = Talk()
    talk.asked_aloud()
    talk.hear(
        TurnEvent(turn=1, event="failed", reason="llm: gone"),
        ErrorEvent(code="stage_lost", message="llm: gone"),
    )
    assert last(talk)["status_details"]["error"]["message"] == "llm: gone"
    assert talk.orders.errors == []
    talk.hear(ErrorEvent(code="stage_lost", message="face: gone"))
    assert talk.orders.errors[0]["type"] == "server_error"


# ------------------------------------------------------------ interruptions


def answering(detection: str, **talk: Any) -> Talk:
    """An answer is being heard, and not complete."""
    session = {"audio": {"input": {"turn_detection": {"type": detection}}}}
    begun = Talk(session, **talk)
    begun.speak(1, "How are you?", turn=1)
    begun.hear(
        AnswerEvent(turn=1, text="Fine, thank you."),
        Voiced(1, SECOND, (SpokenMark(5, 0.4),), last=False),
        TurnEvent(turn=1, event="speaking"),
    )
    return begun


def test_code_is_a_part_of_its_own_behind_what_is_said() -> None:
    talk = showing_code()
    talk.answer(1)
    spoken, shown = last(talk)["output"][0]["content"]
    assert spoken["transcript"] == "Fine, thank you."
    assert shown == {"type": "output_text", "text": "```sh\nls -l\n```"}
    # The model reads it again on lines of its own.
    talk.hear(TurnEvent(turn=1, event="finished"))
    talk.ask("Shorter, please.")
    content = "Fine, thank you.\n```sh\nls -l\n```"
    assert talk.remembered()[-2] == Message("assistant", content)
    for text in ("So?", content, "Yes."):
        said = [{"type": "text", "text": text}]
        item = {"type": "message", "role": "assistant", "content": said}
        talk.say("conversation.item.create", item=item)
    assert talk.remembered()[-1].content == f"So?\n{content}\nYes."


def test_code_of_an_answer_that_was_prepared_to_its_end_is_shown_too() -> None:
    conversation = Conversation()
    conversation.speech_started(1, 0)
    conversation.paused(1, "How do I list files?", 0.9, 1)
    conversation.token(1, "Like this:\n", last=False, now=1)
    conversation.shown(1, 1, "sh", "ls -l\n", 1)
    conversation.token(1, "", last=True, now=1)
    conversation.voice(1, 1.0, last=True, now=1)
    wanted = conversation.final(1, "How do I list files?", 2)
    talk = Talk()
    talk.hear(Voiced(1, SECOND, (), last=True))
    talk.hear(Overheard("began", 1, 100), Overheard("ended", 1, 900))
    talk.hear(*(action.event for action in wanted if isinstance(action, Emit)))
    spoken, shown = last(talk)["output"][0]["content"]
    assert (spoken["transcript"], shown["text"]) == ("Like this:\n", "```sh\nls -l\n```")


def test_who_interrupts_an_answer_with_code_has_seen_the_code() -> None:
    talk = showing_code()
    talk.answer(1)
    item = last(talk)["output"][0]
    talk.say("conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=400)
    talk.hear(TurnEvent(turn=1, event="interrupted", reason="interrupt", heard="Fine,"))
    (got,) = talk.say("conversation.item.retrieve", item_id=item["id"])
    assert [part["type"] for part in got["item"]["content"]] == ["output_audio", "output_text"]
    assert talk.remembered()[-1] == Message("assistant", "Fine,\n```sh\nls -l\n```")


def showing_code() -> Talk:
    """An answer has written a block, and nothing else yet."""
    talk = Talk()
    talk.speak(1, "How do I list files?", turn=1)
    block: dict[str, Any] = {"turn": 1, "block": 1, "language": "sh", "chars": 5}
    talk.hear(ShownEvent(text="ls", **block), ShownEvent(text=" -l\n", **block))
    return talk


def test_a_voice_that_lasts_interrupts_at_once_where_the_server_detects_voices() -> None:
    talk = answering("server_vad")
    assert talk.hear(Overheard("began", 2, 2000)) == [], "a cough is over by itself"
    events = talk.hear(Overheard("over_answer", 2))
    assert kinds(events)[0] == "input_audio_buffer.speech_started"
    assert last(talk)["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert isinstance(talk.done[-1], to_do.Silence)
    over = TurnEvent(turn=1, event="interrupted", reason="interrupt", heard="Fine,")
    assert talk.hear(over, AnswerEvent(turn=1, text=" And"), Voiced(1, SECOND, (), True)) == []
    assert talk.remembered()[-1] == Message("assistant", "Fine,")
    # It was a noise: no response follows.
    silence = TranscriptEvent(utterance=2, text="", final=True)
    noise = talk.hear(Overheard("ended", 2, 2900), silence)
    assert kinds(noise)[:2] == ["input_audio_buffer.speech_stopped", "input_audio_buffer.committed"]
    assert "response.created" not in kinds(noise) and talk.orders.quiet


def test_words_decide_where_turns_are_told_by_their_meaning() -> None:
    talk = answering("semantic_vad")
    assert talk.hear(Overheard("began", 2, 2000), Overheard("over_answer", 2)) == []
    hum = TranscriptEvent(utterance=2, text="", final=True)
    assert talk.hear(Overheard("ended", 2, 2500), hum) == [], 'an "uh-huh" is no interruption'
    assert talk.hear(Overheard("began", 3, 4000), Overheard("over_answer", 3)) == []
    events = talk.hear(TurnEvent(turn=1, event="interrupted", reason="speech", heard="Fine,"))
    assert kinds(events)[0] == "input_audio_buffer.speech_started"
    assert last(talk)["status_details"]["reason"] == "turn_detected"
    events = talk.hear(
        Overheard("ended", 3, 5000),
        TranscriptEvent(utterance=3, text="Stop.", final=True, turn=2),
        TurnEvent(turn=2, event="opened"),
    )
    assert kinds(events)[0] == "input_audio_buffer.speech_stopped"
    assert kinds(events)[-1] == "response.created"
    assert talk.remembered()[-2:] == (Message("assistant", "Fine,"), Message("user", "Stop."))


def test_where_a_client_interrupts_by_itself_it_is_told_of_every_voice() -> None:
    talk = answering("server_vad")
    talk.update(audio={"input": {"turn_detection": {"interrupt_response": False}}})
    assert kinds(talk.hear(Overheard("began", 2, 2000))) == ["input_audio_buffer.speech_started"]
    assert talk.hear(Overheard("over_answer", 2)) == []
    assert kinds(talk.say("response.cancel"))[-1] == "response.done"


def test_speech_ends_what_is_only_written() -> None:
    talk = Talk({"output_modalities": ["text"]})
    talk.speak(1, "How are you?", turn=None)
    (write,) = talk.of(to_do.Write)
    assert write.then == "nobody" and write.wanted.messages[-1].content == "How are you?"
    talk.hear(to_do.Written(write.reply, "Fine"))
    assert kinds(talk.hear(Overheard("began", 2, 2000)))[0] == "input_audio_buffer.speech_started"
    assert last(talk)["status_details"]["reason"] == "turn_detected"
    assert talk.of(to_do.Stop)[-1].reply == write.reply
    assert talk.hear(to_do.Written(write.reply, ", thank you.")) == []


def test_by_webrtc_the_server_knows_what_was_played() -> None:
    talk = answering("server_vad", by_channel=True)
    assert "output_audio_buffer.started" in kinds(talk.events)
    assert "response.output_audio.delta" not in kinds(talk.events)
    talk.hear(Overheard("began", 2, 2000), Overheard("over_answer", 2))
    events = talk.hear(TurnEvent(turn=1, event="interrupted", reason="interrupt", heard="Fine,"))
    assert kinds(events) == ["output_audio_buffer.cleared", "conversation.item.truncated"]
    assert events[-1]["audio_end_ms"] == 400
    talk.speak(3, "And now?", turn=2)
    talk.answer(2)
    assert kinds(talk.hear(TurnEvent(turn=2, event="finished"))) == ["output_audio_buffer.stopped"]
    assert talk.say("output_audio_buffer.clear") == []
    assert code(talk.say("input_audio_buffer.append", audio="AAAA")) == "invalid_value"


# ------------------------------------------------------------ push to talk, text, tools, apart


@pytest.mark.parametrize("named", [{"language": "zh"}, {"languages": ["zh", "en"]}])
def test_who_detects_turns_himself_commits_and_asks(named: dict[str, Any]) -> None:
    talk = Talk({"audio": {"input": {"turn_detection": None, "transcription": named}}})
    assert code(talk.say("input_audio_buffer.commit")) == "input_audio_buffer_commit_empty"
    talk.say("input_audio_buffer.append", audio=sound(0.5))
    assert kinds(talk.say("input_audio_buffer.clear")) == ["input_audio_buffer.cleared"]
    for _ in range(5):
        assert talk.say("input_audio_buffer.append", audio=sound(0.1)) == []
    events = talk.say("input_audio_buffer.commit")
    assert kinds(events) == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    (reading,) = talk.of(to_do.Recognise)
    assert reading.language == "zh" and len(reading.pcm) == pytest.approx(8000, abs=500)
    # It is asked for before it is known what was said.
    assert kinds(talk.say("response.create")) == ["response.created"]
    assert not talk.of(to_do.Answer)
    talk.hear(to_do.Recognised(reading.of, "你好吗？"))
    assert talk.of(to_do.Answer)[0].prompt[-1] == Message("user", "你好吗？")
    assert talk.events[-1]["type"] == f"conversation.item.{WHERE}.completed"
    talk.begin(1)
    talk.answer(1)
    assert last(talk)["status"] == "completed"


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 44_100])
def test_what_is_committed_is_all_that_was_appended_and_nothing_of_before(rate_hz: int) -> None:
    form = {"type": "audio/pcm", "rate": rate_hz}
    talk = Talk({"audio": {"input": {"turn_detection": None, "format": form}}})
    tenth = np.full(rate_hz // 10, 8000, "<i2").tobytes()
    for _ in range(2):
        talk.say("input_audio_buffer.append", audio=base64.b64encode(tenth[:-1]).decode())
        talk.say("input_audio_buffer.clear")
        talk.say("input_audio_buffer.append", audio=base64.b64encode(tenth).decode())
        talk.say("input_audio_buffer.commit")
    message = {"type": "input_audio", "audio": base64.b64encode(tenth).decode()}
    item = {"type": "message", "role": "user", "content": [message]}
    talk.say("conversation.item.create", item=item)
    assert [len(read.pcm) for read in talk.of(to_do.Recognise)] == [1600] * 3
    for read in talk.of(to_do.Recognise):
        assert read.pcm[400:1200] == pytest.approx(8000, rel=0.05), "no half of a sample before it"


def test_who_begins_to_detect_turns_himself_hears_the_end_of_what_is_being_said() -> None:
    talk = Talk()
    talk.hear(Overheard("began", 1, 100))
    events = talk.update(audio={"input": {"turn_detection": None}})
    ended = ["input_audio_buffer.speech_stopped", "input_audio_buffer.committed"]
    assert kinds(events)[:2] == ended
    assert talk.hear(TranscriptEvent(utterance=1, text="Well,", final=True)) == []
    assert talk.dialogue.quiet, "nobody waits for the end of it"
    assert kinds(talk.record())[0] == "input_audio_buffer.committed"


def test_what_could_not_be_read_is_not_answered_as_if_nothing_had_been_said() -> None:
    talk = Talk({"audio": {"input": {"turn_detection": None}}})
    talk.record()
    talk.say("response.create")
    (reading,) = talk.of(to_do.Recognise)
    failed, done = talk.hear(to_do.Failed(reading.of, "at_capacity", "asr: full"))
    assert failed["type"].endswith("transcription.failed")
    details = done["response"]["status_details"]
    assert (details["type"], details["error"]["code"]) == ("failed", "at_capacity")
    assert "delete" in details["error"]["message"]
    assert kinds(talk.say("response.create")) == ["response.created", "response.done"]
    assert not talk.of(to_do.Answer) and not talk.of(to_do.Write)
    talk.ask()
    talk.say("response.create")
    assert len(talk.of(to_do.Answer)) == 1, "what was said since is answered"


def test_what_could_not_be_read_is_missed_once_by_who_goes_on_or_is_deleted() -> None:
    talk = Talk({"audio": {"input": {"turn_detection": None}}})
    apart = {"conversation": "none", "output_modalities": ["text"]}

    def said_unread() -> str:
        before = len(talk.of(to_do.Recognise))
        talk.record()
        (reading,) = talk.of(to_do.Recognise)[before:]
        failed = talk.hear(to_do.Failed(reading.of, "at_capacity", "asr: full"))[0]
        talk.ask("And this?")
        return str(failed["item_id"])

    missed = said_unread()
    for response in (apart, {}):  # the one apart is not what the visitor hears
        *_, done = talk.say("response.create", response=response)
        error = done["response"]["status_details"]["error"]
        assert error["code"] == "at_capacity" and missed in error["message"]
    assert not talk.of(to_do.Answer) and not talk.of(to_do.Write)
    talk.say("response.create")
    (answer,) = talk.of(to_do.Answer)
    assert answer.prompt[-1] == Message("user", "And this?")
    talk.begin(1)
    talk.answer(1)
    talk.say("conversation.item.delete", item_id=said_unread())
    talk.say("response.create")
    assert len(talk.of(to_do.Answer)) == 2


def test_what_a_response_waits_to_answer_may_be_deleted() -> None:
    talk = Talk({"audio": {"input": {"turn_detection": None, "transcription": {}}}})
    talk.ask()
    reference = {"type": "item_reference", "id": talk.events[-1]["item"]["id"]}
    talk.record()
    talk.say("response.create", response={"conversation": "none", "input": [reference]})
    talk.say("response.create")
    talk.say("conversation.item.delete", item_id=reference["id"])
    events = talk.hear(to_do.Recognised(talk.of(to_do.Recognise)[0].of, "Hello."))
    assert kinds(events)[-2:] == [f"conversation.item.{WHERE}.completed", "response.done"]
    details = events[-1]["response"]["status_details"]
    assert (details["type"], details["error"]["code"]) == ("failed", "item_not_found")
    assert len(talk.of(to_do.Answer)) == 1, "the other one is made"


def test_a_recording_that_is_refused_is_not_waited_for() -> None:
    talk = Talk()
    message = {"type": "message", "role": "user", "id": "mine"}
    said = [{"type": "input_text", "text": "Hello."}]
    talk.say("conversation.item.create", item=message | {"content": said})
    recording = [{"type": "input_audio", "audio": sound(0.5)}]
    twice = talk.say("conversation.item.create", item=message | {"content": recording})
    assert code(twice) == "item_exists" and not talk.of(to_do.Recognise)
    assert talk.dialogue.quiet, "nothing is being read that a gateway that ends would wait for"
    talk.say("response.create")
    assert len(talk.of(to_do.Answer)) == 1


def test_each_part_of_a_message_has_words_of_its_own() -> None:
    talk = Talk({"audio": {"input": {"transcription": {}}}})
    text = {"type": "input_text", "text": "Which is it?"}
    parts = [text, *({"type": "input_audio", "audio": sound(0.5)} for _ in range(2))]
    message = {"type": "message", "role": "user", "content": parts}
    talk.say("conversation.item.create", item=message)
    talk.say("response.create")
    one, two = talk.of(to_do.Recognise)
    completed = talk.hear(to_do.Recognised(two.of, "Or this?"))[-1]
    assert (completed["content_index"], completed["transcript"]) == (2, "Or this?")
    assert not talk.of(to_do.Answer), "the other one is still being read"
    assert talk.hear(to_do.Recognised(one.of, "This?"))[-1]["content_index"] == 1
    assert talk.of(to_do.Answer)[0].prompt[-1].content == "Which is it? This? Or this?"


def test_of_the_sound_of_a_message_no_more_is_kept_than_has_to_be_read() -> None:
    talk = Talk()
    cat = {"audio": sound(0.5), "transcript": "A cat."}
    for role, part in (
        ("user", {"type": "input_audio"} | cat),
        ("user", {"type": "input_audio", "audio": {"no": "sound"}, "transcript": "A cat."}),
        ("assistant", {"type": "output_audio"} | cat),
        ("assistant", {"type": "output_audio", "audio": sound(0.5)}),
    ):
        item = {"type": "message", "role": role, "content": [part]}
        *_, done = talk.say("conversation.item.create", item=item)
        kept = talk.say("conversation.item.retrieve", item_id=done["item"]["id"])[0]["item"]
        told = {"type": part["type"], "transcript": part.get("transcript")}
        assert kept["content"] == done["item"]["content"] == [told]
    assert not talk.of(to_do.Recognise)


def test_sound_in_what_a_response_is_to_answer_is_refused_and_a_reference_to_it_is_not() -> None:
    talk = Talk()
    message = {"type": "message", "role": "user"}
    question = message | {"content": [{"type": "input_audio", "audio": sound(0.5)}]}
    apart = {"conversation": "none", "output_modalities": ["text"]}
    (error,) = talk.say("response.create", response=apart | {"input": [question]})
    told = (error["error"]["param"], error["error"]["code"])
    assert told == ("response.input.0.content.0", "unsupported_parameter")
    assert not talk.of(to_do.Write)
    read = {"type": "input_audio", "audio": sound(0.5), "transcript": "What is it?"}
    asked = apart | {"input": [message | {"content": [read]}]}
    assert kinds(talk.say("response.create", response=asked)) == ["response.created"]
    talk.say("conversation.item.create", item=question | {"id": "question"})
    by_name = {"input": [{"type": "item_reference", "id": "question"}]}
    talk.say("response.create", response=apart | by_name)
    talk.hear(to_do.Recognised(talk.of(to_do.Recognise)[0].of, "And this?"))
    asked_for = [write.wanted.messages[-1].content for write in talk.of(to_do.Write)]
    assert asked_for == ["What is it?", "And this?"]


def test_text_alone_is_written_and_nothing_is_spoken() -> None:
    talk = Talk({"output_modalities": ["text"], "max_output_tokens": 50})
    talk.ask()
    talk.say("response.create")
    (write,) = talk.of(to_do.Write)
    assert write.then == "nobody" and write.wanted.max_tokens == 50
    usage = {"total_tokens": 9, "input_tokens": 7, "output_tokens": 2}
    events = talk.hear(
        to_do.Written(write.reply, "Fine"),
        to_do.Written(write.reply, "."),
        to_do.Ended(write.reply, usage, cut=True),
    )
    assert kinds(events).count("response.output_text.delta") == 2
    assert last(talk)["usage"] == usage and last(talk)["status"] == "incomplete"
    assert last(talk)["status_details"]["reason"] == "max_output_tokens"
    assert last(talk)["output"][0]["content"] == [{"type": "output_text", "text": "Fine."}]


def test_a_tool_is_called_and_its_result_is_spoken() -> None:
    talk = Talk({"tools": [TOOL], "tool_choice": "required"})
    talk.speak(1, "How high is it?", turn=None)
    (write,) = talk.of(to_do.Write)
    assert write.then == "session" and write.wanted.tools[0].name == "look_up"
    assert write.wanted.choice.calling == "required"
    events = talk.hear(
        to_do.Called(write.reply, "look_up", '{"what": "tower"}'),
        to_do.Ended(write.reply, None),
    )
    done = next(e for e in events if e["type"] == "response.function_call_arguments.done")
    (called,) = last(talk)["output"]
    assert (done["call_id"], done["name"]) == (called["call_id"], "look_up")
    assert called["status"] == "completed"
    output = {"type": "function_call_output", "call_id": called["call_id"], "output": "324 m"}
    created = talk.say("conversation.item.create", item=output)
    assert kinds(created) == ["conversation.item.added", "conversation.item.done"]
    assert len(talk.of(to_do.Write)) == 1, "only the client says when to go on"
    talk.say("response.create", response={"tool_choice": "none"})
    second = talk.of(to_do.Write)[-1]
    assert [said.role for said in second.wanted.messages] == ["system", "user", "assistant", "tool"]
    assert second.wanted.messages[2].calls[0].id == second.wanted.messages[3].tool_call_id
    assert second.wanted.tools == ()
    talk.hear(to_do.Written(second.reply, "It is "))
    talk.begin(1)
    talk.hear(to_do.Written(second.reply, "high."), to_do.Ended(second.reply, None))
    spoken = [(e.text, e.last) for e in talk.of(to_do.Speak)]
    assert spoken == [("It is ", False), ("high.", False), ("", True)]
    talk.answer(1, "It is high.")
    assert last(talk)["output"][0]["content"][0]["transcript"] == "It is high."


def test_a_tools_result_is_read_behind_its_call_however_late_it_comes() -> None:
    def told(call_id: str, output: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": call_id, "output": output}

    talk = Talk({"tools": [TOOL], "output_modalities": ["text"]})
    talk.ask("How high is it?")
    talk.say("response.create")
    (write,) = talk.of(to_do.Write)
    calls = [to_do.Called(write.reply, "look_up", "{}") for _ in range(2)]
    talk.hear(*calls, to_do.Ended(write.reply, None))
    first, second = (made["call_id"] for made in last(talk)["output"])
    talk.speak(1, "And hurry, please.", turn=None)
    write = talk.of(to_do.Write)[-1]
    talk.hear(to_do.Written(write.reply, "Just a moment."), to_do.Ended(write.reply, None))
    results = (told(second, "CANCELLED"), told(first, "324 m"), told(second, "1889"))
    for output in (*results, told("call_of_nobody", "0")):
        talk.say("conversation.item.create", item=output)
    talk.say("response.create")
    asked = talk.of(to_do.Write)[-1].wanted.messages[1:]
    said = [message.content for message in asked]
    assert said[:4] == ["How high is it?", "", "324 m", "1889"]
    assert said[4:6] == ["And hurry, please.", "Just a moment."]
    assert [call.id for call in asked[1].calls] == [first, second]
    assert [message.tool_call_id for message in asked[2:4]] == [first, second]


def with_a_preface(*, by_channel: bool) -> tuple[Talk, str]:
    """A talk in which words before a tool's call are heard; the reply to the tool's result."""
    talk = Talk({"tools": [TOOL]}, by_channel=by_channel)
    talk.ask("How high is it?")
    talk.say("response.create")
    (write,) = talk.of(to_do.Write)
    talk.hear(to_do.Written(write.reply, "Let me look."))
    talk.begin(1)
    talk.hear(to_do.Called(write.reply, "look_up", "{}"), to_do.Ended(write.reply, None))
    talk.answer(1, "Let me look.")
    assert last(talk)["status"] == "completed"
    made = last(talk)["output"]
    kinds_made = [item["type"] for item in made]
    assert kinds_made == ["message", "function_call"], "what is said comes first, and to its end"
    output = {"type": "function_call_output", "call_id": made[1]["call_id"], "output": "324 m"}
    talk.say("conversation.item.create", item=output)
    talk.say("response.create")
    return talk, talk.of(to_do.Write)[-1].reply


@pytest.mark.parametrize("by_channel", [True, False])
def test_what_is_said_before_a_tool_is_called_is_heard_to_its_end(by_channel: bool) -> None:
    talk, reply = with_a_preface(by_channel=by_channel)
    before = len(talk.of(to_do.Speak))
    talk.hear(to_do.Written(reply, "It is high."), to_do.Ended(reply, None))
    assert len(talk.of(to_do.Speak)) == before and not talk.of(to_do.Silence)
    talk.hear(TurnEvent(turn=1, event="finished"))
    spoken = [(e.text, e.last) for e in talk.of(to_do.Speak)[before:]]
    assert spoken == [("It is high.", False), ("", True)]
    talk.begin(2)
    talk.answer(2, "It is high.")
    assert last(talk)["output"][0]["content"][0]["transcript"] == "It is high."


def test_who_interrupts_what_is_said_before_a_tools_result_does_not_hear_that_either() -> None:
    talk, reply = with_a_preface(by_channel=True)
    talk.hear(to_do.Written(reply, "It is high."))
    before = len(talk.of(to_do.Speak))
    talk.hear(TurnEvent(turn=1, event="interrupted", reason="speech", heard="Let"))
    assert len(talk.of(to_do.Speak)) == before
    assert (last(talk)["id"], last(talk)["status"]) == (reply, "cancelled")


def test_what_is_not_written_to_its_end_is_not_waited_for() -> None:
    talk = Talk({"tools": [TOOL]})
    talk.ask()
    talk.say("response.create")
    (write,) = talk.of(to_do.Write)
    talk.hear(to_do.Written(write.reply, "It is "))
    talk.begin(1)
    talk.hear(to_do.Failed(write.reply, "stage_lost", "llm: it has gone"))
    assert last(talk)["status"] == "failed"
    assert talk.of(to_do.Silence) == [to_do.Silence(1)]
    assert talk.of(to_do.Stop) == [to_do.Stop(write.reply)]


def test_a_response_apart_leaves_the_conversation_alone() -> None:
    talk = Talk()
    talk.asked_aloud()
    before = len(talk.orders.items)
    content = [{"type": "input_text", "text": "Of which mood is he?"}]
    response: dict[str, Any] = {"conversation": "none", "metadata": {"topic": "mood"}}
    response |= {"output_modalities": ["text"], "instructions": "One word."}
    response["input"] = [{"type": "message", "role": "user", "content": content}]
    (created,) = talk.say("response.create", response=response)
    assert created["response"]["conversation_id"] is None
    (write,) = talk.of(to_do.Write)
    read = [said.content for said in write.wanted.messages]
    assert read == ["One word. Answer in English.", "Of which mood is he?"]
    talk.hear(to_do.Written(write.reply, "Good."), to_do.Ended(write.reply, None))
    assert last(talk)["metadata"] == {"topic": "mood"} and last(talk)["status"] == "completed"
    assert len(talk.orders.items) == before
    talk.answer(1)
    assert len(talk.orders.items) == before + 1


def test_a_session_of_transcription_answers_nothing() -> None:
    transcription = {"transcription": {"model": "whisper-1", "language": "en"}}
    talk = Talk({"type": "transcription", "audio": {"input": transcription}})
    assert talk.events[0]["session"]["type"] == "transcription"
    assert not talk.dialogue.config.answers_by_itself
    for utterance, text in ((1, "One."), (2, "Two.")):
        talk.speak(utterance, text, turn=None)
    completed = [e for e in talk.events if e["type"].endswith("transcription.completed")]
    assert [e["transcript"] for e in completed] == ["One.", "Two."]
    segments = [e for e in talk.events if e["type"].endswith("transcription.segment")]
    assert [e["text"] for e in segments] == ["One.", "Two."], "where the recogniser tells none"
    assert all(e["usage"]["type"] == "duration" for e in completed)
    assert code(talk.say("response.create")) == "invalid_value" and not talk.orders.responses


def test_passages_are_told_in_the_time_of_their_item() -> None:
    diarize = {"model": "gpt-4o-transcribe-diarize"}
    talk = Talk({"audio": {"input": {"transcription": diarize}}})
    words = (WordTime("So it is.", 1000, 1600), WordTime("Is it?", 1700, 2000))
    talk.hear(
        Overheard("began", 1, 1000),
        Overheard("ended", 1, 2000, words),
        TranscriptEvent(utterance=1, text="So it is. Is it?", final=True, turn=1),
    )
    told = [e for e in talk.events if e["type"].endswith("transcription.segment")]
    assert [(e["text"], e["start"], e["end"]) for e in told] == [
        ("So it is.", 0.3, 0.9),
        ("Is it?", 1.0, 1.3),
    ], "behind 300 ms of padding"
    talk.update(audio={"input": {"turn_detection": None}})
    talk.record()
    (reading,) = talk.of(to_do.Recognise)
    talk.hear(to_do.Recognised(reading.of, "Yes.", (Passage("Yes.", 0.1, 0.4),)))
    assert (talk.events[-2]["start"], talk.events[-2]["end"]) == (0.1, 0.4)


def test_a_call_is_heard_to_its_end_before_the_gateway_ends() -> None:
    call = answering("semantic_vad", by_channel=True)
    call.hear(AnswerEvent(turn=1, text="", final=True), Voiced(1, SECOND[:0], (), last=True))
    assert not call.dialogue.quiet, "it is not heard to its end"
    call.hear(TurnEvent(turn=1, event="finished"))
    assert call.dialogue.quiet
    assert code(call._take(call.dialogue.leave("soon"))) == "server_shutdown"


def test_who_speaks_on_before_the_words_of_what_he_committed_are_known_commits_that_too() -> None:
    talk = Talk({"audio": {"input": {"transcription": {"model": "whisper-1"}}}})
    for utterance in (1, 2):
        talk.hear(Overheard("began", utterance, 1000 * utterance))
        assert talk.say("input_audio_buffer.commit") == []
    assert len(talk.of(to_do.EndUtterance)) == 2
    for utterance, text in ((1, "How are you?"), (2, "And your cat?")):
        before = len(talk.of(to_do.Configure))
        talk.hear(
            Overheard("ended", utterance, 1000 * utterance + 900),
            TranscriptEvent(utterance=utterance, text=text, final=True),
        )
        silence_decides_again = len(talk.of(to_do.Configure)) > before
        assert silence_decides_again is (utterance == 2), "the other is over without it, too"
    told = [(e["item_id"], e["transcript"]) for e in talk.events if "transcript" in e]
    items = [e["item_id"] for e in talk.events if e["type"] == "input_audio_buffer.committed"]
    assert told == list(zip(items, ["How are you?", "And your cat?"], strict=True))
    begun = [e["item_id"] for e in talk.events if e["type"] == "input_audio_buffer.speech_started"]
    assert items == begun


def test_sound_that_is_thrown_away_is_not_answered() -> None:
    talk = Talk()
    talk.hear(Overheard("began", 1, 100))
    talk.say("input_audio_buffer.clear")
    assert [type(effect) for effect in talk.done[-3:-1]] == [to_do.ForgetSound, to_do.EndUtterance]
    said = TranscriptEvent(utterance=1, text="Never mind.", final=True, turn=1)
    assert kinds(talk.hear(said)) == ["input_audio_buffer.speech_stopped"]
    assert isinstance(talk.done[-1], to_do.Silence) and talk.orders.quiet


def test_silence_that_lasts_is_answered_where_the_client_wants_that() -> None:
    talk = Talk({"audio": {"input": {"turn_detection": {"idle_timeout_ms": 6000}}}})
    assert talk.dialogue.patience_s is None, "nobody has said anything yet"
    talk.speak(1, "How are you?", turn=1)
    talk.answer(1)
    assert talk.dialogue.patience_s is None, "it is still heard"
    talk.hear(TurnEvent(turn=1, event="finished"))
    assert talk.dialogue.patience_s == 6.0
    events = talk._take(talk.dialogue.idle(2000, 8000))
    assert kinds(events) == [
        "input_audio_buffer.timeout_triggered",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
    ]
    assert talk.of(to_do.Answer)[-1].prompt[-1].content == "Please go on."
    assert talk.dialogue.patience_s is None


# ------------------------------------------------------------ sound


@pytest.mark.parametrize("law", ["audio/pcmu", "audio/pcma"])
def test_telephone_sound_there_and_back(law: Any) -> None:
    wave = (8000 * np.sin(np.arange(16_000) * 2 * np.pi * 440 / 16_000)).astype(np.int16)
    out = SoundOut(Telephone(type=law), 16_000)
    codes = b"".join(base64.b64decode(piece) for piece in out.feed(wave, last=True))
    assert len(codes) == 8000
    heard = SoundIn(Telephone(type=law)).feed(base64.b64encode(codes).decode())
    middle = slice(2000, 14_000)
    noise = heard[middle].astype(float) - wave[middle].astype(float)
    assert np.sqrt(np.mean(noise**2)) < 0.03 * 8000


def test_pieces_may_end_within_a_sample() -> None:
    content = np.arange(16_000, dtype="<i2").tobytes()
    whole = SoundIn(Pcm(rate=16_000))
    heard = [
        whole.feed(base64.b64encode(content[at : at + 333]).decode())
        for at in range(0, len(content), 333)
    ]
    assert np.array_equal(np.concatenate(heard), np.arange(16_000, dtype=np.int16))


def test_what_comes_at_once_is_heard_in_time() -> None:
    queue = MicQueue()
    queue.add(np.zeros(16_000 * 10, np.int16))
    first = sum(map(len, queue.take(100.0)))
    assert 2.0 <= first / 16_000 <= 3.0, "no more than the session takes ahead of time"
    assert sum(map(len, queue.take(101.0))) == pytest.approx(16_000, abs=1600)
    assert sum(map(len, queue.take(120.0))) == 160_000 - first - 16_000


def test_what_comes_at_once_behind_a_pause_is_not_too_much_at_once() -> None:
    queue = MicQueue()
    queue.add(np.zeros(1600, np.int16))
    queue.take(100.0)
    queue.add(np.zeros(16_000 * 30, np.int16))  # a minute later, a file
    assert sum(map(len, queue.take(160.0))) / 16_000 == pytest.approx(8, abs=0.2)
    assert sum(map(len, queue.take(161.0))) / 16_000 == pytest.approx(2, abs=0.2)
    assert [sum(map(len, queue.take(162.0 + second))) for second in range(12)][-1] == 0
    assert len(queue) == 0


# ------------------------------------------------------------ a question that goes on

FIRST, WHOLE = "How far is the moon?", "How far is the moon? And the sun?"


@pytest.fixture
def going_on() -> Talk:
    """Turn 1 answers what was taken for all of the question; nothing of it was heard."""
    talk = Talk({"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}})
    talk.speak(1, FIRST, 1)
    talk.hear(AnswerEvent(turn=1, text="The moon"), Voiced(1, SECOND, (), last=False))
    talk.hear(Overheard("began", 2, 2000), Overheard("over_answer", 2))
    return talk


def test_both_parts_are_one_item_and_the_half_answer_is_none(going_on: Talk) -> None:
    events = going_on.hear(TurnEvent(turn=1, event="replaced"))
    assert kinds(events)[0] == "input_audio_buffer.speech_started"
    assert last(going_on)["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert kinds(events)[-1] == "conversation.item.deleted"
    assert going_on.remembered() == (Message("user", FIRST),)
    events = going_on.hear(
        TranscriptEvent(utterance=1, text="How far is the moon? And", final=False),
        Overheard("ended", 2, 3000),
        TranscriptEvent(utterance=1, text=WHOLE, final=True, turn=3),
        TurnEvent(turn=3, event="opened"),
    )
    assert kinds(events)[:3] == [
        "conversation.item.deleted",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
    ]
    assert kinds(events)[-1] == "response.created"
    assert going_on.remembered() == (Message("user", WHOLE),)


def test_what_was_no_rest_after_all_is_answered_as_it_was(going_on: Talk) -> None:
    going_on.hear(TurnEvent(turn=1, event="replaced"))
    events = going_on.hear(
        Overheard("ended", 2, 3000),
        TranscriptEvent(utterance=2, text="", final=True),
        TranscriptEvent(utterance=1, text=FIRST, final=True, turn=3),
        TurnEvent(turn=3, event="opened"),
    )
    assert "conversation.item.deleted" not in kinds(events)
    assert kinds(events)[-1] == "response.created"
    assert going_on.remembered() == (Message("user", FIRST),)


def test_a_listener_s_word_that_grew_into_the_rest_is_a_part_of_it(going_on: Talk) -> None:
    going_on.hear(
        TurnEvent(turn=1, event="replaced"), TranscriptEvent(utterance=2, text="", final=True)
    )
    going_on.hear(TranscriptEvent(utterance=1, text=WHOLE, final=True, turn=3))
    assert going_on.remembered() == (Message("user", WHOLE),)
