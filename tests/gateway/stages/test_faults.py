"""What breaks is said, ends the turn that needed it, and comes back; others notice nothing."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Self

import grpc
import httpx
import numpy as np
import psutil
import pytest
from nats.aio.client import Client
from prometheus_client.parser import text_string_to_metric_families

from gateway.playout.attention import Attention, AttentionOrder
from gateway.session.session import Session
from gateway.stages import lease, registry
from gateway.stages.bus_feed import BusFeed
from tests.fakes import MetricGrowth
from tests.full_disk import limited_files
from tests.gateway.conftest import Rig, RunningGateway, eventually, meets, until
from tests.gateway.doubles import Doubles, FaceDouble
from tests.gateway.media import film
from tests.gateway.visiting import Visitor, collect, first_of, new_session, problem
from visavis.client import GatewayClient, GatewaySession
from visavis.serving.discovery import Replica, discover
from visavis.v1 import control_pb2
from visavis.wire import bus
from visavis.wire.levels import BEFORE
from visavis.wire.media import Chunk, PcmChunk, Place, TokenChunk, TranscriptEvent
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _attached(client: GatewayClient, path: str, stage: str) -> str | None:
    stages: dict[str, str | None] = (await client.call("GET", path)).json()["stages"]
    return stages[stage]


async def answers(session: GatewaySession) -> None:
    """It answers what is asked, to the end."""
    await session.ask("And now?")
    events = await collect(session, "finished", "failed")
    assert events[-1]["event"] == "finished", events[-3:]


async def test_a_change_while_a_stage_is_away_is_told_and_reaches_it(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        path = f"/v1/sessions/{session.id}"
        await doubles.stop("tts")
        for _ in range(2):
            changed = await client.call("PATCH", path, json={"speed": 1.5})
            assert changed.json()["speed"] == 1.5
        events = session.events()
        async with asyncio.timeout(30):
            assert [e async for e in first_of(events, "session", 2)][-1]["speed"] == 1.5
        await doubles.start("tts")
        await eventually(lambda: _attached(client, path, "tts"))
        assert doubles.seen.of("tts", "config")[-1].config.synthesis.speed == 1.5


async def test_a_change_while_a_stage_attaches_with_the_old_options_reaches_it(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        path = f"/v1/sessions/{session.id}"
        configs = doubles.seen.of("tts", "config")
        doubles.script.may_attach.clear()
        await doubles.stop("tts")
        await doubles.start("tts")
        await until(lambda: len(doubles.seen.of("tts", "config")) > len(configs))
        assert doubles.seen.of("tts", "config")[-1].config.synthesis.speed == 1.0
        await client.call("PATCH", path, json={"speed": 1.5})
        doubles.script.may_attach.set()
        await until(lambda: doubles.seen.of("tts", "synthesis"))
        assert doubles.seen.of("tts", "synthesis")[-1].synthesis.speed == 1.5


async def test_an_answer_goes_on_with_the_voice_and_the_face_that_come_in_its_midst(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.silent.add("tts")
    async with client.session() as session:
        await session.ask("Hi.")
        events = session.events()
        await anext(e async for e in events if e["type"] == "answer" and e["final"])
        await doubles.stop("tts")
        doubles.script.silent.clear()
        doubles.script.voice_s = 20.0
        await doubles.start("tts")
        await anext(e async for e in events if (e["type"], e.get("event")) == ("turn", "speaking"))
        (resume,) = [request.resume for request in doubles.seen.of("tts", "resume")]
        assert (resume.text, resume.complete) == (doubles.script.answer, True)
        assert (resume.turn.header.turn, resume.chars, resume.samples) == (1, 0, 0)
        await doubles.stop("face")
        await doubles.start("face")
        await until(lambda: doubles.seen.of("face", "resume"))
        (resume,) = [request.resume for request in doubles.seen.of("face", "resume")]
        assert resume.turn.header.turn == 1
        assert resume.voice[-1].header.last
        assert resume.clock.header.pts > 0
        await session.interrupt()
        ended = await anext(e async for e in events if e["type"] in ("turn", "error"))
        assert (ended["type"], ended.get("event")) == ("turn", "interrupted")


@pytest.mark.parametrize("stage", ["llm", "tts", "face"])
async def test_an_answer_does_not_go_on_with_a_replica_of_an_earlier_version_and_the_next_one_works(
    stage: str, client: GatewayClient, doubles: Doubles
) -> None:
    """It would end its lease each time that it was told to. A face is not needed that much."""
    doubles.script.silent.add(stage)
    async with client.session() as session:
        await session.ask("Hi.")
        await until(lambda: doubles.seen.of("llm", "begin"))
        await doubles.stop(stage)
        doubles.script.silent.clear()
        doubles.script.level = BEFORE
        await doubles.start(stage)
        ended = (await collect(session, "finished", "failed"))[-1]
        if stage == "face":
            assert ended["event"] == "finished"
        else:
            assert (ended["event"], f"{stage}: its replica" in ended["reason"]) == ("failed", True)
        await answers(session)
        assert not doubles.seen.of(stage, "resume")
        assert len(doubles.seen.of(stage, "config")) == 2
    await doubles.stop(stage)  # those of this version come in its place


async def test_a_session_whose_avatar_is_changed_keeps_its_replica(
    client: GatewayClient, gateway: RunningGateway, doubles: Doubles
) -> None:
    """Though another one has more room: what is drawn for the session is warm there."""
    async with client.session() as session:
        path, first = f"/v1/sessions/{session.id}", doubles.running["face"].instance
        await doubles.start("face")
        await meets(gateway, doubles)
        doubles.script.lingers = True
        await client.call("PATCH", path, json={"avatar": "eve"})
        await until(lambda: doubles.seen.of("face", "config")[-1].config.face.avatar == "eve")
        await eventually(lambda: _attached(client, path, "face"))
        assert await _attached(client, path, "face") == first


async def test_an_avatar_that_is_gone_as_the_face_comes_back_is_changed_for_the_default_one(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session(avatar="eve") as session:
        path, events = f"/v1/sessions/{session.id}", session.events()
        doubles.script.unknown_avatar = "eve"
        await doubles.stop("face")
        await doubles.start("face")
        async with asyncio.timeout(30):
            [warned] = [event async for event in first_of(events, "warning", 1)]
        assert warned["code"] == "avatar_deleted" and "'eve'" in warned["message"]
        await eventually(lambda: _attached(client, path, "face"))
        assert doubles.seen.of("face", "config")[-1].config.face.avatar == ""
        assert (await client.call("GET", path)).json()["avatar"] == ""


async def test_what_is_asked_while_the_voice_is_away_is_answered_as_it_comes_back(
    client: GatewayClient, doubles: Doubles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why it is silent is told where that takes long."""
    monkeypatch.setattr(lease, "RETURN_TIMEOUT_S", 0.2)
    async with client.session() as session:
        await doubles.stop("tts")
        events = session.events()
        told = await anext(event async for event in events if event["type"] == "error")
        assert told["code"] == "stage_away" and "tts: its replica was lost" in told["message"]
        await session.ask("And now?")
        await collect(session, "opened")
        await doubles.start("tts")
        events = await collect(session, "finished", "failed")
        assert events[-1]["event"] == "finished"


async def test_an_answer_that_is_wanted_by_the_time_its_model_comes_is_begun_as_such(
    client: GatewayClient,
    gateway: RunningGateway,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was prepared while there was none; one that is over by then is not begun at all."""
    monkeypatch.setattr(lease, "RETURN_TIMEOUT_S", 30.0)
    async with client.session() as session:
        visitor, inside = Visitor(doubles, session), gateway.inside.sessions.get(session.id)
        await doubles.stop("llm")
        await eventually(lambda: _is_away(client, f"/v1/sessions/{session.id}", "llm"))
        await visitor.does(TranscriptEvent.SPEECH_STARTED)
        for question in ("What is there?", "What is there to see?"):
            await visitor.does(TranscriptEvent.PAUSED, question, end_of_turn_probability=0.9)
            await until(partial(_prepares, inside, question))
        await visitor.does(TranscriptEvent.FINAL, question)
        turn = (await collect(session, "opened"))[-1]["turn"]
        await doubles.start("llm")
        assert (await collect(session, "finished", "failed"))[-1]["event"] == "finished"
        (begin,) = [request.begin for request in doubles.seen.of("llm", "begin")]
        assert (begin.turn, begin.held) == (turn, False)


@pytest.mark.parametrize("fault", ["killed", "lost its bus"])
async def test_what_is_said_while_the_recogniser_goes_is_heard_from_its_beginning(
    client: GatewayClient, doubles: Doubles, fault: str
) -> None:
    """By another one, or the same begun anew; also what came while there was none."""
    doubles.script.hears = "Do you hear me?"
    loud, quiet = np.full(320, 9000, np.int16), np.zeros(320, np.int16)
    async with (
        client.session() as session,
        doubles.bus.subscribe(session.id, Kind.MIC, limit=512) as mic,
    ):
        path = f"/v1/sessions/{session.id}"
        events = session.events()
        async with client.connect(f"{path}/media?role=speaker") as media:
            for _ in range(20):
                await media.send(loud.tobytes())
            async with asyncio.timeout(30):
                while (await anext(events)).get("state") != "listening":
                    pass
            if fault == "killed":
                await doubles.stop("asr")
                await eventually(lambda: _is_away(client, path, "asr"))
            else:
                told = control_pb2.AttachEvent(bus_lost=control_pb2.BusLost())
                await doubles.running["asr"].events[session.id].put(told)
            for _ in range(20):
                await media.send(loud.tobytes())
            if fault == "killed":
                await doubles.start("asr")
            async with asyncio.timeout(30):
                while not (chunk := _sound(await anext(mic))).recorded:
                    assert fault == "lost its bus" or chunk.place.pts < 20 * 320
            heard = [chunk]
            for _ in range(20):
                await media.send(quiet.tobytes())
            seen = await collect(session, "finished", "failed")
        async with asyncio.timeout(30):
            while sum(len(chunk.pcm) for chunk in heard) < 60 * 320:
                heard.append(_sound(await anext(mic)))
    texts = [e["text"] for e in seen if e["type"] == "transcript" and e["final"]]
    assert texts.count("Do you hear me?") == 1 and seen[-1]["event"] == "finished"
    assert heard[0].place.pts == 0 and not heard[-1].recorded
    for chunk, later in pairwise(heard):
        assert later.place.pts == chunk.place.pts + len(chunk.pcm)
    assert sum(np.count_nonzero(chunk.pcm) for chunk in heard) == 40 * 320


def _sound(chunk: Chunk) -> PcmChunk:
    assert isinstance(chunk, PcmChunk)
    return chunk


def _prepares(session: Session, question: str) -> bool:
    return session.turn is not None and session.turn.question == question


async def _is_away(client: GatewayClient, path: str, stage: str) -> bool:
    return await _attached(client, path, stage) is None


async def test_a_picture_lost_on_the_bus_is_made_good_at_once(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        await client.call("POST", f"/v1/sessions/{session.id}/recording", json={"scope": "session"})
        await until(lambda: doubles.seen.of("face", "keyframe"))
        before = len(doubles.seen.of("face", "keyframe"))
        doubles.script.lost_pictures = 1
        await until(lambda: len(doubles.seen.of("face", "keyframe")) > before)


async def test_a_full_disk_ends_a_recording_with_what_can_be_played(
    client: GatewayClient, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    doubles.script.voice_s = 5.0
    async with client.session() as session:
        path = f"/v1/sessions/{session.id}/recording"
        with limited_files(30_000):  # which ends it in the answer, whose pictures are there in time
            await client.call("POST", path, json={"scope": "session"})
            await session.ask("Hello?")
            async with asyncio.timeout(30):
                async for event in session.events():
                    if event["type"] == "error":
                        break
        assert event["code"] == "recording_failed" and "File too large" in event["message"]
        told = (await client.call("GET", path)).json()
        assert (told["state"], told["error"]) == ("done", event["message"])
        assert f"first {told['duration_s']:.1f} s are kept" in told["error"]
        with film(await session.recording()) as container:
            shown = [frame.pts for frame in container.decode(video=0)]
        for wanted, status in (("bytes=999999-", 416), ("rows=1-2", 400)):
            answer = await http.get(f"{path}.mp4", headers={"Range": wanted})
            assert "Range" in problem(answer, status) and answer.headers["Content-Range"]
        # Of a machine that other tests keep busy the last pictures may be late.
        assert shown[-1] / 90_000 == pytest.approx(told["duration_s"], abs=0.3)


@pytest.mark.parametrize(
    "fault", ["bus restarts", "bus blinks", "llm lost its bus", "llm is taken for dead"]
)
async def test_an_answer_that_is_being_written_has_the_words_of_one_run_of_the_model_at_a_time(
    client: GatewayClient, doubles: Doubles, rig: Rig, fault: str
) -> None:
    """What was written before, and comes late, is none of it."""
    doubles.script.silent = {"llm"}
    async with client.session() as session:

        async def write(run: int, seq: int, chars: int, text: str, *, last: bool = False) -> None:
            place = Place(session.id, turn, seq, chars, last)
            await doubles.bus.publish(Kind.TOKENS, TokenChunk(place, text, run=run))

        turn, events = await session.ask("Hello?"), session.events()
        await until(lambda: doubles.seen.of("llm", "begin"))
        await write(0, 0, 0, "One two")
        said = [(await anext(e async for e in events if e["type"] == "answer"))["text"]]
        match fault:
            case "bus restarts":
                await asyncio.to_thread(rig.nats.stop)
                await asyncio.to_thread(rig.nats.start)
            case "bus blinks":
                await rig.running.inside.bus.client.force_reconnect()
            case "llm lost its bus":
                told = control_pb2.AttachEvent(bus_lost=control_pb2.BusLost())
                await doubles.running["llm"].events[session.id].put(told)
            case _:
                await doubles.stop("llm")
                await doubles.start("llm")
        await until(lambda: doubles.seen.of("llm", "begin")[-1].begin.run == 1)
        await until(lambda: doubles.seen.of("tts", "resume"))
        await until(lambda: doubles.bus.connected)
        begin = doubles.seen.of("llm", "begin")[-1].begin
        assert (begin.so_far, begin.turn) == ("One two", turn)
        resume = doubles.seen.of("tts", "resume")[-1].resume
        assert (resume.text, resume.text_run, resume.run) == ("One two", 1, 1)
        await write(1, 0, 7, " three")
        await write(0, 1, 7, " of an earlier run")
        await write(0, 2, 25, " again")
        await write(1, 1, 13, " four.", last=True)
        async for event in events:
            said += [event["text"]] if event["type"] == "answer" else []
            if event.get("event") in ("finished", "failed"):
                break
        assert (event["event"], "".join(said)) == ("finished", "One two three four.")
        await eventually(client.answers)


async def test_what_a_prepared_answer_has_lost_is_known_once_it_is_wanted(rig: Rig) -> None:
    lost = await bus.Bus.connect(rig.nats.url, name="lost")
    feed = BusFeed(lost, "s", {})
    for turn, reason, noticed in ((3, "confirmed", True), (4, "text", False)):
        feed.announce(3, "speech", held=True)
        losses = lost.losses
        await lost.client.force_reconnect()
        await until(lambda known=losses + 2: lost.losses == known)
        feed.announce(turn, reason)
        assert feed.newly_lost() is noticed
    await lost.close()


async def test_words_that_are_lost_on_their_way_are_written_again(
    client: GatewayClient, doubles: Doubles
) -> None:
    """For whatever reason; and so is the voice."""
    doubles.script.silent = {"llm", "tts"}
    async with client.session() as session:
        turn = await session.ask("Hello?")
        await until(lambda: doubles.seen.of("llm", "begin"))
        chunk = TokenChunk(Place(session.id, turn, 1, 4), "two")
        await doubles.bus.publish(Kind.TOKENS, chunk)
        await until(lambda: doubles.seen.of("llm", "begin")[-1].begin.run == 1)
        await until(lambda: doubles.seen.of("tts", "resume"))
        assert doubles.seen.of("llm", "begin")[-1].begin.so_far == ""
        voice = PcmChunk(Place(session.id, turn, 3, 0), 24_000, np.zeros(480, np.int16), run=1)
        await doubles.bus.publish(Kind.VOICE, voice)
        await until(lambda: doubles.seen.of("tts", "resume")[-1].resume.run == 2)


@pytest.mark.parametrize("fault", ["restarts", "blinks"])
async def test_an_answer_that_is_written_goes_on_once_the_bus_is_back(
    client: GatewayClient, doubles: Doubles, rig: Rig, fault: str
) -> None:
    """Be it before anybody has looked whether it is there."""
    doubles.script.silent = {"tts"}
    async with client.session() as session:
        await session.ask("Hello?")
        events = session.events()
        await anext(e async for e in events if e["type"] == "answer" and e["final"])
        doubles.script.silent = set()
        if fault == "blinks":
            await rig.running.inside.bus.client.force_reconnect()
        else:
            await asyncio.to_thread(rig.nats.stop)
            await asyncio.to_thread(rig.nats.start)
        ended = await anext(e async for e in events if e.get("event") in ("finished", "failed"))
        assert ended["event"] == "finished"
        await until(lambda: doubles.bus.connected)
        await eventually(client.answers)


async def test_a_voice_that_lost_its_bus_is_told_again_what_it_may_have_missed(
    client: GatewayClient, doubles: Doubles
) -> None:
    """The gateway's own connection is fine: only the stage knows."""
    doubles.script.silent = {"tts"}
    async with client.session() as session:
        await session.ask("Hello?")
        events = session.events()
        await anext(e async for e in events if e["type"] == "answer" and e["final"])
        told = control_pb2.AttachEvent(bus_lost=control_pb2.BusLost())
        await doubles.running["tts"].events[session.id].put(told)
        ended = await anext(e async for e in events if e.get("event") in ("finished", "failed"))
        assert ended["event"] == "finished"
        assert doubles.seen.of("tts", "resume")[0].resume.text == doubles.script.answer


class Network:
    """Carries what is said to a replica and back, until it is `cut`: then it swallows all of it."""

    def __init__(self, late_s: float = 0.0) -> None:
        """late_s: how long it takes until there is a connection."""
        self.cut = False
        self._late_s = late_s
        self._servers: list[asyncio.Server] = []

    async def __call__(self, port: int) -> int:
        async def connected(near: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(self._late_s)
            far, ask = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(self._carry(near, ask), self._carry(far, answer))

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while said := await source.read(65_536):
            if not self.cut:
                target.write(said)
        target.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()


async def test_a_replica_that_is_frozen_ends_the_lease_on_it(
    client: GatewayClient, doubles: Doubles
) -> None:
    """Its connections stay open, as those of a stopped process do, and nothing comes."""
    with Network() as network:
        await doubles.stop("llm")
        doubles.script.network = network
        await doubles.start("llm")
        doubles.script.network = None
        frozen = doubles.running["llm"].instance
        async with client.session() as session:
            path = f"/v1/sessions/{session.id}"
            assert await _attached(client, path, "llm") == frozen
            await doubles.start("llm")
            network.cut = True
            healthy = doubles.running["llm"].instance

            async def moved() -> bool:
                return await _attached(client, path, "llm") == healthy

            await eventually(moved)
            await answers(session)


async def test_a_replica_that_takes_a_moment_to_connect_to_is_there(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    """As one of a busy machine does."""
    with Network(late_s=0.3) as network:
        await doubles.stop("llm")
        doubles.script.network = network
        await doubles.start("llm")
        await meets(gateway, doubles)


async def test_a_session_is_with_the_process_that_is_there_and_not_with_one_that_was(
    gateway: RunningGateway, client: GatewayClient, doubles: Doubles
) -> None:
    """It would be cut off with the connection to the one that was, which nobody uses."""
    port = doubles.running["llm"].port
    await gateway.inside.registry.refresh()
    await doubles.stop("llm")
    await doubles.start("llm", port=port)
    async with client.session() as session:
        path = f"/v1/sessions/{session.id}"
        assert await _attached(client, path, "llm") == doubles.running["llm"].instance
    await meets(gateway, doubles)
    known = [state.replica.instance for state in gateway.inside.registry.replicas("llm")]
    assert known == [doubles.running["llm"].instance], "taken for two"


@pytest.mark.parametrize("status", ["RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"])
async def test_a_replica_that_refuses_is_not_lost_and_another_is_asked(
    http: httpx.AsyncClient, doubles: Doubles, status: str
) -> None:
    first = doubles.running["face"].instance
    doubles.script.refuse[first] = grpc.StatusCode[status]
    await doubles.start("face")
    await eventually(lambda: _healthy(http, doubles.running["face"].instance))
    session = await new_session(http)
    stages = (await http.get(f"/v1/sessions/{session}")).json()["stages"]
    assert stages["face"] == doubles.running["face"].instance
    assert await _healthy(http, first)


async def _healthy(http: httpx.AsyncClient, instance: str) -> bool:
    services = (await http.get("/v1/services")).json()["services"]
    return any(s["instance"] == instance and s["healthy"] for s in services)


async def test_a_visitor_whom_no_replica_takes_again_is_told_why(
    client: GatewayClient, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        events = session.events()
        doubles.script.refuse["tts"] = grpc.StatusCode.RESOURCE_EXHAUSTED
        await doubles.stop("tts")
        await doubles.start("tts")
        async with asyncio.timeout(30):
            (told,) = [event async for event in first_of(events, "error", 1)]
        assert told["code"] == "at_capacity"
        assert told["message"] == f"tts: {doubles.running['tts'].instance} refuses"
        assert await let_in(http)
        doubles.script.refuse.clear()
        await eventually(lambda: _attached(client, f"/v1/sessions/{session.id}", "tts"))
        await answers(session)


async def test_a_replica_that_is_not_found_once_keeps_its_sessions(
    monkeypatch: pytest.MonkeyPatch,
    gateway: RunningGateway,
    client: GatewayClient,
    doubles: Doubles,
) -> None:
    async def without_tts(bus: Client) -> list[Replica]:
        return [replica for replica in await discover(bus) if replica.service != "tts"]

    async with client.session() as session:
        monkeypatch.setattr(registry, "STATUS_TIMEOUT_S", 0.1)
        monkeypatch.setattr(registry, "discover", without_tts)
        doubles.script.mute.add("tts")
        await gateway.inside.registry.refresh()
        assert not gateway.inside.registry.replicas("tts")
        doubles.script.mute.clear()
        await answers(session)
        assert len(doubles.seen.of("tts", "config")) == 1
        monkeypatch.undo()
        await gateway.inside.registry.refresh()


async def test_who_comes_to_where_another_was_is_found_at_once(
    monkeypatch: pytest.MonkeyPatch, gateway: RunningGateway, doubles: Doubles
) -> None:
    known, port = gateway.inside.registry, doubles.running["face"].port
    [old] = [state.replica for state in known.replicas("face")]
    newcomer = FaceDouble(doubles.bus, doubles.script, doubles.seen, "newcomer")

    async def found(bus: Client) -> list[Replica]:
        return [replace(old, instance=newcomer.instance)]

    await doubles.stop("face")
    await known.refresh()  # asks it in vain: a channel to there now rests for a while
    await newcomer.start(port)
    monkeypatch.setattr(registry, "discover", found)
    await known.refresh()
    monkeypatch.undo()
    assert [state.healthy for state in known.replicas("face")] == [True]
    await newcomer.stop()


async def test_a_replica_of_an_earlier_version_is_not_asked_for_what_it_would_refuse(
    caplog: pytest.LogCaptureFixture,
    gateway: RunningGateway,
    client: GatewayClient,
    doubles: Doubles,
) -> None:
    await doubles.stop("face")
    doubles.script.level = BEFORE
    with caplog.at_level(logging.INFO):
        await doubles.start("face")
        await meets(gateway, doubles)
        await gateway.inside.registry.refresh()
    instance = doubles.running["face"].instance
    told = [r.message for r in caplog.records if "earlier version" in r.message]
    assert told == [f"{instance} is of an earlier version: it is not asked for what came since"]
    async with client.session() as session:
        stages = gateway.inside.sessions.get(session.id).stages
        await stages.limit_pictures(300)
        await stages.tell_attention(AttentionOrder(Attention.LISTENING))
        await until(lambda: doubles.seen.of("face", "attention"))
        assert not doubles.seen.of("face", "bitrate")
        assert stages.instances["face"] == instance
    await doubles.stop("face")  # those of this version come in its place


async def test_each_process_that_comes_is_counted_once_however_soon_it_goes(
    monkeypatch: pytest.MonkeyPatch,
    gateway: RunningGateway,
    http: httpx.AsyncClient,
    doubles: Doubles,
) -> None:
    async def met() -> dict[str, float]:
        families = text_string_to_metric_families((await http.get("/metrics")).text)
        [family] = (f for f in families if f.name == "gateway_processes_met")
        return {s.labels["process"]: s.value for s in family.samples}

    async def nobody(bus: Client) -> list[Replica]:
        return []

    before = await met()
    for _ in range(2):
        await doubles.start("face")
        await meets(gateway, doubles)
        await doubles.stop("face")
    monkeypatch.setattr(registry, "discover", nobody)
    await gateway.inside.registry.refresh()
    monkeypatch.undo()
    await gateway.inside.registry.refresh()
    assert await met() == {**before, "face": before["face"] + 2}
    await doubles.stop()
    await doubles.start()
    await gateway.inside.registry.refresh()


async def let_in(http: httpx.AsyncClient) -> bool:
    return (await http.get("/readyz")).is_success


async def refused(http: httpx.AsyncClient, part: str, why: str) -> None:
    """Soon neither ready nor open for sessions, and both say why."""
    async with asyncio.timeout(20):
        while await let_in(http):  # noqa: ASYNC110  # asked over HTTP: nothing tells us
            await asyncio.sleep(0.05)
    ready = await http.get("/readyz")
    assert (ready.status_code, list(ready.json()["missing"])) == (503, [part])
    assert why in ready.json()["missing"][part]
    created = await http.post("/v1/sessions", json={})
    assert created.status_code == 503
    assert int(created.headers["retry-after"]) > 0
    assert f"{part}: " in problem(created, 503) and why in problem(created, 503)


async def test_without_a_bus_nobody_is_let_in(
    monkeypatch: pytest.MonkeyPatch,
    http: httpx.AsyncClient,
    client: GatewayClient,
    doubles: Doubles,
    rig: Rig,
) -> None:
    monkeypatch.setattr(registry, "BUS_TIMEOUT_S", 0.3)
    monkeypatch.setattr(bus, "MOMENT_S", 0.0)
    nats = psutil.Process(rig.nats.process.pid)
    nats.suspend()
    try:
        await rig.running.inside.registry.refresh()
        await refused(http, "bus", "not")  # it does not answer; after 3 s it is not connected
    finally:
        nats.resume()
    await rig.running.inside.registry.refresh()
    await eventually(lambda: let_in(http))
    await asyncio.to_thread(rig.nats.stop)
    await until(lambda: not rig.running.inside.bus.connected)
    await refused(http, "bus", "not connected")
    await asyncio.to_thread(rig.nats.start)
    await until(lambda: doubles.bus.connected)
    await eventually(lambda: let_in(http))
    async with client.session() as session:
        await answers(session)


async def test_without_a_stage_nobody_is_let_in(http: httpx.AsyncClient, doubles: Doubles) -> None:
    await doubles.stop("tts")
    counted = MetricGrowth("gateway_session_refusals_total", status="503", reason="stage_lost")
    await refused(http, "tts", "replica")
    assert counted.value == 1


async def test_without_a_face_the_voice_still_comes(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.silent = {"face"}
    async with client.session() as session:
        await answers(session)


async def test_two_sessions_share_nothing(client: GatewayClient, doubles: Doubles) -> None:
    async with client.session() as one, client.session() as two:
        await one.ask("One.")
        await two.ask("Two.")
        first, second = await asyncio.gather(collect(one, "finished"), collect(two, "finished"))
    for events, own, other in ((first, "One.", "Two."), (second, "Two.", "One.")):
        said = [e["text"] for e in events if e["type"] == "transcript"]
        assert said == [own]
        assert all(other not in str(e) for e in events)
    assert {p[-1][1] for p in doubles.seen.prompts} == {"One.", "Two."}


async def test_a_first_picture_without_key_frame_is_recorded_from_the_key_frame_before(
    client: GatewayClient, doubles: Doubles, tmp_path: Path
) -> None:
    doubles.script.first_keyframe = False
    async with client.session() as session:
        await session.record_turn()
        before = doubles.seen.keyframes
        await until(lambda: doubles.seen.keyframes > before)
        await session.ask("Sing.")
        await collect(session, "finished")
        film = await session.recording()
    assert film[4:8] == b"ftyp" and len(film) > 2000


async def test_a_vanished_client_harms_nobody(
    gateway: RunningGateway, client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.voice_s = 2.0
    session = (await client.call("POST", "/v1/sessions", json={})).json()["id"]
    media = await client.connect(f"/v1/sessions/{session}/media?role=speaker")
    await client.call("POST", f"/v1/sessions/{session}/text", json={"text": "Hi."})
    await media.recv()
    media.transport.abort()
    inside = gateway.inside.sessions.get(session)
    await until(lambda: inside.audience.present == 0)
    assert inside.microphone.holder is None
