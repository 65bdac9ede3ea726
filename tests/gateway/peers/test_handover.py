"""A gateway that is about to end: its sessions go on in another one, between two turns."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio
from nats.errors import NoRespondersError

from gateway.peers import handover, peers
from gateway.peers.peers import Peer
from gateway.playout.sinks import recording
from gateway.settings import GatewaySettings
from gateway.waiting.entrance import Entrance
from tests.gateway.conftest import Rig, RunningGateway, meets, until
from tests.gateway.doubles import Doubles, FaceDouble
from tests.gateway.live.peers import RtmpServer, free_port
from tests.gateway.visiting import collect
from visavis.client import GatewayClient, GatewayError, GatewaySession
from visavis.serving import discovery, metrics
from visavis.serving.errors import DrainingError
from visavis.serving.lifetime.draining import Drain, Phase
from visavis.wire.clock import MonotonicClock
from visavis.wire.levels import BEFORE
from visavis.wire.subjects import gateway_subject, handover_subject

pytestmark = pytest.mark.asyncio(loop_scope="module")
HERE = {"X-Visavis-Passed-On": "1"}
SETTINGS = {"face_outputs": {"unreal": f"livelink://127.0.0.1:{free_port()}"}}


@pytest_asyncio.fixture(loop_scope="module")
async def leaving(rig: Rig, gateway: RunningGateway) -> AsyncIterator[RunningGateway]:
    async with beside(gateway, rig) as other:
        yield other


@asynccontextmanager
async def beside(gateway: RunningGateway, rig: Rig) -> AsyncIterator[RunningGateway]:
    """Another one; each knows the other."""
    other = await begun(rig)
    await meets(gateway, rig.doubles, gateways=2)
    yield other
    await other.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def theirs(leaving: RunningGateway) -> AsyncIterator[GatewayClient]:
    """A client of the one that is about to end."""
    async with GatewayClient(leaving.url) as client:
        yield client


async def begun(rig: Rig) -> RunningGateway:
    settings = {"nats_url": rig.nats.url, "max_sessions": 3, "port": 0, **SETTINGS}
    other = RunningGateway(GatewaySettings.model_validate(settings))
    await other.start()
    return other


async def made_in(gateway: RunningGateway, sessions: int, **options: Any) -> list[str]:
    async with GatewayClient(gateway.url) as client:
        made = [
            await client.call("POST", "/v1/sessions", json=options, headers=HERE)
            for _ in range(sessions)
        ]
    return [str(answer.json()["id"]) for answer in made]


async def test_what_cannot_be_read_is_answered(rig: Rig, gateway: RunningGateway) -> None:
    (session,) = await made_in(gateway, 1)
    subject = handover_subject(session.rpartition("-")[2])
    for garbage in (b"\xff", b"[" * 20_000, b"[]"):
        answer = await rig.bus.client.request(subject, garbage)
        assert answer.data, garbage


def drain(gateway: RunningGateway, limit_s: float = 20.0) -> asyncio.Task[None]:
    """As on SIGTERM."""
    draining = Drain(limit_s)
    draining.told_to_stop(MonotonicClock().now())
    return asyncio.create_task(gateway.inside.handover.leave(draining))


async def test_an_hls_player_goes_on_where_the_session_goes(
    leaving: RunningGateway, gateway: RunningGateway
) -> None:
    (session,) = await made_in(leaving, 1)
    folder = f"/v1/sessions/{session}/hls"

    async def played(door: RunningGateway, name: str) -> list[tuple[int, int, str]]:
        """Of each segment: its number, in which part of the timeline it is, what it stands on."""
        async with httpx.AsyncClient(base_url=door.url, trust_env=False, verify=False) as http:
            lines = (await http.get(f"{folder}/{name}")).raise_for_status().text.splitlines()
            about = dict(line.partition(":")[::2] for line in lines)
            part, init, found = int(about["#EXT-X-DISCONTINUITY-SEQUENCE"]), "", []
            for line in lines:
                part += line == "#EXT-X-DISCONTINUITY"
                init = line.partition('"')[2].rstrip('"') or init
                if line.startswith("segment-"):
                    found.append((int(re.sub(r"\D", "", line[:-4])), part, init))
            assert int(about["#EXT-X-MEDIA-SEQUENCE"]) == found[0][0]
            for piece in (init, lines[-1]):
                assert (await http.get(f"{folder}/{piece}")).status_code == 200
        return found

    async with httpx.AsyncClient(base_url=leaving.url, trust_env=False, verify=False) as http:
        index = (await http.get(f"{folder}/index.m3u8")).text.split()[-1]
    before = await played(leaving, index)
    await drain(leaving)
    after = await played(gateway, index)
    assert gateway.inside.sessions.has(session)
    assert after[0][0] > before[-1][0], "a number stands for one segment"
    assert after[0][1] > before[-1][1], "its times do not go on from those before"
    assert after[0][2] != before[-1][2]


async def joined(client: GatewayClient, session: str) -> GatewaySession:
    events = await client.connect(f"/v1/sessions/{session}/events")
    return GatewaySession(client, session, events)


async def opened(client: GatewayClient, **options: Any) -> GatewaySession:
    """One of this very gateway."""
    made = await client.call("POST", "/v1/sessions", json=options, headers=HERE)
    return await joined(client, made.json()["id"])


async def test_a_session_goes_on_where_it_stood(
    gateway: RunningGateway,
    leaving: RunningGateway,
    theirs: GatewayClient,
    client: GatewayClient,
    doubles: Doubles,
) -> None:
    doubles.script.voice_s = 1.0
    session = await opened(theirs, language="zh", persona="A sage.")
    name, events = session.id, session._events
    made = (await theirs.call("GET", f"/v1/sessions/{name}")).json()
    first = await session.ask("Who are you?")
    await collect(session, "speaking")
    leaving.inside.registry.gateways = []  # the one that takes its place has just begun
    left = drain(leaving)
    await until(lambda: leaving.inside.sessions.draining)
    assert (await collect(session, "finished", "failed"))[-1]["event"] == "finished"
    await events.wait_closed()
    assert events.close_code == 1012
    await session.aclose()
    await left
    assert not leaving.inside.sessions.all()
    # Whoever still asks the old one is sent on; what is new is made elsewhere.
    moved = (await theirs.call("GET", f"/v1/sessions/{name}")).json()
    assert (moved["language"], moved["created_at"]) == ("zh", made["created_at"])
    new = await theirs.call("POST", "/v1/sessions", json={})
    assert gateway.inside.sessions.has(new.json()["id"])
    with pytest.raises(GatewayError, match="about to end"):
        await opened(theirs)
    session = await joined(client, name)
    second = await session.ask("And I?")
    seen = await collect(session, "finished", "failed")
    assert seen[-1]["event"] == "finished" and second > first
    assert [e for e in seen if e["type"] == "error"] == []
    told = [text for _, text in doubles.seen.prompts[-1]]
    assert told[-3:] == ["Who are you?", doubles.script.answer, "And I?"]
    assert "sage" in told[0]
    turns = (await client.call("GET", f"/v1/sessions/{name}/turns")).json()
    assert [(t["turn"], t["state"]) for t in turns] == [(first, "finished"), (second, "finished")]
    await client.call("GET", f"/v1/sessions/{name}/turns/{first}/timeline")
    await leaving.stop()
    await session.ask("Still here?")
    assert (await collect(session, "finished", "failed"))[-1]["event"] == "finished"
    gone = f"nobody-{name.rpartition('-')[2]}"
    with pytest.raises(GatewayError) as unknown:
        await client.call("GET", f"/v1/sessions/{gone}")
    assert unknown.value.code == "not_found"
    await session.aclose()


async def test_no_number_stands_for_two_utterances_or_texts_of_a_session_that_goes_on(
    leaving: RunningGateway, theirs: GatewayClient, client: GatewayClient, doubles: Doubles
) -> None:
    """Captions of a page, and whoever waits for a text to be said, know them by their numbers."""
    doubles.script.hears = "And tomorrow?"

    async def told(session: GatewaySession) -> tuple[int, int]:
        """Of what is spoken, and of what is to be said."""
        saying = await session.say("We close at nine.")
        await collect(session, "finished")
        done = asyncio.Event()
        voice = np.concatenate([np.full(1_600, 8_000, np.int16), np.zeros(16_000, np.int16)])
        talk = asyncio.create_task(session.talk(voice, done, pictures=False))
        heard = await collect(session, "finished")
        done.set()
        await talk
        return next(e["utterance"] for e in heard if e["type"] == "transcript"), saying

    session = await opened(theirs)
    before = await told(session)
    await drain(leaving)
    await session.aclose()
    session = await joined(client, session.id)
    after = await told(session)
    assert after[0] > before[0] and after[1] > before[1]
    await session.aclose()


async def test_a_session_in_which_too_much_was_said_for_one_message_goes_on_with_the_newest(
    gateway: RunningGateway, leaving: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "_AROUND_BYTES", 600_000)
    said = [{"side": "visitor", "text": f"{k}" + "问" * 1900} for k in range(100)]
    [name] = await made_in(leaving, 1, history=said)
    before = leaving.inside.sessions.get(name).said
    await drain(leaving)
    kept = gateway.inside.sessions.get(name).said
    assert 10 < len(kept) < len(before) and kept == before[-len(kept) :]


async def test_a_room_in_which_too_much_waits_for_one_message_goes_on_with_what_matters_most(
    gateway: RunningGateway,
    leaving: RunningGateway,
    theirs: GatewayClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handover, "_AROUND_BYTES", 600_000)
    [name] = await made_in(leaving, 1, history=[{"side": "visitor", "text": "Who are you?"}])
    room = f"/v1/sessions/{name}/room"
    await theirs.call("POST", room, json={"paused": True, "answer_within_s": 300})
    asked = [f"What is {n * 7919} and {n}x{n}? " + "\U0001f600" * 1500 for n in range(100)]
    for text in asked:
        comment = {"author": {"name": f"viewer {text[8:14]}"}, "text": text}
        await theirs.call("POST", f"{room}/comments", json=comment)

    async def waiting(door: RunningGateway) -> list[str]:
        async with GatewayClient(door.url) as client:
            return [one["text"] for one in (await client.call("GET", room)).json()["waiting"]]

    before = await waiting(leaving)
    await drain(leaving)
    kept = gateway.inside.sessions.get(name).said
    assert [message.content for message in kept] == ["Who are you?"]
    after = await waiting(gateway)
    assert len(after) > 10 and after == before[: len(after)]


async def test_a_room_with_as_long_a_script_as_may_be_goes_along(
    gateway: RunningGateway, leaving: RunningGateway, theirs: GatewayClient
) -> None:
    [name] = await made_in(leaving, 1)
    script = [{"say": f"{n}" + "问" * 1640} for n in range(200)]
    await theirs.call("POST", f"/v1/sessions/{name}/room", json={"script": script, "paused": True})
    await drain(leaving)
    assert gateway.inside.sessions.has(name)
    assert gateway.inside.rooms.get(name).wanted.script[-1].say == script[-1]["say"]


def last_asked(doubles: Doubles) -> list[str]:
    """The questions that the language model was last asked."""
    asked = " ".join(text for _, text in doubles.seen.prompts[-1]) if doubles.seen.prompts else ""
    return re.findall(r"Over [^?]+\?", asked)


async def test_what_is_said_while_it_changes_hands_is_answered_once(
    gateway: RunningGateway,
    leaving: RunningGateway,
    theirs: GatewayClient,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taking, may_take = asyncio.Event(), asyncio.Event()
    take = gateway.inside.sessions.adopt

    async def slowly(*arguments: Any) -> Any:
        taking.set()
        await may_take.wait()
        return await take(*arguments)

    monkeypatch.setattr(gateway.inside.sessions, "adopt", slowly)
    session = await opened(theirs)
    given = leaving.inside.sessions.get(session.id)
    left = drain(leaving)
    await taking.wait()
    woken = asyncio.create_task(given.wake())  # by whoever was on his way to it
    await session._events.send('{"type": "text", "text": "Over the socket?"}')
    asked = asyncio.create_task(session.ask("Over HTTP?"))
    await asyncio.sleep(0)
    may_take.set()
    await asked
    await left
    with pytest.raises(DrainingError, match="goes on in another gateway"):
        await woken
    # Whichever comes later takes the other's place before a word of its answer was heard: then
    # one answer is for both, and the first may not even have come to the language model.
    both = ["Over HTTP?", "Over the socket?"]
    await until(lambda: sorted(last_asked(doubles)) == both)
    assert len(doubles.seen.prompts) <= len(both)


async def test_a_session_that_nobody_can_take_is_kept_until_its_turn_is_over(
    leaving: RunningGateway,
    theirs: GatewayClient,
    gateway: RunningGateway,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handover, "_LOOKS_ALONE", 1)
    doubles.script.voice_s = 1.0
    gateway.inside.sessions.leaving.set()
    metrics.draining.set(0)  # others of this process have drained
    try:
        session = await opened(theirs)
        await session.ask("Who are you?")
        await collect(session, "speaking")
        left = drain(leaving)
        assert (await collect(session, "finished", "failed"))[-1]["event"] == "finished"
        await left
        await session._events.wait_closed()
        assert session._events.close_code == 4410
        async with httpx.AsyncClient(base_url=leaving.url, trust_env=False, verify=False) as http:
            assert (await http.get("/readyz")).json()["status"] == "draining"
            assert "\ndraining 1.0\n" in (await http.get("/metrics")).text
    finally:
        gateway.inside.sessions.leaving.clear()


async def test_a_recording_that_was_waited_for_can_be_fetched_before_its_session_goes(
    leaving: RunningGateway, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "FETCH_S", 60.0)
    (session,) = await made_in(leaving, 1)
    path, looks = f"/v1/sessions/{session}", 0
    look = Drain.look

    def counted(drain: Drain, now_s: float, sessions: int) -> Phase:
        nonlocal looks
        looks += 1
        return look(drain, now_s, sessions)

    monkeypatch.setattr(Drain, "look", counted)
    async with GatewayClient(leaving.url) as client:
        await client.call("POST", f"{path}/recording", json={"scope": "session"})
        await client.call("POST", f"{path}/text", json={"text": "Who are you?"})
        talk = leaving.inside.sessions.get(session)
        running = talk.outlets.recordings.current
        await until(lambda: running is not None and not running.empty)
        left = drain(leaving)
        await client.call("POST", f"{path}/recording/stop")
        await until(lambda: talk.state == "idle")
        before = looks
        await until(lambda: looks > before + 2 or left.done())
        film = await client.call("GET", f"{path}/recording.mp4")
        assert film.headers["Content-Type"] == "video/mp4"
        await left
    assert gateway.inside.sessions.has(session)


async def test_what_would_hold_a_session_beyond_the_limit_ends_before_it(
    leaving: RunningGateway,
    gateway: RunningGateway,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doubles.script.voice_s = 60.0
    (name,) = await made_in(leaving, 1)
    path = f"/v1/sessions/{name}"
    async with GatewayClient(leaving.url) as client:
        await client.call("POST", f"{path}/recording", json={"scope": "session"})
        session = await joined(client, name)
        await session.ask("Who are you?")
        await collect(session, "speaking")
        recording = leaving.inside.sessions.get(name).outlets.recordings.current
        await until(lambda: recording is not None and not recording.empty)
        left_s = 20.0
        monkeypatch.setattr(Drain, "left_s", lambda *_: left_s)
        left = drain(leaving)
        await until(lambda: leaving.inside.sessions.draining)
        left_s = 5.0
        async with asyncio.timeout(30):
            errors = (event async for event in session.events() if event["type"] == "error")
            told = await anext(errors)
        assert told["code"] == "recording_failed" and "about to end; it is kept" in told["message"]
        left_s = 0.1
        ended = (await collect(session, "interrupted", "finished", "failed"))[-1]
        assert ended["event"] == "interrupted"
        await left
        await session.aclose()
    assert gateway.inside.sessions.get(name).records.all()[-1].turn == ended["turn"]


async def test_broadcasts_and_face_outputs_go_along(
    leaving: RunningGateway, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.live.push.flow._RETRIES_S", (0.05,))
    (name,) = await made_in(leaving, 1)
    path, port = f"/v1/sessions/{name}/broadcasts", free_port()
    output = {"name": "unreal", "kind": "livelink", "session": name}

    async def live(door: RunningGateway) -> dict[str, Any]:
        server = RtmpServer(port, "/live/a-key")
        server.start()
        async with GatewayClient(door.url) as client:
            await until(lambda: len(server.received.pictures) > 1)
            (told,) = (await client.call("GET", path)).json()["broadcasts"]
        assert told["state"] == "live"
        return dict(told)

    async with GatewayClient(leaving.url) as client:
        body = {"url": f"rtmp://127.0.0.1:{port}/live", "key": "a-key"}
        made = (await client.call("POST", path, json=body)).json()
        await client.call("PUT", f"/v1/sessions/{name}/face-outputs/unreal")
    before = await live(leaving)
    await drain(leaving)
    assert not leaving.inside.sessions.all()
    after = await live(gateway)
    assert (after["id"], after["target"]) == (made["id"], made["target"])
    assert after["sent_pictures"] > before["sent_pictures"]
    assert after["reconnects"] > before["reconnects"]
    async with GatewayClient(gateway.url) as client:
        outputs = (await client.call("GET", "/v1/face-outputs", headers=HERE)).json()["outputs"]
    assert outputs == [output]


@pytest.mark.parametrize("killed", [False, True])
async def test_sessions_that_no_single_peer_has_seats_for_are_all_found_afterwards(
    killed: bool,
    rig: Rig,
    gateway: RunningGateway,
    leaving: RunningGateway,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doubles.script.slots = 10
    third = await begun(rig)
    try:
        names = await made_in(leaving, 3)
        await made_in(gateway, 2)
        await made_in(third, 1)
        await leaving.inside.registry.refresh()
        # Those who wait in line at a peer take no seat from sessions that are in already.
        monkeypatch.setattr(Entrance, "waiting", 50)
        await drain(leaving)
        there = [name for name in names if gateway.inside.sessions.has(name)]
        assert (len(there), len(third.inside.sessions.all())) == (1, 3)
        nobodys = f"nobody-{names[0].rpartition('-')[2]}"
        if killed:
            await leaving.inside.bus.close()  # so that it cannot say that it is gone
        await leaving.stop()
        for door in (gateway, third):
            async with GatewayClient(door.url) as client:
                for name in names * 3:
                    assert (await client.call("GET", f"/v1/sessions/{name}")).json()["id"] == name
                with pytest.raises(GatewayError) as unknown:
                    await client.call("GET", f"/v1/sessions/{nobodys}")
                assert unknown.value.code == "not_found"
    finally:
        await third.stop()
    async with GatewayClient(gateway.url) as client:
        for name in set(names) - set(there):
            with pytest.raises(GatewayError) as ended:
                await client.call("GET", f"/v1/sessions/{name}")
            assert ended.value.code == "not_found"


@pytest.mark.parametrize("later", [{}, {"later": ["what nobody knows yet"]}])
async def test_a_session_of_a_gateway_of_another_version_is_taken(
    later: dict[str, Any], rig: Rig, gateway: RunningGateway, client: GatewayClient
) -> None:
    """As those of 27 November hand it over, and as one may in times to come."""
    name = f"made-{len(later)}-by-0123abcd"
    asked = {"role": "user", "content": "Who are you?", **later}
    turn = {"turn": 3, "state": "finished", "transcript": "Who are you?", "answer": "I.", **later}
    told = {
        "id": name,
        "options": {"language": "zh", "speed": 1.2, **later},
        "persona": "A sage.",
        "welcome": "",
        "owner": "",
        "epoch": 3,
        "said": [asked, {"role": "assistant", "content": "I.", **later}],
        "turns": [turn],
        "timelines": [],
        "attached": False,
        "room": None,
        **later,
    }
    subject = handover_subject(gateway.inside.peers.name)
    answer = await rig.bus.client.request(subject, json.dumps({"session": told}).encode(), 20)
    assert answer.data == b"", "it is not refused"
    seen = (await client.call("GET", f"/v1/sessions/{name}")).json()
    assert (seen["language"], seen["speed"]) == ("zh", 1.2)
    [record] = (await client.call("GET", f"/v1/sessions/{name}/turns")).json()
    assert (record["turn"], record["answer"]) == (3, "I.")


async def test_sessions_go_to_a_gateway_that_takes_all_of_them_rather_than_to_an_older_one(
    rig: Rig,
    gateway: RunningGateway,
    leaving: RunningGateway,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discovery, "LEVEL", BEFORE)
    older = await begun(rig)
    monkeypatch.undo()
    try:
        names = await made_in(leaving, 3)
        await made_in(gateway, 1)
        await meets(leaving, doubles, gateways=3)
        await drain(leaving)
        taken = [name for name in names if gateway.inside.sessions.has(name)]
        assert (len(taken), len(older.inside.sessions.all())) == (2, 1), "it has more seats"
    finally:
        await older.stop()


async def test_for_the_names_of_gateways_whose_sessions_have_ended_nobody_answers_for_ever(
    rig: Rig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_MOST_NAMES", 1)
    names = []
    async with GatewayClient(gateway.url) as client:
        for _ in range(3):
            async with beside(gateway, rig) as leaving:
                names += await made_in(leaving, 1)
                await drain(leaving)
            if len(names) > 1:
                await client.call("DELETE", f"/v1/sessions/{names[-1]}")
        assert (await client.call("GET", f"/v1/sessions/{names[0]}")).json()["id"] == names[0]
    kept, ended, newest = (gateway_subject(name.rpartition("-")[2]) for name in names)
    for answered in (kept, newest):
        assert (await rig.bus.client.request(answered, b"nobody")).data
    with pytest.raises(NoRespondersError):
        await rig.bus.client.request(ended, b"nobody")


async def test_neither_a_bus_that_is_away_nor_what_nobody_foresaw_ends_a_session(
    gateway: RunningGateway, leaving: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "_PAUSE_S", 0.0)
    peers, asked, failed = leaving.inside.peers, [], []
    others, tell = peers.others, peers.tell

    async def without_bus() -> list[Peer]:
        asked.append(True)
        return [] if len(asked) < 10 else await others()

    async def failing(peer: Peer, message: dict[str, Any]) -> None:
        if not failed:
            failed.append(message)
            raise RuntimeError("nobody foresaw this")
        await tell(peer, message)

    monkeypatch.setattr(type(peers), "can_ask", property(lambda _: len(asked) >= 10))
    monkeypatch.setattr(peers, "others", without_bus)
    monkeypatch.setattr(peers, "tell", failing)
    names = await made_in(leaving, 2)
    await drain(leaving)
    assert failed and all(gateway.inside.sessions.has(name) for name in names)


async def test_a_session_that_is_being_made_is_waited_for_and_goes_too(
    gateway: RunningGateway, leaving: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    making, may_make = asyncio.Event(), asyncio.Event()

    async def slowly(*_services: object) -> dict[str, str]:
        making.set()
        await may_make.wait()
        return {}

    monkeypatch.setattr(leaving.inside.registry, "missing", slowly)
    made = asyncio.create_task(made_in(leaving, 1))
    await making.wait()
    left = drain(leaving)
    await until(lambda: leaving.inside.sessions.draining)
    may_make.set()
    [name] = await made
    await left
    assert gateway.inside.sessions.has(name)


async def test_who_comes_as_a_gateway_is_told_to_end_is_told_so_and_not_that_it_is_full(
    leaving: RunningGateway, doubles: Doubles, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubles.script.slots = 0
    await leaving.inside.registry.refresh()
    refresh = leaving.inside.registry.refresh

    async def told_to_end_meanwhile(**arguments: Any) -> None:
        leaving.inside.sessions.leaving.set()
        await refresh(**arguments)

    monkeypatch.setattr(leaving.inside.registry, "refresh", told_to_end_meanwhile)
    with pytest.raises(GatewayError, match="about to end"):
        await made_in(leaving, 1)


async def test_a_session_whose_stages_take_long_at_the_peer_is_there_alone(
    gateway: RunningGateway,
    leaving: RunningGateway,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "TAKE_S", 1.0)
    [name] = await made_in(leaving, 1)
    doubles.script.may_attach.clear()
    await drain(leaving, 3.0)
    assert not leaving.inside.sessions.all()
    session = gateway.inside.sessions.get(name)
    doubles.script.may_attach.set()
    await until(lambda: session.stages.attached and doubles.leases() == 4)


async def test_a_request_without_a_session_is_waited_for(
    leaving: RunningGateway, doubles: Doubles
) -> None:
    face = doubles.running["face"]
    assert isinstance(face, FaceDouble)
    form: dict[str, Any] = {"data": {"name": "slow"}, "files": {"photo": ("x", b"slow")}}
    async with httpx.AsyncClient(base_url=leaving.url, trust_env=False, verify=False) as http:
        making = asyncio.create_task(http.post("/v1/avatars", **form))
        await until(lambda: face.creating)
        left = drain(leaving)
        await until(lambda: leaving.inside.sessions.draining)
        assert not left.done()
        making.cancel()
        await left
