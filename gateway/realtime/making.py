"""Work beside a session: what the language model writes for a response, what is spoken of it apart,
and what is said in a recording.

Asked of the services by their plain calls, as work of the client's session, which was let in; what
comes of it is told as news.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import numpy as np

from gateway.api.problems import code_of
from gateway.background import Background
from gateway.playout.pacing import RATE_HZ as PLAYED_RATE_HZ
from gateway.realtime.protocol import effects as to_do
from gateway.session.session import Session
from gateway.stages.plain_calls import (
    LONGEST_RECORDING_S,
    RECOGNISED_RATE_HZ,
    PlainCalls,
    Speaking,
    Written,
)
from gateway.tools.offers import Call
from visavis.serving.errors import AtCapacityError, VisavisError
from visavis.wire.json_objects import is_json_object


class Making:
    """Does such work for one client, and tells what comes of it.

    note: takes the news. background: owns the tasks. patience_s: so long a recording waits for a
    recogniser.
    """

    def __init__(
        self,
        plain: PlainCalls,
        session: Session,
        background: Background,
        note: Callable[[to_do.Outcome], None],
        patience_s: float,
    ) -> None:
        self._plain = plain
        self._session = session
        self._background = background
        self._note = note
        self._patience_s = patience_s
        self._unread_samples = 0
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def write(self, effect: to_do.Write, how: Speaking) -> None:
        """Begin. how: it is spoken, where that is wanted."""
        self._tasks[effect.reply] = self._background.run(self._write(effect, how))

    def stop(self, reply: str) -> None:
        """Nobody wants any more what is made for this."""
        if (task := self._tasks.pop(reply, None)) is not None:
            task.cancel()

    def recognise(self, effect: to_do.Recognise) -> None:
        """Begin."""
        self._background.run(self._recognise(effect))

    async def _write(self, effect: to_do.Write, how: Speaking) -> None:
        """Have the language model write, and what it has written be spoken."""
        try:
            text = await self._writing(effect)
            if effect.then == "voice":
                await self._speak(effect, text, how)
        except VisavisError as error:
            self._note(failed(effect.reply, error))
        finally:
            self._tasks.pop(effect.reply, None)

    async def _writing(self, effect: to_do.Write) -> str:
        text, calls, last = "", list[Call](), Written("")
        session, at = self._session.id, self._session.stages.instances["llm"] or ""
        async with aclosing(self._plain.write(effect.wanted, session=session, at=at)) as pieces:
            async for piece in pieces:
                last, text = piece, text + ("" if piece.block else piece.text)
                calls += piece.calls
                if piece.text:
                    about = (piece.block, piece.language)
                    self._note(to_do.Written(effect.reply, piece.text, *about))
        cut = last.finish_reason == "length"
        whole = [call for call in _joined(calls) if not cut or is_json_object(call.arguments)]
        for call in whole:
            self._note(to_do.Called(effect.reply, call.name, call.arguments))
        self._note(to_do.Ended(effect.reply, _usage(last), cut))
        return "" if calls else text

    async def _speak(self, effect: to_do.Write, text: str, how: Speaking) -> None:
        """Without the session: nobody is interrupted by it."""
        rate_hz = PLAYED_RATE_HZ
        if text.strip():
            async with aclosing(self._plain.speak(text, how, admitted=True)) as sounds:
                async for sound in sounds:
                    rate_hz = sound.rate_hz
                    news = to_do.Sounded(effect.reply, sound.pcm, rate_hz, last=False)
                    self._note(news)
        self._note(to_do.Sounded(effect.reply, np.zeros(0, np.int16), rate_hz, last=True))

    async def _recognise(self, effect: to_do.Recognise) -> None:
        before, samples = self._unread_samples, len(effect.pcm)
        self._unread_samples += samples
        try:
            if before and before + samples > LONGEST_RECORDING_S * RECOGNISED_RATE_HZ:
                minutes = LONGEST_RECORDING_S / 60
                raise AtCapacityError(f"recordings: {minutes:.0f} minutes wait to be read already")
            heard = await self._plain.recognise_in_line(
                effect.pcm, effect.language, self._patience_s
            )
            self._note(to_do.Recognised(effect.of, heard.text, heard.passages))
        except VisavisError as error:
            self._note(failed(effect.of, error))
        finally:
            self._unread_samples -= samples


def failed(of: str, error: VisavisError) -> to_do.Failed:
    """As news."""
    return to_do.Failed(of, code_of(error)[1], str(error))


def _joined(pieces: list[Call]) -> list[Call]:
    """Calls out of their pieces."""
    calls: dict[int, Call] = {}
    for piece in pieces:
        before = calls.get(piece.index)
        if before is None or piece.name:
            calls[piece.index] = piece
        else:
            arguments = before.arguments + piece.arguments
            calls[piece.index] = replace(before, arguments=arguments)
    return [calls[index] for index in sorted(calls)]


def _usage(last: Written) -> dict[str, Any]:
    read, written = last.prompt_tokens, last.completion_tokens
    return {
        "total_tokens": read + written,
        "input_tokens": read,
        "output_tokens": written,
        "input_token_details": {"text_tokens": read, "audio_tokens": 0, "cached_tokens": 0},
        "output_token_details": {"text_tokens": written, "audio_tokens": 0},
    }
