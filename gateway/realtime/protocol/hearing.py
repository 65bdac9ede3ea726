"""The visitor's side: sound that comes in, where an utterance begins and ends, what it says. Pure.

Who detects turns is the session: its recogniser marks speech, its words decide. Where the client
detects them himself, sound is kept until he commits it, and read as a recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.api.events import TranscriptEvent
from gateway.api.hub import Overheard
from gateway.openai.errors import RefusedError
from gateway.realtime.protocol.config import SemanticVad, ServerVad, SessionConfig
from gateway.realtime.protocol.effects import (
    Effect,
    EndUtterance,
    ForgetSound,
    Hear,
    Recognise,
    Recognised,
    Send,
)
from gateway.realtime.protocol.items import Item, Items
from gateway.realtime.protocol.reply import Event, NewId
from gateway.realtime.protocol.sound import SoundIn
from gateway.stages.plain_calls import LONGEST_RECORDING_S, Passage
from gateway.talk.microphone import RATE_HZ

SHORTEST_COMMIT_S = 0.1
_SPEAKER = "A"
"""Of every segment: voices are not told apart."""


@dataclass(slots=True)
class _Utterance:
    """One that the session hears. item: the id that it will have."""

    number: int
    item: str
    began_ms: int
    ended_ms: int = 0
    told: bool = False
    unwanted: bool = False
    """The client has thrown its sound away."""
    ending: bool = False
    """The client has said that this was all of it."""
    passages: tuple[Passage, ...] = ()
    """In seconds from its beginning."""

    @property
    def seconds(self) -> float:
        return (self.ended_ms - self.began_ms) / 1000


@dataclass(frozen=True, slots=True)
class _Sound:
    """A part of an item that was spoken."""

    item: str
    part: int
    seconds: float


class Hearing:
    """Follows what the visitor says, and tells the client of it in the order of the protocol."""

    def __init__(self, config: SessionConfig, items: Items, new_id: NewId) -> None:
        self._items = items
        self._new_id = new_id
        self._config = config
        self._sound = SoundIn(config.audio.input.format)
        self._kept: list[NDArray[np.int16]] = []
        self._kept_samples = 0
        self._utterance: _Utterance | None = None
        self._last: tuple[int, str] | None = None
        """The newest utterance that is in the conversation, and its item."""
        self._unread: dict[str, _Sound] = {}
        """By what their sound is called."""
        self._late: dict[int, str] = {}
        """What the sound of utterances is called that were over before their words were known."""
        self._said_until_ms = 0

    @property
    def speaking(self) -> bool:
        """Whether the visitor speaks, as far as the client knows."""
        return self._utterance is not None and self._utterance.told

    @property
    def listens(self) -> bool:
        """Whether the visitor speaks, or may be speaking."""
        return self._utterance is not None

    @property
    def ends(self) -> bool:
        """Whether the client has ended what is being said."""
        return self._utterance is not None and self._utterance.ending

    def nothing_said(self, start_ms: int, end_ms: int) -> list[Event]:
        """The visitor has been silent for so long that the client wants it answered."""
        item = _spoken_item(self._new_id("item"), "")
        when = {"audio_start_ms": start_ms, "audio_end_ms": end_ms, "item_id": item.id}
        triggered = {"type": "input_audio_buffer.timeout_triggered", **when}
        return [triggered, *self._committed(item)]

    @property
    def reads_any(self) -> bool:
        """Whether the sound of an item is being read."""
        return bool(self._unread)

    def reads(self, among: Sequence[str]) -> bool:
        """Whether one of these items is being read."""
        return any(unread.item in among for unread in self._unread.values())

    def configure(self, config: SessionConfig) -> list[Effect]:
        """The session has changed."""
        before = self._config
        detected = before.audio.input.turn_detection is not None
        detects = config.audio.input.turn_detection is not None
        # Of what is being said nothing more is heard: it ends as the client knew it.
        ended = self._lost(0) if detected and not detects else []
        self._config = config
        if config.audio.input.format != before.audio.input.format:
            self._begin_sound()
        if detected == detects:
            return []
        self._forget()
        self._utterance = None
        return [*map(Send, ended), ForgetSound()]

    # ------------------------------------------------------------ sound

    def append(self, audio: object) -> list[Effect]:
        """A piece of it, in base64. Raises RefusedError."""
        pcm = self._sound.feed(audio)
        if not len(pcm):
            return []
        if self._detection is not None:
            return [Hear(pcm)]
        if self._kept_samples + len(pcm) > LONGEST_RECORDING_S * RATE_HZ:
            message = f"audio: more than {LONGEST_RECORDING_S / 60:.0f} minutes are not kept"
            raise RefusedError(message, "audio", "input_audio_buffer_full")
        self._keep(pcm)
        return []

    def commit(self) -> list[Effect]:
        """The client says that it is a message. Raises RefusedError."""
        if self._detection is not None and self._utterance is not None and self.speaking:
            self._utterance.ending = True
            return [EndUtterance()]
        if self._detection is None:
            self._keep(self._sound.finish())
            self._begin_sound()
        if self._kept_samples < SHORTEST_COMMIT_S * RATE_HZ:
            kept_ms = self._kept_samples * 1000 // RATE_HZ
            raise RefusedError(
                f"buffer too small: {kept_ms} ms of sound are in it, at least "
                f"{SHORTEST_COMMIT_S * 1000:.0f} are wanted",
                code="input_audio_buffer_commit_empty",
            )
        pcm = np.concatenate(self._kept)
        self._forget()
        item = _spoken_item(self._new_id("item"), None)
        events = self._committed(item)
        return [*map(Send, events), self._recognise(item.id, 0, pcm)]

    def clear(self) -> list[Effect]:
        """The client does not want it any more."""
        self._forget()
        effects: list[Effect] = [ForgetSound()]
        if self._utterance is not None:
            self._utterance.unwanted = self._utterance.ending = True
            effects.append(EndUtterance())
        return [*effects, Send({"type": "input_audio_buffer.cleared"})]

    def recordings(self, item: Item) -> dict[int, NDArray[np.int16]]:
        """What has to be read of a message that a client has made, by its part.

        Raises RefusedError.
        """
        found = {}
        for index, part in enumerate(item.parts):
            if part["type"] == "input_audio" and part.get("audio") and not part["transcript"]:
                sound = SoundIn(self._config.audio.input.format)
                pcm = sound.feed(part.pop("audio"))
                found[index] = np.concatenate((pcm, sound.finish()))
        return found

    def read(self, item: Item, recordings: Mapping[int, NDArray[np.int16]]) -> list[Effect]:
        """Find out what is said in these, once the item is in the conversation."""
        return [self._recognise(item.id, part, pcm) for part, pcm in recordings.items()]

    def _recognise(self, item: str, part: int, pcm: NDArray[np.int16]) -> Recognise:
        of = self._new_id("sound")
        self._unread[of] = _Sound(item, part, len(pcm) / RATE_HZ)
        return Recognise(of, pcm, self._config.wanted_language)

    def _keep(self, pcm: NDArray[np.int16]) -> None:
        self._kept.append(pcm)
        self._kept_samples += len(pcm)

    def _begin_sound(self) -> None:
        """What comes from now on goes on with nothing: the half of a sample, too, is forgotten."""
        self._sound = SoundIn(self._config.audio.input.format)

    def _forget(self) -> None:
        self._kept, self._kept_samples = [], 0
        self._begin_sound()

    @property
    def _detection(self) -> ServerVad | SemanticVad | None:
        return self._config.audio.input.turn_detection

    # ------------------------------------------------------------ speech

    def overheard(self, news: Overheard, *, over_answer: bool) -> list[Event]:
        """The session hears a voice. Over an answer it may be none, and nobody is told yet."""
        utterance = self._utterance
        match news.what:
            case "began":
                before = self._overtaken(news.at_ms)
                item, begins_ms = self._new_id("item"), self._begins_ms(news.at_ms)
                self._utterance = _Utterance(news.utterance, item, begins_ms, ended_ms=begins_ms)
                return [*before, *([] if over_answer else self.tell())]
            case "ended" if utterance is not None and utterance.number == news.utterance:
                self._end(utterance, news)
        return []

    def _begins_ms(self, speech_ms: int) -> int:
        """Where the sound begins that is taken for an utterance, of speech that begins here."""
        detection = self._detection
        if not isinstance(detection, ServerVad):
            return speech_ms
        padded_ms = max(0, speech_ms - detection.prefix_padding_ms)
        return min(speech_ms, max(padded_ms, self._said_until_ms))

    def _end(self, utterance: _Utterance, news: Overheard) -> None:
        """The sound of it is complete: what silence has told that is a part of it."""
        detection, begin_s = self._detection, utterance.began_ms / 1e3
        self._said_until_ms = utterance.ended_ms = max(news.at_ms, utterance.began_ms)
        if isinstance(detection, ServerVad):
            utterance.ended_ms += detection.silence_duration_ms
        utterance.passages = tuple(
            Passage(w.word, max(0.0, w.start_ms / 1e3 - begin_s), w.end_ms / 1e3 - begin_s)
            for w in news.words
        )

    def _overtaken(self, now_ms: int) -> list[Event]:
        """Somebody speaks again before it is known what he said last."""
        utterance = self._utterance
        if utterance is None or not utterance.told or utterance.unwanted:
            return self._lost(now_ms)
        utterance.ended_ms = max(utterance.ended_ms, now_ms)
        self._late[utterance.number] = of = self._new_id("sound")
        self._unread[of] = _Sound(utterance.item, 0, utterance.seconds)
        return [
            self._stopped(utterance),
            *self._committed(_spoken_item(utterance.item, None)),
        ]

    def _lost(self, now_ms: int) -> list[Event]:
        """Who was to tell what was said has gone: nobody ever will."""
        utterance = self._utterance
        if utterance is None or not utterance.told:
            return []
        utterance.ended_ms = max(utterance.ended_ms, utterance.began_ms, now_ms)
        return self.final(TranscriptEvent(utterance=utterance.number, text="", final=True))[0]

    def tell(self) -> list[Event]:
        """It is a voice, and wants something."""
        utterance = self._utterance
        if utterance is None or utterance.told:
            return []
        utterance.told = True
        started = {"audio_start_ms": utterance.began_ms, "item_id": utterance.item}
        return [{"type": "input_audio_buffer.speech_started", **started}]

    def final(self, news: TranscriptEvent) -> tuple[list[Event], bool]:
        """What was said, and whether the client wants to know. An empty text is a noise.

        A text of the last utterance once more stands for both: the visitor went on with it.
        """
        if (late := self._late.pop(news.utterance, None)) is not None:
            self._last = (news.utterance, self._unread[late].item) if news.text else self._last
            return self.recognised(Recognised(late, news.text)), bool(news.text)
        utterance, self._utterance = self._utterance, None
        last = self._last
        goes_on = bool(news.text) and last is not None and last[0] == news.utterance
        known = self._items.find(last[1]) if goes_on and last is not None else None
        if known is not None and known.text == news.text:
            return [], True  # he did not, after all: it is asked once more
        if utterance is None or (utterance.number != news.utterance and not goes_on):
            utterance = _Utterance(news.utterance, self._new_id("item"), 0)
        if utterance.unwanted:
            return ([self._stopped(utterance)] if utterance.told else []), False
        self._utterance = utterance
        events = self.tell() if news.text else []
        self._utterance = None
        if goes_on:
            events += self._forget_last()
        if not utterance.told:
            return [], False
        events.append(self._stopped(utterance))
        transcription = self._config.audio.input.transcription
        item = _spoken_item(utterance.item, news.text)
        self._last = (news.utterance, item.id) if news.text else self._last
        events += self._committed(item)
        if transcription is not None:
            spoken = _Sound(item.id, 0, utterance.seconds)
            events += self._transcribed(spoken, news.text, utterance.passages)
        return [*self._never_known(), *events], bool(news.text)

    def _never_known(self) -> list[Event]:
        """Words come in order: those of what was said before come no more."""
        late, self._late = self._late, {}
        return [event for of in late.values() for event in self.recognised(Recognised(of, ""))]

    def _stopped(self, utterance: _Utterance) -> Event:
        stopped = {"audio_end_ms": utterance.ended_ms, "item_id": utterance.item}
        return {"type": "input_audio_buffer.speech_stopped", **stopped}

    def _forget_last(self) -> list[Event]:
        """What was taken for all of a question is the beginning of the next item."""
        if self._last is None or self._items.find(self._last[1]) is None:
            return []
        self._items.withdraw(self._last[1])
        return [{"type": "conversation.item.deleted", "item_id": self._last[1]}]

    def recognised(self, news: Recognised) -> list[Event]:
        """What is said in a part of an item is known."""
        unread = self._unread.pop(news.of, None)
        item = self._items.find(unread.item) if unread is not None else None
        if unread is None or item is None:
            return []
        item.parts[unread.part]["words"] = news.text
        if self._config.audio.input.transcription is None:
            return []
        return self._transcribed(unread, news.text, news.passages)

    def not_recognised(self, of: str, code: str, message: str) -> list[Event]:
        """It will never be known."""
        unread = self._unread.pop(of, None)
        if unread is None:
            return []
        if (item := self._items.find(unread.item)) is not None:
            item.unreadable = code, message
        error = {"type": "transcription_error", "code": code, "message": message, "param": None}
        failed = "conversation.item.input_audio_transcription.failed"
        where = {"item_id": unread.item, "content_index": unread.part}
        return [{"type": failed, **where, "error": error}]

    def _transcribed(self, sound: _Sound, text: str, passages: Sequence[Passage]) -> list[Event]:
        of_input = "conversation.item.input_audio_transcription"
        where: dict[str, Any] = {"item_id": sound.item, "content_index": sound.part}
        events = [{"type": f"{of_input}.delta", **where, "delta": text}] if text else []
        if text and self._config.tells_segments:
            for passage in passages or (Passage(text, 0.0, sound.seconds),):
                segment = {"id": self._new_id("seg"), "speaker": _SPEAKER, "text": passage.text}
                times = {"start": round(passage.start_s, 3), "end": round(passage.end_s, 3)}
                events.append({"type": f"{of_input}.segment", **where, **segment, **times})
        usage = {"type": "duration", "seconds": round(sound.seconds, 3)}
        told = {"transcript": text, "usage": usage}
        return [*events, {"type": f"{of_input}.completed", **where, **told}]

    def _committed(self, item: Item) -> list[Event]:
        before = self._items.add(item)
        told = {"item": item.told(), "previous_item_id": before}
        committed = {"item_id": item.id, "previous_item_id": before}
        return [
            {"type": "input_audio_buffer.committed", **committed},
            {"type": "conversation.item.added", **told},
            {"type": "conversation.item.done", **told},
        ]


def _spoken_item(item_id: str, words: str | None) -> Item:
    part = {"type": "input_audio", "transcript": None}
    heard = {} if words is None else {"words": words}
    return Item(item_id, "message", "user", [part | heard])
