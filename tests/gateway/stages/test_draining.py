"""A replica that is about to end hands its sessions over between turns; visitors notice nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from gateway.stages.ears import Ears
from gateway.talk.microphone import RATE_HZ
from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import KINDS, Double, Doubles
from tests.gateway.visiting import collect, new_session
from visavis.client import GatewayClient, GatewaySession
from visavis.wire.media import Chunk, Place, TranscriptChunk, TranscriptEvent, TurnChunk
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def stages(client: GatewayClient, session: GatewaySession) -> dict[str, Any]:
    told = (await client.call("GET", f"/v1/sessions/{session.id}")).json()
    return dict(told["stages"])


async def drained(doubles: Doubles, *names: str) -> list[Double]:
    """The replicas of `names`, told to stop, with another one of each beside it."""
    old = [doubles.running[name] for name in names]
    await doubles.start(*names)
    for double in old:
        double.drain()
    return old


async def test_the_turn_at_work_is_finished_and_the_next_one_is_other_replicas(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.voice_s = 1.0
    async with client.session(language="zh") as session:
        await session.ask("Are you going?")
        events = await collect(session, "speaking")
        old = await drained(doubles, *KINDS)
        events += await collect(session, "finished", "failed")
        assert events[-1]["event"] == "finished"
        assert [double.leases for double in old] == [1] * 4, "one left in mid-turn"
        await until(lambda: not any(double.leases for double in old))
        news = {name: double.instance for name, double in doubles.running.items()}
        assert await stages(client, session) == news
        for double in old:
            await double.stop()
        doubles.script.voice_s = 0.2
        await session.ask("And you?")
        events += await collect(session, "finished", "failed")
    assert events[-1]["event"] == "finished"
    assert [e for e in events if e["type"] in ("error", "warning")] == []
    answers = "".join(e["text"] for e in events if e["type"] == "answer")
    assert answers == 2 * doubles.script.answer
    config = doubles.seen.of("tts", "config")[-1].config
    assert config.synthesis.language == "zh"


async def test_all_stages_may_go_at_once_and_a_turn_that_begins_then_waits_for_them(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        await session.ask("Hello?")
        await collect(session, "finished")
        doubles.script.may_attach.clear()
        configs = len(doubles.seen.of("tts", "config"))
        old = await drained(doubles, *KINDS)
        await until(lambda: len(doubles.seen.of("tts", "config")) > configs)
        await session.ask("Is anybody there?")
        await collect(session, "opened")
        with pytest.raises(TimeoutError):  # two of them would do its work
            await until(lambda: len(doubles.seen.prompts) > 1, timeout_s=0.3)
        doubles.script.may_attach.set()
        events = await collect(session, "finished", "failed")
        assert events[-1]["event"] == "finished"
        await until(lambda: not any(double.leases for double in old))
        turns = (await client.call("GET", f"/v1/sessions/{session.id}/turns/2")).json()
    assert turns["answer"] == doubles.script.answer
    assert [e for e in events if e["type"] == "error"] == []


async def test_an_answer_that_is_prepared_while_stages_go_is_announced_again_as_it_stands(
    client: GatewayClient, doubles: Doubles
) -> None:
    """Whatever another one waited for, which is over by then."""
    async with (
        client.session() as session,
        doubles.bus.subscribe(session.id, Kind.TURN) as announced,
    ):
        doubles.script.may_attach.clear()
        configs = len(doubles.seen.of("tts", "config"))
        await drained(doubles, "tts")
        await until(lambda: len(doubles.seen.of("tts", "config")) > configs)
        await session.ask("Is anybody there?")
        await session.interrupt()
        await session.typing("Is it open?")
        async with asyncio.timeout(30):
            while not (prepared := _turn(await anext(announced))).held:
                pass
            doubles.script.may_attach.set()
            again = _turn(await anext(announced))
        assert (again.place.turn, again.held) == (prepared.place.turn, True)


def _turn(chunk: Chunk) -> TurnChunk:
    assert isinstance(chunk, TurnChunk)
    return chunk


async def test_what_is_said_while_the_ears_change_is_understood_once(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.hears = "Do you hear me?"
    async with client.session() as session:
        path = f"/v1/sessions/{session.id}/media?role=speaker"
        async with client.connect(path) as media:
            [old] = await drained(doubles, "asr")
            await until(lambda: doubles.running["asr"].leases)
            loud, quiet = np.full(320, 9000, np.int16), np.zeros(320, np.int16)
            for sound in [loud] * 20 + [quiet] * 20:
                await media.send(sound.tobytes())
            events = await collect(session, "finished", "failed")
            await until(lambda: not old.leases)
    finals = [e for e in events if e["type"] == "transcript" and e["final"]]
    assert [e["text"] for e in finals] == ["Do you hear me?"]


async def test_with_no_other_replica_the_turn_is_finished_and_the_stage_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
    gateway: RunningGateway,
    client: GatewayClient,
    doubles: Doubles,
) -> None:
    doubles.script.voice_s = 1.0
    registry, may_begin = gateway.inside.registry, list[bool]()
    choose = registry.choose

    async def noting(service: str, **how: Any) -> Any:
        may_begin.extend(s.stages.settled for s in gateway.inside.sessions.all())
        return await choose(service, **how)

    monkeypatch.setattr(registry, "choose", noting)
    async with client.session() as session:
        await session.ask("Are you alone?")
        await collect(session, "speaking")
        old = doubles.running["tts"]
        old.drain()
        assert (await collect(session, "finished", "failed"))[-1]["event"] == "finished"
        await until(lambda: not old.leases)
        assert may_begin and all(may_begin), "turns wait for nobody while a replica is looked for"
        await doubles.stop("tts")
        await doubles.start("tts")
        async with asyncio.timeout(5):
            while not (await stages(client, session))["tts"]:  # noqa: ASYNC110  # asked over HTTP
                await asyncio.sleep(0.02)
        doubles.script.voice_s = 0.2
        await session.ask("Are you back?")
        assert (await collect(session, "finished", "failed"))[-1]["event"] == "finished"


async def test_who_comes_back_as_replicas_are_exchanged_finds_the_next_one(
    gateway: RunningGateway, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    """His page draws the face, so it needs no slot there: none was missed where it was refused."""
    name = await new_session(http, drawn_by="client")
    session, registry = gateway.inside.sessions.get(name), gateway.inside.registry
    await session.stages.release()
    await registry._watch.stop()  # it has not looked since
    try:
        await drained(doubles, "face")
        await session.wake()
    finally:
        registry._watch.start()
    told = (await http.get(f"/v1/sessions/{name}")).json()
    assert told["stages"]["face"] == doubles.running["face"].instance


def chunk(utterance: int, event: TranscriptEvent) -> TranscriptChunk:
    return TranscriptChunk(Place("s", 0, 0, 0), event, utterance, "")


async def test_a_newcomer_among_the_ears_counts_from_the_switch_on() -> None:
    ears = Ears()
    assert ears.newcomer() == 1
    ears.switch()
    started, final = TranscriptEvent.SPEECH_STARTED, TranscriptEvent.FINAL
    assert ears.count(chunk(1, started)) and ears.count(chunk(1, final))
    first = ears.newcomer()
    assert first > 1
    assert ears.count(chunk(2, started)) and not ears.count(chunk(first, started))
    assert ears.newcomer_is_in_an_utterance
    assert ears.count(chunk(2, final)) and not ears.count(chunk(first, final))
    assert not ears.newcomer_is_in_an_utterance
    ears.switch()
    assert not ears.count(chunk(3, started)), "the old one is heard no more"
    assert ears.count(chunk(first + 1, started))
    assert ears.newcomer() > first + 1


def said(at: int, samples: int = RATE_HZ) -> NDArray[np.int16]:
    """Sound that tells its place: seconds."""
    return (np.arange(at, at + samples) // RATE_HZ).astype(np.int16)


def listening(seconds: int) -> Ears:
    """Somebody listens, and so much has been said."""
    ears = Ears()
    ears.newcomer()
    assert ears.switch() == []
    speak(ears, 0, seconds)
    return ears


def speak(ears: Ears, begin_s: int, end_s: int) -> None:
    for at in range(begin_s * RATE_HZ, end_s * RATE_HZ, RATE_HZ):
        ears.tape.add(at, said(at))


def told(ears: Ears, utterance: int, event: TranscriptEvent, at_s: float, end_s: float = 0) -> None:
    place, end = Place("s", 0, 0, round(at_s * RATE_HZ)), round(end_s * RATE_HZ)
    assert ears.count(TranscriptChunk(place, event, utterance, "", speech_end_samples=end))


def repeated(ears: Ears) -> tuple[float, float]:
    """From which second to which the next one hears what was said."""
    ears.newcomer()
    pieces = ears.switch()
    assert all(0 < len(pcm) <= RATE_HZ for _, pcm in pieces)
    sound = np.concatenate([pcm for _, pcm in pieces])
    np.testing.assert_array_equal(sound, said(pieces[0][0], len(sound)))
    return pieces[0][0] / RATE_HZ, (pieces[0][0] + len(sound)) / RATE_HZ


STARTED, FINAL = TranscriptEvent.SPEECH_STARTED, TranscriptEvent.FINAL


async def test_who_replaces_a_lost_recogniser_hears_what_is_being_said_from_before_its_begin() -> (
    None
):
    ears = listening(9)
    told(ears, 1, STARTED, 8.5)
    speak(ears, 9, 20)
    ears.lost()
    assert not ears.count(chunk(2, STARTED)), "it would have no end"
    speak(ears, 20, 21)
    assert not ears.tape.heard
    assert repeated(ears) == (7.5, 21) and ears.tape.heard
    speak(ears, 21, 22)
    ears.lost()
    assert repeated(ears) == (7.5, 22), "nothing of it was told yet"
    told(ears, 3000, STARTED, 8.5)
    told(ears, 3000, FINAL, 21, end_s=20.5)
    ears.lost()
    assert repeated(ears) == (20.5, 22), "what was understood is not said again"


async def test_what_is_kept_for_it_are_seconds_and_half_a_minute_of_one_utterance() -> None:
    silent, endless, deserted = listening(50), listening(6), listening(3)
    told(endless, 1, STARTED, 5)
    speak(endless, 6, 50)
    for ears in (silent, endless):
        ears.lost()
    deserted.tape.forget()
    speak(deserted, 3, 4)
    assert [repeated(ears) for ears in (silent, endless, deserted)] == [(46, 50), (20, 50), (3, 4)]
