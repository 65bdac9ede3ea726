"""A gateway that dies without a word: another one goes on with its sessions."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import websockets

from gateway.peers import standing_in
from gateway.peers.handover import SessionRecord
from gateway.peers.peers import Peer
from gateway.peers.standing_in import StandingIn, looked_after
from gateway.session.session import Session
from tests.gateway import conftest
from tests.gateway.conftest import RunningGateway, eventually, until
from tests.gateway.doubles import Doubles
from tests.gateway.peers.test_handover import HERE, begun, beside, drain, joined, made_in
from tests.gateway.visiting import collect
from visavis.client import GatewayClient, GatewayError, GatewaySession
from visavis.serving.errors import BusError, VisavisError
from visavis.wire.bucket import Records
from visavis.wire.subjects import SESSIONS, begun_key, handover_subject, session_key

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Rig(conftest.Rig):
    """Its bus keeps things."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.nats.process.storage = folder / "kept"

    async def kept(self, key: str) -> Any:
        """What the bus has under a key of `SESSIONS`; None: nothing, or that it has ended."""
        there = await Records(self.bus, SESSIONS).get(key)
        return json.loads(there.content) if there is not None and there.content else None

    async def writer_of(self, key: str) -> str:
        """The gateway that has written it last; "": it is not there."""
        there = await Records(self.bus, SESSIONS).get(key)
        return "" if there is None else there.writer

    async def keeps(self, *sessions: str) -> None:
        """Returns once it has a record of each."""

        async def look() -> bool:
            return all([await self.kept(session_key(session)) for session in sessions])

        await eventually(look)


RIG = Rig


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_in, "LOOK_S", 0.1)
    monkeypatch.setattr(standing_in, "NOTES_S", 0.0)


@pytest_asyncio.fixture(loop_scope="module")
async def dying(rig: Rig, gateway: RunningGateway) -> AsyncIterator[RunningGateway]:
    async with beside(gateway, rig) as other:
        yield other


async def die(gateway: RunningGateway) -> None:
    """As after a SIGKILL: nobody hears of it any more."""
    await gateway.inside.registry.close()
    await gateway.inside.bus.close()


def name_of(gateway: RunningGateway) -> str:
    return gateway.inside.peers.name


async def known(client: GatewayClient, name: str) -> None:
    """Returns once its gateway knows it; as clients do, asks again where the bus was too slow."""
    while True:
        try:
            told = await client.call("GET", f"/v1/sessions/{name}")
            assert told.json()["id"] == name
            return
        except GatewayError as refused:
            if refused.code != "stage_lost":
                raise


async def found(client: GatewayClient, name: str) -> GatewaySession:
    """Joined, likewise."""
    while True:
        try:
            return await joined(client, name)
        except websockets.InvalidStatus as refused:
            if refused.response.status_code != 503:
                raise


ALL = "abcdefghij"


@pytest.mark.parametrize(
    ("own", "owners", "known", "watched"),
    [
        ("a", "", "", ""),
        ("a", "b", "b", "b"),
        ("a", "bcdefghij", ALL, "bcd"),
        ("i", "abcdefghj", ALL, "jab"),
        ("e", "abj", ALL, "jab"),
        ("a", "bcdefghij", "abdefghj", "bcdi"),
        ("h", "abcdefgij", "ah", "ijabcdefg"),
    ],
)
async def test_each_gateway_looks_after_the_next_three_and_those_that_are_not_known(
    own: str, owners: str, known: str, watched: str
) -> None:
    assert "".join(looked_after(own, owners, known)) == watched


async def test_whichever_three_of_ten_die_at_once_are_missed_before_anybody_knows() -> None:
    for dead in combinations(ALL, 3):
        alive = [own for own in ALL if own not in dead]
        seen = [looked_after(own, [o for o in ALL if o != own], ALL) for own in alive]
        assert {owner for owners in seen for owner in owners} >= set(dead)


async def test_its_sessions_go_on_where_they_stood(
    gateway: RunningGateway,
    dying: RunningGateway,
    rig: Rig,
    client: GatewayClient,
    doubles: Doubles,
) -> None:
    async with GatewayClient(dying.url) as theirs:
        made = await theirs.call("POST", "/v1/sessions", json={"persona": "A sage."}, headers=HERE)
        name = made.json()["id"]
        session = await joined(theirs, name)
        await session.ask("Who are you?")
        await collect(session, "finished")
        first, doubles.script.answer = doubles.script.answer, "It is a test of many words."
        doubles.script.voice_s = 20.0
        await session.ask("What is it?")
        await collect(session, "speaking")

        async def written() -> bool:
            record = await rig.kept(session_key(name))
            return len(record["said"]) == 3 and bool(await rig.kept(begun_key(name)))

        await eventually(written)
        await die(dying)
        await session.aclose()
    doubles.script.voice_s = 0.5
    session = await found(client, name)
    assert gateway.inside.sessions.has(name)
    async with client.connect(f"/v1/sessions/{name}/media?role=viewer"):
        # The answer goes on: it was written already, and nothing of it is asked for again.
        events = await collect(session, "finished")
    replaced, opened, *_ = [event for event in events if event["type"] == "turn"]
    assert (replaced["event"], opened["event"]) == ("replaced", "opened")
    assert not any(event["type"] == "transcript" for event in events)
    turns = (await client.call("GET", f"/v1/sessions/{name}/turns")).json()
    assert replaced["turn"] not in [turn["turn"] for turn in turns]
    assert (turns[-1]["transcript"], turns[-1]["answer"]) == ("What is it?", doubles.script.answer)
    assert len(doubles.seen.prompts) == 2
    assert doubles.seen.of("tts", "resume")[-1].resume.text == doubles.script.answer
    async with client.connect(f"/v1/sessions/{name}/media?role=viewer"):
        await session.ask("And now?")
        await collect(session, "finished")
    system, *said = doubles.seen.prompts[-1]
    assert "A sage." in system[1]
    answer = doubles.script.answer
    assert [text for _, text in said] == ["Who are you?", first, "What is it?", answer, "And now?"]
    await session.aclose()


async def test_half_an_answer_outlives_the_next_gateway_as_well(
    gateway: RunningGateway,
    dying: RunningGateway,
    rig: Rig,
    client: GatewayClient,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heir, own = await begun(rig), gateway.inside.peers
    missed = own.is_gone
    monkeypatch.setattr(own, "is_gone", nobody)  # the other one is to be the heir
    (name,) = await made_in(dying, 1)
    doubles.script.voice_s = 20.0
    async with GatewayClient(dying.url) as theirs:
        session = await joined(theirs, name)
        await session.ask("What is it?")
        await collect(session, "speaking")
        await eventually(lambda: rig.kept(begun_key(name)))
        await die(dying)
        await session.aclose()
    await until(lambda: heir.inside.sessions.has(name))
    async with GatewayClient(heir.url) as theirs:
        await theirs.call("PATCH", f"/v1/sessions/{name}", json={"speed": 1.1})

    async def written() -> bool:
        return bool((await rig.kept(session_key(name)))["options"]["speed"] == 1.1)

    await eventually(written)
    assert await rig.writer_of(begun_key(name)) == name_of(heir)
    await die(heir)
    monkeypatch.setattr(own, "is_gone", missed)
    session = await found(client, name)
    async with client.connect(f"/v1/sessions/{name}/media?role=viewer"):
        await collect(session, "replaced")
        (resumed,) = await until(lambda: doubles.seen.of("tts", "resume"))
    assert resumed.resume.text == doubles.script.answer
    assert len(doubles.seen.prompts) == 1
    (turn,) = (await client.call("GET", f"/v1/sessions/{name}/turns")).json()
    assert (turn["transcript"], turn["answer"]) == ("What is it?", doubles.script.answer)
    await session.aclose()
    await heir.stop()


async def nobody(owner: str) -> bool:
    """As if none were gone."""
    return False


async def test_what_is_handed_over_is_its_heir_s_before_its_gateway_knows(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one may be gone at once: whoever misses it finds nothing under its name."""
    (name,) = await made_in(dying, 1)
    await rig.keeps(name)
    tell, writers = dying.inside.peers.tell, list[str]()

    async def telling(peer: Peer, message: dict[str, Any]) -> None:
        await tell(peer, message)
        writers.append(await rig.writer_of(session_key(name)))

    monkeypatch.setattr(dying.inside.peers, "tell", telling)
    await drain(dying)
    assert writers == [name_of(gateway)]


async def test_what_was_handed_over_to_another_one_meanwhile_is_not_taken_any_more(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by one that was frozen: it reads late what was meant for it."""
    (name,) = await made_in(dying, 1)
    await rig.keeps(name)
    messages: list[dict[str, Any]] = []
    tell = dying.inside.peers.tell

    async def telling(peer: Peer, message: dict[str, Any]) -> None:
        messages.append(message)
        await tell(peer, message)

    monkeypatch.setattr(dying.inside.peers, "tell", telling)
    await drain(dying)
    async with GatewayClient(gateway.url) as client:
        await client.call("PATCH", f"/v1/sessions/{name}", json={"speed": 1.1})
    late = await begun(rig)
    try:
        payload = json.dumps(messages[0]).encode()
        subject = handover_subject(name_of(late))
        answer = await rig.bus.client.request(subject, payload, timeout=20)
        assert b"others have written" in answer.data
        assert [door.inside.sessions.has(name) for door in (gateway, late)] == [True, False]
    finally:
        await late.stop()
    assert await rig.writer_of(session_key(name)) == name_of(gateway)


async def test_what_could_not_be_handed_over_is_kept_by_its_gateway_and_outlives_it(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = await made_in(dying, 1)
    await rig.keeps(name)
    take, tell, had = gateway.inside.handover.take, dying.inside.peers.tell, list[bool]()

    async def failing(record: SessionRecord) -> Session:
        if not had:
            raise BusError("nobody answers")
        return await take(record)

    async def telling(peer: Peer, message: dict[str, Any]) -> None:
        try:
            await tell(peer, message)
        except VisavisError:
            had.extend(door.inside.sessions.has(name) for door in (gateway, dying))
            await die(dying)
            raise

    monkeypatch.setattr(gateway.inside.handover, "take", failing)
    monkeypatch.setattr(dying.inside.peers, "tell", telling)
    draining = drain(dying)
    await until(lambda: had)
    async with GatewayClient(gateway.url) as client:
        await known(client, name)
    assert had == [False, True]
    draining.cancel()


async def test_what_is_handed_over_while_the_bus_keeps_nothing_is_at_one_gateway_alone(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_in, "_NOTED_S", 0.05)
    names = await made_in(dying, 3)
    await rig.keeps(*names)
    put, answers = Records.put, asyncio.Event()

    async def unanswered(records: Records, key: str, *told: Any) -> int:
        await answers.wait()
        return await put(records, key, *told)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Records, "put", unanswered)
        await drain(dying, 12.0)
        answers.set()
    for name in names:
        assert [door.inside.sessions.has(name) for door in (gateway, dying)] == [True, False]


async def test_a_session_that_is_too_large_for_a_message_keeps_no_other_from_being_written(
    gateway: RunningGateway, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_in, "_PAUSE_S", 0.0)
    large, other = await made_in(gateway, 2)
    await rig.keeps(large, other)
    put, writings = Records.put, Counter[str]()

    async def counted(records: Records, key: str, content: bytes, *told: Any) -> int:
        writings[key] += 1
        too_much = b" " * 1_100_000 if key == session_key(large) else b""
        return await put(records, key, content + too_much, *told)

    monkeypatch.setattr(Records, "put", counted)
    async with GatewayClient(gateway.url) as client:
        for session in (large, other):
            await client.call("PATCH", f"/v1/sessions/{session}", json={"speed": 1.1})
    await until(lambda: writings[session_key(large)] > 3)
    assert writings[session_key(other)] == 1


async def test_what_has_ended_does_not_come_back(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig
) -> None:
    first, second = await made_in(dying, 2)
    await rig.keeps(first, second)
    async with GatewayClient(dying.url) as theirs:
        await theirs.call("DELETE", f"/v1/sessions/{first}")

    async def forgotten() -> bool:
        return await rig.kept(session_key(first)) is None

    await eventually(forgotten)
    await die(dying)
    async with GatewayClient(gateway.url) as ours:
        await ours.call("GET", f"/v1/sessions/{second}")
        with pytest.raises(GatewayError, match="there is no"):
            await ours.call("GET", f"/v1/sessions/{first}")


async def test_a_client_of_realtime_takes_its_session_with_it(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig
) -> None:
    async with websockets.connect(f"{dying.url.replace('http', 'ws')}/v1/realtime") as socket:
        await socket.recv()
        (its,) = dying.inside.sessions.all()
        (name,) = await made_in(dying, 1)
        await rig.keeps(name)
        assert await rig.kept(session_key(its.id)) is None


async def test_one_that_ends_in_order_takes_its_sessions_with_it(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig
) -> None:
    (name,) = await made_in(dying, 1)
    await rig.keeps(name)
    await dying.stop()
    owner = name.rpartition("-")[2]
    assert [await rig.kept(key) for key in (owner, session_key(name))] == [None, None]
    async with GatewayClient(gateway.url) as ours:
        with pytest.raises(GatewayError, match="gone"):
            await ours.call("GET", f"/v1/sessions/{name}")


async def test_one_that_is_started_after_it_goes_on_where_nobody_had_room(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig, doubles: Doubles
) -> None:
    """As where it was alone."""
    doubles.script.slots = 10
    await made_in(gateway, 3)
    names = await made_in(dying, 2, persona="A sage.")
    await rig.keeps(*names)
    await die(dying)
    async with GatewayClient(gateway.url) as full:
        with pytest.raises(GatewayError) as refused:
            await full.call("GET", f"/v1/sessions/{names[0]}")
        assert refused.value.code == "stage_lost", "who asks again may find it"
    after = await begun(rig)
    try:
        async with GatewayClient(after.url) as client:
            for name in names:
                told = (await client.call("GET", f"/v1/sessions/{name}")).json()
                assert told["persona"] == "A sage."
    finally:
        await after.stop()


async def test_of_more_that_are_asked_for_at_once_than_it_has_room_for_others_take_the_rest(
    gateway: RunningGateway,
    dying: RunningGateway,
    rig: Rig,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nothing(*_: object) -> bool:
        return False

    monkeypatch.setattr(StandingIn, "_take_all", nothing)
    doubles.script.slots = 10
    other = await begun(rig)
    try:
        await made_in(gateway, 2)  # of three
        names = await made_in(dying, 3)
        await rig.keeps(*names)
        await die(dying)
        async with GatewayClient(gateway.url) as one, GatewayClient(other.url) as two:
            asked = (one.call("GET", f"/v1/sessions/{name}") for name in names)
            await asyncio.gather(*asked, return_exceptions=True)
            for name in names:
                written = await rig.writer_of(session_key(name)) == name_of(gateway)
                assert written == gateway.inside.sessions.has(name)
            await asyncio.gather(*(known(two, name) for name in names))
    finally:
        await other.stop()


async def test_of_two_who_are_asked_at_once_one_goes_on(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig
) -> None:
    other = await begun(rig)
    try:
        names = await made_in(dying, 3)
        await rig.keeps(*names)
        await die(dying)
        async with GatewayClient(gateway.url) as one, GatewayClient(other.url) as two:
            await asyncio.gather(*(known(c, name) for name in names for c in (one, two)))
        for name in names:
            assert [g.inside.sessions.has(name) for g in (gateway, other)].count(True) == 1
    finally:
        await other.stop()


async def test_one_that_was_taken_for_dead_lets_go(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = await made_in(dying, 1)
    await rig.keeps(name)

    async def cut_off(owner: str) -> bool:
        return True

    monkeypatch.setattr(gateway.inside.peers, "is_gone", cut_off)
    async with GatewayClient(dying.url) as theirs:
        session = await joined(theirs, name)
        await until(lambda: gateway.inside.sessions.has(name))
        await theirs.call("PATCH", f"/v1/sessions/{name}", json={"speed": 1.1})
        await session._events.wait_closed()
        assert session._events.close_code == 1012
        await session.aclose()
    assert not dying.inside.sessions.has(name)
    assert await rig.writer_of(session_key(name)) == name_of(gateway)


async def test_what_was_deleted_elsewhere_ends_at_one_that_was_taken_for_dead(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the bus was cut in two: who could not ask meanwhile writes all anew."""
    (name,) = await made_in(dying, 1)
    await rig.keeps(name)

    async def cut_off(owner: str) -> bool:
        return owner == name_of(dying)

    async def unknown(owner: str) -> bool:
        raise BusError("nobody leads")

    monkeypatch.setattr(gateway.inside.peers, "is_gone", cut_off)
    await until(lambda: gateway.inside.sessions.has(name))
    await gateway.inside.sessions.delete(name)
    monkeypatch.setattr(dying.inside.peers, "is_gone", unknown)
    await until(lambda: not dying.inside.sessions.has(name))
    assert not gateway.inside.sessions.has(name)


@pytest.mark.parametrize("looks", [True, False])
async def test_a_session_that_could_not_be_taken_at_once_is_taken_the_next_time(
    looks: bool,
    gateway: RunningGateway,
    dying: RunningGateway,
    rig: Rig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether somebody asks for it then or not."""
    (name,) = await made_in(dying, 1)
    await rig.keeps(name)
    handover, failed = gateway.inside.handover, asyncio.Event()
    take = handover.take

    async def failing(record: SessionRecord) -> Session:
        if failed.is_set():
            return await take(record)
        failed.set()
        raise BusError("nobody answers")

    monkeypatch.setattr(handover, "take", failing)
    if not looks:

        async def nothing(*_: object) -> bool:
            return False

        monkeypatch.setattr(StandingIn, "_take_all", nothing)
    await die(dying)
    if looks:
        await until(lambda: gateway.inside.sessions.has(name))
        assert failed.is_set()
        return
    async with GatewayClient(gateway.url) as client:
        with pytest.raises(GatewayError) as refused:
            await client.call("GET", f"/v1/sessions/{name}")
        assert failed.is_set() and refused.value.code == "stage_lost"
        await client.call("GET", f"/v1/sessions/{name}")


async def test_who_asks_while_the_bus_cannot_tell_is_told_to_ask_again(
    gateway: RunningGateway, dying: RunningGateway, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = await made_in(dying, 1)
    await rig.keeps(name)
    await die(dying)

    async def nobody_leads(*_: object) -> None:
        raise BusError("nobody leads")

    async with GatewayClient(gateway.url) as client:
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(
                gateway.inside.peers, "is_gone", nobody_leads
            )  # nor are they looked for
            meanwhile.setattr(Records, "get", nobody_leads)
            with pytest.raises(GatewayError) as refused:
                await client.call("GET", f"/v1/sessions/{name}")
        assert refused.value.code == "stage_lost"
        await client.call("GET", f"/v1/sessions/{name}")


async def test_a_bus_that_has_lost_its_memory_is_told_anew(
    gateway: RunningGateway, rig: Rig
) -> None:
    names = await made_in(gateway, 2)
    await rig.keeps(*names)
    await asyncio.to_thread(rig.nats.restart)
    await until(lambda: rig.bus.connected)
    await rig.keeps(*names)
    owner = names[0].rpartition("-")[2]

    async def noted() -> bool:
        return await rig.kept(owner) is not None

    await eventually(noted)
