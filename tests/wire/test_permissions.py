"""Who may say and hear what on a real nats-server: for each user each subject is tried."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterator

import nats.errors
import pytest

from tests.conftest import PASSWORDS, connected, server_with_users
from visavis.serving.discovery import Registration, discover
from visavis.serving.errors import AlreadyExistsError, BusError
from visavis.tools.stack.nats_server import NatsServer
from visavis.wire.bucket import Bucket, Records
from visavis.wire.bus import Bus
from visavis.wire.permissions import BUCKETS, PROCESSES, RECORDS, Login, User
from visavis.wire.subjects import Kind

STAGES = ("asr", "llm", "tts", "face")
EVERYBODY = frozenset({*STAGES, "gateway"})
NOBODY: frozenset[str] = frozenset()

# Written down once more, and not read from the code: publishers and hearers of every subject.
CHUNKS = {
    "mic": ({"gateway"}, {"asr"}),
    "transcript": ({"asr"}, {"gateway"}),
    "turn": ({"gateway"}, {"llm", "tts", "face"}),
    "tokens": ({"llm", "gateway"}, {"tts", "gateway"}),
    "voice": ({"tts", "gateway"}, {"face", "gateway"}),
    "mel": ({"tts"}, {"face", "gateway"}),
    "video": ({"face"}, {"gateway"}),
    "face": ({"face"}, {"gateway"}),
    "clock": ({"gateway"}, {"tts", "face"}),
}
KEEPERS = {
    "visavis-avatars": "face",
    "visavis-characters": "face",
    "visavis-learned-answers": "gateway",
    "visavis-bundles": "operator",
}
SESSIONS = "visavis-sessions"
READERS = {"visavis-bundles": {"asr", "tts", "face"}}


def subjects() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Every subject of the product and what NATS itself listens to: who says, who hears it."""
    table = {f"vv.s1.7.{kind}": both for kind, both in CHUNKS.items()}
    table |= {f"vv.*.*.{kind}": (NOBODY, both[1]) for kind, both in CHUNKS.items()}
    table |= {s: (NOBODY, NOBODY) for s in (">", "vv.>", "vv.*.*.*", "vv.s1.>", "vv.s1.7.other")}
    table |= {s: (NOBODY, NOBODY) for s in ("_INBOX.>", "_INBOX.a", "other", "$SYS.>", "$JS.>")}
    table["vv.starting"] = (set(STAGES), NOBODY)
    for subject in ("vv.gateway.0a1b2c3d", "vv.gateway.0a1b2c3d.handover"):
        table[subject] = ({"gateway"}, {"gateway"})
    for name in EVERYBODY:
        table[f"vv.capacity.{name}"] = ({name}, EVERYBODY)
        table[f"_INBOX_{name}.a.b"] = (NOBODY, {name})
        table[f"_INBOX_{name}.>"] = (NOBODY, {name})
        table[f"$SRV.INFO.visavis-{name}"] = ({"gateway"}, {name})
        table[f"$SRV.PING.visavis-{name}"] = (NOBODY, {name})
        table[f"$SRV.STATS.visavis-{name}.id"] = (NOBODY, {name})
    for verb in ("PING", "INFO", "STATS"):
        table[f"$SRV.{verb}"] = (NOBODY, EVERYBODY)
    for bucket, keeper in KEEPERS.items():
        for verb in ("INFO", "MSG.GET"):
            readers = frozenset({keeper}) | READERS.get(bucket, NOBODY)
            table[f"$JS.API.STREAM.{verb}.OBJ_{bucket}"] = (readers, NOBODY)
        for verb in ("MSG.DELETE", "PURGE"):
            table[f"$JS.API.STREAM.{verb}.OBJ_{bucket}"] = ({keeper}, NOBODY)
        for part in ("C", "M"):
            table[f"$O.{bucket}.{part}.one"] = ({keeper}, NOBODY)
        for verb in ("STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "CONSUMER.CREATE"):
            table[f"$JS.API.{verb}.OBJ_{bucket}"] = (NOBODY, NOBODY)
    for verb in ("MSG.GET", "MSG.DELETE"):
        table[f"$JS.API.STREAM.{verb}.KV_{SESSIONS}"] = ({"gateway"}, NOBODY)
    for verb in ("INFO", "CREATE", "UPDATE", "DELETE", "PURGE"):
        table[f"$JS.API.STREAM.{verb}.KV_{SESSIONS}"] = (NOBODY, NOBODY)
    table[f"$JS.API.CONSUMER.CREATE.KV_{SESSIONS}"] = (NOBODY, NOBODY)
    for key in ("0a1b2c3d", "0a1b2c3d.one-0a1b2c3d", "0a1b2c3d.one-0a1b2c3d.begun", ">"):
        table[f"$KV.{SESSIONS}.{key}"] = ({"gateway"}, NOBODY)
    for verb in ("INFO", "STREAM.NAMES", "STREAM.CREATE.all", "STREAM.MSG.GET.all"):
        table[f"$JS.API.{verb}"] = (NOBODY, NOBODY)
    return {s: (frozenset(says), frozenset(hears)) for s, (says, hears) in table.items()}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with server_with_users(tmp_path_factory.mktemp("closed")) as server:
        yield server


class Visitor:
    """One user's connection, and what the server has refused it, as the client tells: in small
    letters.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.refused: set[str] = set()

        async def refuse(error: Exception) -> None:
            found = re.search(r'for (Publish|Subscription) to "([^"]+)"', str(error), re.I)
            assert found is not None, error
            self.refused.add(found[2])

        bus.client._error_cb = refuse


@pytest.fixture
async def visitor(closed: NatsServer, request: pytest.FixtureRequest) -> AsyncIterator[Visitor]:
    bus = await connected(closed, request.param)
    yield Visitor(bus)
    await bus.close()


each_user = pytest.mark.parametrize("visitor", PROCESSES, indirect=True)


@each_user
async def test_a_user_says_what_its_stage_says_and_nothing_else(visitor: Visitor) -> None:
    user, table = visitor.bus.login.user, subjects()  # type: ignore[union-attr]
    said = {subject for subject in table if "*" not in subject and ">" not in subject}
    for subject in said:
        await visitor.bus.client.publish(subject, b"")
    await visitor.bus.flush()
    foreign = {subject.lower() for subject in said if user not in table[subject][0]}
    assert visitor.refused == foreign


@each_user
async def test_a_user_hears_what_its_stage_reads_and_nothing_else(visitor: Visitor) -> None:
    user, table = visitor.bus.login.user, subjects()  # type: ignore[union-attr]
    for subject in table:
        await visitor.bus.client.subscribe(subject)
    await visitor.bus.flush()
    foreign = {subject.lower() for subject in table if user not in table[subject][1]}
    assert visitor.refused == foreign


def test_every_kind_of_chunk_and_every_bucket_is_in_the_table() -> None:
    assert set(CHUNKS) == set(Kind)
    assert BUCKETS == KEEPERS
    assert RECORDS == {SESSIONS: "gateway"}


@pytest.mark.parametrize("visitor", [User.OPERATOR], indirect=True)
async def test_the_operator_hears_all_and_takes_no_part(visitor: Visitor) -> None:
    for subject in subjects():
        await visitor.bus.client.subscribe(subject)
    await visitor.bus.flush()
    assert visitor.refused == set()
    said = {f"vv.s1.7.{kind}" for kind in CHUNKS} | {"vv.gateway.0a1b2c3d", "_INBOX_gateway.a"}
    said |= {f"$O.{bucket}.C.one" for bucket, keeper in KEEPERS.items() if keeper != "operator"}
    for subject in said:
        await visitor.bus.client.publish(subject, b"")
    await visitor.bus.flush()
    assert visitor.refused == {subject.lower() for subject in said}


async def test_none_is_let_in_that_the_server_does_not_know(closed: NatsServer) -> None:
    with pytest.raises(BusError, match="nats_password_file"):
        await Bus.connect(closed.url, name="test", wait_s=20)
    with pytest.raises(BusError, match="user llm") as refused:
        wrong = Login(User.LLM, PASSWORDS[User.TTS])
        await Bus.connect(closed.url, name="test", wait_s=20, login=wrong)
    assert PASSWORDS[User.TTS] not in f"{refused.value!r} {wrong!r}"


async def test_what_the_operator_shares_services_read_and_cannot_change(
    closed: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, tts = await connected(closed, User.OPERATOR), await connected(closed, User.TTS)
    await Bucket(operator, "visavis-bundles", 100).put("joe", b"a voice")
    bucket = Bucket(tts, "visavis-bundles", 100)
    assert await bucket.get("joe") == b"a voice"
    monkeypatch.setattr("visavis.wire.bucket._ASK_S", 0.2)  # who is not let is not answered
    changes = bucket.put("joe", b"another one"), bucket.delete("joe", overwrite=False)
    for told in await asyncio.gather(*changes, return_exceptions=True):
        assert isinstance(told, BusError) and "does not let the user tts" in str(told)
    assert await bucket.get("joe") == b"a voice"
    for bus in (operator, tts):
        await bus.close()


async def test_what_is_kept_is_read_and_written_without_a_consumer(closed: NatsServer) -> None:
    operator, face = await connected(closed, User.OPERATOR), await connected(closed, User.FACE)
    bucket = Bucket(face, "visavis-avatars", 1_000_000)
    with pytest.raises(BusError, match="its operator alone"):
        await bucket.index()
    for name in BUCKETS:
        await Bucket(operator, name, 0).make()
    assert await bucket.index() == {}
    large = bytes(range(256)) * 1500  # several messages of 128 KiB
    digests = {"ann": await bucket.put("ann", large), "bob": await bucket.put("bob", b"")}
    assert await bucket.index() == digests
    assert [await bucket.get(name) for name in ("ann", "bob", "cay")] == [large, b"", None]
    digests["ann"] = await bucket.put("ann", b"small")
    await bucket.put("bob", b"a face that nobody may see any more" * 9)
    await bucket.delete("bob")
    assert closed.process.storage is not None
    files = [path.read_bytes() for path in closed.process.storage.rglob("*") if path.is_file()]
    assert any(b"small" in content for content in files), "they are read as they are"
    assert not any(b"a face that nobody may see" in content for content in files)
    assert await bucket.index() == digests | {"bob": ""}
    assert await bucket.get("ann") == b"small"
    for bus in (operator, face):
        await bus.close()


async def test_records_are_the_gateways_alone_and_of_two_writings_one_counts(
    closed: NatsServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = (User.OPERATOR, User.GATEWAY, User.GATEWAY, User.FACE)
    operator, one, other, face = [await connected(closed, user) for user in users]
    ours, theirs = Records(one, SESSIONS, "one"), Records(other, SESSIONS, "other")
    with pytest.raises(BusError, match="its operator alone"):
        await ours.put("a", b"1")
    assert await Records(operator, SESSIONS).make()
    seq = await ours.put("a.s", b"1", 0)
    assert await ours.put("a.s", b"2", seq) > seq
    for follows in (0, seq):
        with pytest.raises(AlreadyExistsError):
            await theirs.put("a.s", b"3", follows)
    await ours.drop(seq)  # another one has taken its place
    noted = await ours.put("a", b"note")
    largest = bytes(one.client.max_payload - 1000)
    await ours.put("a.s.begun", largest)
    found = await theirs.get("a.s.begun")
    assert found is not None and found.content == largest
    found = await theirs.get("a.s")
    assert found is not None and (found.content, found.writer) == (b"2", "one")
    assert [there.key async for there in theirs.matching("a.*")] == ["a.s"]
    assert [there.key async for there in theirs.matching("*")] == ["a"]
    await theirs.put("b", b"note")
    later = [(there.key, there.writer) async for there in ours.matching("*", noted)]
    assert later == [("b", "other")]
    await theirs.drop(found.seq)
    assert await ours.get("a.s") is None
    monkeypatch.setattr("visavis.wire.bucket._ASK_S", 0.2)  # who is not let is not answered
    with pytest.raises(BusError, match="does not let the user face"):
        await Records(face, SESSIONS).get("a")
    # Who asks again and again tells it once.
    assert not [logged for logged in caplog.records if logged.levelno >= logging.WARNING]
    info = await operator.client.jetstream().stream_info(f"KV_{SESSIONS}")
    assert info.config.storage == "memory"
    for bus in (operator, one, other, face):
        await bus.close()


def registration(bus: Bus, service: str, instance: str) -> Registration:
    return Registration(
        bus,
        service,
        instance=instance,
        addresses={"grpc": "127.0.0.1:5"},
        states=lambda: (),
        wanted_device="",
    )


async def test_a_replica_is_found_by_its_own_user_s_answer_alone(closed: NatsServer) -> None:
    buses = {user: await connected(closed, user) for user in (User.TTS, User.LLM, User.GATEWAY)}
    tts, pretender = registration(buses[User.TTS], "tts", "tts-1"), Visitor(buses[User.LLM])
    false = registration(pretender.bus, "tts", "tts-2")
    await tts.start()
    await false.start()

    async def answer_for_others(message: object) -> None:
        raise AssertionError(f"{message} was heard")

    await pretender.bus.client.subscribe("_INBOX_gateway.>", cb=answer_for_others)
    await pretender.bus.flush()
    assert "_inbox_gateway.>" in pretender.refused
    found = await discover(buses[User.GATEWAY].client, wait_s=0.1)
    assert [replica.instance for replica in found] == ["tts-1"]
    await tts.stop()
    for bus in buses.values():
        await bus.close()


async def test_an_answer_goes_once_to_whoever_has_asked(closed: NatsServer) -> None:
    one, other = [await connected(closed, User.GATEWAY) for _ in range(2)]
    asked = asyncio.Event()

    async def reply(message: object) -> None:
        await message.respond(b"here")  # type: ignore[attr-defined]
        await message.respond(b"and here")  # type: ignore[attr-defined]
        asked.set()

    replying = Visitor(one)
    await one.client.subscribe("vv.gateway.0a1b2c3d", cb=reply)
    await one.flush()
    answer = await other.client.request("vv.gateway.0a1b2c3d", timeout=5)
    assert answer.data == b"here"
    await asked.wait()
    await one.flush()
    assert len(replying.refused) == 1
    with pytest.raises(nats.errors.NoRespondersError):
        await other.client.request("vv.gateway.ffffffff", timeout=5)
    for bus in (one, other):
        await bus.close()
