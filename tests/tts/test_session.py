"""An attached session on a real bus: credit, barge-in, ends, failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from services.tts.session import Resumption, SpeakingSession, SpokenTurn
from services.tts.speech_lane import MakingTime, SpeechLane, TurnLedger
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import Spoken
from tests.fakes import ManualClock
from tests.tts.fakes import word_synthesizer
from visavis.engine import EngineLane
from visavis.serving.errors import EngineError
from visavis.serving.stage import Stage
from visavis.v1 import control_pb2 as pb
from visavis.v1 import tts_pb2
from visavis.wire.bus import Bus, Subscription
from visavis.wire.media import (
    ClockChunk,
    MelChunk,
    PcmChunk,
    Place,
    TextMark,
    TokenChunk,
    TurnChunk,
)
from visavis.wire.subjects import Kind

LEAD_S = 2.0


@dataclass
class Attached:
    """A session under test and what it publishes."""

    name: str
    bus: Bus
    voice: Subscription
    mel: Subscription
    events: asyncio.Queue[pb.AttachEvent]
    session: SpeakingSession

    async def say(
        self,
        turn: int,
        text: str,
        *,
        last: bool = True,
        block: int = 0,
        chars: int = 0,
        run: int = 0,
    ) -> None:
        place = Place(self.name, turn, 0, chars, last=last)
        await self.bus.publish(Kind.TOKENS, TokenChunk(place, text, block, run=run))

    async def announce(self, turn: int) -> None:
        await self.bus.publish(Kind.TURN, TurnChunk(Place(self.name, turn, 0, 0), "interrupt"))

    async def heard(self, turn: int, samples: int) -> None:
        await self.bus.publish(Kind.CLOCK, ClockChunk(Place(self.name, turn, 0, samples), 24_000))

    async def turn_voice(self, turn: int) -> list[PcmChunk]:
        chunks = []
        async for chunk in self.voice:
            if isinstance(chunk, PcmChunk) and chunk.place.turn == turn:
                chunks.append(chunk)
                if chunk.place.last:
                    return chunks
        return chunks

    async def voice_until_quiet(self, at_least: int = 0) -> int:
        """Samples that come: so many are waited for, more while one follows the other."""
        samples = 0
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(0.3 if samples >= at_least else 30):
                    chunk = await anext(self.voice)
                assert isinstance(chunk, PcmChunk)
                samples += len(chunk.pcm)
        return samples


@asynccontextmanager
async def attached(bus: Bus, name: str, **options: object) -> AsyncIterator[Attached]:
    lane = EngineLane("test")
    synthesizer, _ = word_synthesizer(**options)
    events: asyncio.Queue[pb.AttachEvent] = asyncio.Queue()
    stage = Stage[SpokenTurn](name, bus, "tts-test", asyncio.Event())
    session = SpeakingSession(
        stage, SpeechLane(synthesizer, lane), SpeechOptions().checked(),
        lead_s=LEAD_S, clock=ManualClock(),
    )  # fmt: skip
    open_side = asyncio.Event()

    async def requests() -> AsyncIterator[object]:
        await open_side.wait()
        yield tts_pb2.TtsAttachRequest(synthesis=tts_pb2.SynthesisConfig())

    async def ignore(_: object) -> None: ...

    async def collect() -> None:
        async for event in stage.serve(session, requests(), ignore):
            await events.put(event)

    async with (
        bus.subscribe(name, Kind.VOICE, limit=500) as voice,
        bus.subscribe(name, Kind.MEL, limit=500) as mel,
    ):
        task = asyncio.create_task(collect())
        assert (await events.get()).HasField("ready")
        try:
            yield Attached(name, bus, voice, mel, events, session)
        finally:
            open_side.set()
            await task
            lane.close()


async def test_voice_and_mel_of_a_turn_are_numbered_placed_and_ended(bus: Bus) -> None:
    async with attached(bus, "numbered") as stage:
        await stage.announce(1)
        await stage.say(1, "x = 1", block=1, last=False)  # code: shown, and not said
        await stage.say(1, "Hello there.")
        chunks = await stage.turn_voice(1)
        assert [chunk.place.seq for chunk in chunks] == list(range(len(chunks)))
        pts = 0
        for chunk in chunks:
            assert chunk.place.pts == pts
            pts += len(chunk.pcm)
        assert [stamp.stage for stamp in chunks[0].place.stamps] == [
            "tts.first_got", "tts.first_ready", "tts.first_started", "tts.first_finished",
        ]  # fmt: skip
        hops, said = 0, []
        async for mel in stage.mel:
            assert isinstance(mel, MelChunk)
            assert mel.place.pts == hops
            hops += len(mel.mel)
            said += [span.symbol for span in mel.phonemes]
            if mel.place.last:
                break
        assert (hops * 300, said) == (pts, ["Hello", "there."])
        assert (await stage.events.get()).turn_started.turn == 1
        finished = (await stage.events.get()).turn_finished
        assert (finished.turn, finished.produced, finished.cancelled) == (1, pts, False)
        assert set(finished.seconds) == {"first_phrase", "first_voice", "total"}


async def test_voice_is_made_only_so_far_ahead_of_what_is_heard(bus: Bus) -> None:
    async with attached(bus, "credit") as stage:
        await stage.announce(1)
        await stage.say(1, "word " * 60)
        ahead = await stage.voice_until_quiet(round(LEAD_S * 24_000))
        assert LEAD_S * 24_000 <= ahead <= (LEAD_S + 0.3) * 24_000
        await stage.heard(1, 24_000)
        assert await stage.voice_until_quiet(18_000) == pytest.approx(24_000, abs=6_000)
        await stage.heard(7, 240_000)  # another turn's clock is no credit
        assert await stage.voice_until_quiet() == 0


async def test_new_turn_silences_the_old_one(bus: Bus) -> None:
    async with attached(bus, "barge") as stage:
        await stage.announce(1)
        await stage.say(1, "word " * 60)
        assert await stage.voice_until_quiet(1)
        await stage.announce(2)
        assert (await stage.events.get()).turn_started.turn == 1
        finished = (await stage.events.get()).turn_finished
        assert finished.cancelled
        await stage.heard(1, 100_000)
        await stage.say(1, "stale")
        await stage.say(2, "New one.")
        chunks = await stage.turn_voice(2)
        assert chunks[0].place.pts == 0
        assert (await stage.events.get()).turn_started.turn == 2


async def test_empty_answer_still_ends(bus: Bus) -> None:
    async with attached(bus, "empty") as stage:
        await stage.say(1, "😀")
        chunks = await stage.turn_voice(1)
        assert [len(chunk.pcm) for chunk in chunks] == [0]


async def test_a_turn_goes_on_where_the_voice_of_another_replica_ended(bus: Bus) -> None:
    text = "Hello. [happy] Yes it is."
    async with attached(bus, "whole") as stage:
        await stage.say(3, text)
        whole = await stage.turn_voice(3)
    pause = next(mark for chunk in whole for mark in chunk.marks if mark.pause)
    assert pause.chars == len("Hello.")
    async with attached(bus, "rest") as stage:
        await stage.say(3, text[15:21], last=False, chars=15)  # where is its beginning?
        assert await stage.voice_until_quiet() == 0
        await stage.session.resume(resumption("rest", text[:18], pause))
        await stage.say(3, text[21:], chars=21)
        rest = await stage.turn_voice(3)
        assert [chunk.place.pts for chunk in rest] == [
            chunk.place.pts for chunk in whole if chunk.place.pts >= pause.samples
        ]
        assert [mark for chunk in rest for mark in chunk.marks] == [
            mark for chunk in whole for mark in chunk.marks if mark.samples > pause.samples
        ]
        mel = await anext(stage.mel)
        assert isinstance(mel, MelChunk)
        assert (mel.place.pts, mel.style) == (pause.samples // 300, "happy")


async def test_a_voice_that_has_missed_text_goes_on_with_the_whole_of_it(bus: Bus) -> None:
    async with attached(bus, "missed") as stage:
        await stage.say(1, "One two. ", last=False)
        assert await stage.voice_until_quiet(1)
        text, spoken = "One two. Three.", TextMark(3, 7_200)
        await stage.session.resume(resumption("missed", text, spoken, turn=1, complete=True))
        chunks = await stage.turn_voice(1)
        assert chunks[0].place.pts == spoken.samples
        assert [mark.chars for chunk in chunks for mark in chunk.marks] == [8, 8, 15]


async def test_of_a_text_that_another_run_goes_on_with_nothing_else_of_the_earlier_one_is_said(
    bus: Bus,
) -> None:
    async with attached(bus, "runs") as stage:
        await stage.say(1, "One two. ", last=False)
        assert await stage.voice_until_quiet(1)
        await stage.say(1, "Never. ", last=False, chars=9)
        await stage.say(1, "Three", last=False, chars=9, run=1)  # before it is told
        await stage.say(1, "late", last=False, chars=16)
        spoken = TextMark(8, 7_200)
        await stage.session.resume(resumption("runs", "One two. ", spoken, turn=1, run=1))
        await stage.say(1, "later", last=False, chars=20)
        await stage.say(1, " four.", chars=14, run=1)
        chunks = [chunk for chunk in await stage.turn_voice(1) if chunk.run]
        assert chunks[0].place.pts == spoken.samples
        assert [mark.chars for chunk in chunks for mark in chunk.marks if not mark.pause] == [
            14,
            20,
        ]


async def test_what_came_of_a_text_behind_what_is_told_of_it_is_said(bus: Bus) -> None:
    async with attached(bus, "behind") as stage:
        await stage.say(1, "One two. ", last=False)
        await stage.say(1, "Three.", chars=9)
        assert await stage.voice_until_quiet(1)
        await stage.session.resume(resumption("behind", "One", TextMark(0, 0), turn=1))
        chunks = await stage.turn_voice(1)
        assert [mark.chars for chunk in chunks for mark in chunk.marks][-1] == 15


def resumption(
    session: str,
    text: str,
    spoken: TextMark,
    *,
    turn: int = 3,
    complete: bool = False,
    run: int = 0,
) -> Resumption:
    """run: of the text, and of the voice."""
    announced = TurnChunk(Place(session, turn, 0, 0), "text")
    known = Spoken(spoken.chars, spoken.samples)
    return Resumption(announced, text, complete, known, 0, run, run)


async def test_endless_text_fails_the_turn_and_the_next_one_works(bus: Bus) -> None:
    async with attached(bus, "endless") as stage:
        await stage.say(1, "\n" * 100_001)
        assert (await stage.events.get()).turn_started.turn == 1
        failed = (await stage.events.get()).turn_failed
        assert failed.code == "INVALID_ARGUMENT"
        assert "100000" in failed.message
        await stage.say(2, "Fine.")
        assert await stage.turn_voice(2)


async def test_a_turns_own_style_holds_for_that_turn_and_what_it_lacks_is_told(bus: Bus) -> None:
    async with attached(bus, "styled") as stage:
        turn = TurnChunk(Place("styled", 1, 0, 0), "text", style="whisper")
        await bus.publish(Kind.TURN, turn)
        await stage.say(1, "你好。")
        await stage.turn_voice(1)
        assert (await stage.events.get()).turn_started.turn == 1
        notice = (await stage.events.get()).turn_notice
        assert (notice.turn, notice.code) == (1, "unsupported")
        assert "whisper" in notice.message
        await stage.announce(2)
        await stage.say(2, "Hello.")
        await stage.turn_voice(2)
        styles = {}
        async for chunk in stage.mel:
            assert isinstance(chunk, MelChunk)
            if len(chunk.mel):
                styles.setdefault(chunk.place.turn, chunk.style)
            elif chunk.place.turn == 2:
                break
        assert styles == {1: "whisper", 2: "neutral"}


async def test_engine_failure_is_told_and_ends_the_voice(bus: Bus) -> None:
    async with attached(bus, "broken", broken=EngineError("no power")) as stage:
        await stage.say(1, "Hello.")
        assert (await stage.turn_voice(1))[-1].place.last
        assert (await stage.events.get()).turn_started.turn == 1
        failed = (await stage.events.get()).turn_failed
        assert (failed.code, failed.message) == ("UNAVAILABLE", "no power")


def test_a_turn_is_hurried_while_that_can_save_its_voice_from_breaking_off() -> None:
    clock = ManualClock()
    ledger = TurnLedger(clock, clock.now(), "en")
    turn = SpokenTurn(1, ledger, 24_000, clock)
    assert not turn.hurried(0.15)  # its first phrase is as short as can be anyway
    ledger.phrase_begins()
    ledger.voice_made(12_000, 24_000)
    clock.advance(0.1)
    assert not turn.hurried(0.15)  # 0.4 s are left
    assert turn.hurried(0.5)
    turn.heard(10_000)  # it began later than it could: 0.08 s are left
    assert turn.hurried(0.15)
    clock.advance(0.1)
    assert not turn.hurried(0.15)  # silence already


def test_a_voice_that_goes_on_knows_when_it_would_break_off() -> None:
    clock = ManualClock()
    begun = resumption("one", "Once upon", TextMark(9, 12_000))
    turn = SpokenTurn(1, TurnLedger(clock, clock.now(), "en"), 24_000, clock, begun)
    clock.advance(0.1)
    assert turn.spare_s(0.15) == pytest.approx(0.25)  # 0.4 s are left


def test_the_time_that_phrases_take_is_reckoned_with_those_that_take_longer() -> None:
    making = MakingTime()
    assert making.likely_s == pytest.approx(0.15)
    for _ in range(30):
        making.note(0.05)
    assert making.likely_s == pytest.approx(0.15)  # less would be no gain
    for _ in range(30):
        making.note(0.2)
        making.note(0.3)
    assert 0.3 < making.likely_s < 0.4
