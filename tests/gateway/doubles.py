"""Doubles of the four services, over real gRPC and a real bus: they work at once and think nothing.

Only what the gateway sees of a service is real: discovery, status, Attach, chunks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
import grpc.aio
import nats.micro
import numpy as np

from tests.gateway.media import PictureEncoder, PoseEncoder, encoder_of, tone
from visavis.serving.lifetime.draining import Phase
from visavis.serving.runtime import SERVER_OPTIONS
from visavis.v1 import (
    asr_pb2_grpc,
    control_pb2,
    face_pb2,
    face_pb2_grpc,
    llm_pb2_grpc,
    tts_pb2,
    tts_pb2_grpc,
)
from visavis.wire.bus import Bus
from visavis.wire.levels import LEVEL
from visavis.wire.media import (
    PcmChunk,
    Place,
    Stamp,
    TokenChunk,
    TranscriptChunk,
    TranscriptEvent,
    VideoChunk,
    VideoCodec,
)
from visavis.wire.subjects import Kind, micro_name

VOICE_RATE_HZ = 24_000
FPS = 25
_LOUD = 1000
_SILENCE_SAMPLES = 1600


def stamps_of(stage: str, *moments: str) -> tuple[Stamp, ...]:
    """What a stage says of a turn's first chunk, all of it now."""
    return tuple(Stamp.now(f"{stage}.first_{moment}") for moment in moments)


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class Script:
    """How the doubles behave; a test changes it before or while they work."""

    answer: str = "Hello there. I am fine."
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Id, name and arguments of what llm calls before its next answer."""
    shown: str = ""
    """Code that llm writes behind its next answers, which is not said."""
    voice_s: float = 0.4
    hears: str = ""
    """What asr says that every burst of sound meant; empty: asr is deaf."""
    slots: int = 4
    level: int = LEVEL
    """What replicas understand that are started from now on."""
    capacity: dict[str, Any] = field(default_factory=dict)
    """What each stage tells that it measures."""
    refuse: dict[str, grpc.StatusCode] = field(default_factory=dict)
    """Status that an Attach of a service, or of one replica by its name, ends with."""
    may_attach: asyncio.Event = field(default_factory=_set)
    """While it is clear, a replica reads who attaches and is not ready."""
    lingers: bool = False
    """A replica has a session whose stream was cut off, not closed, for longer, and refuses it."""
    prerender_fails: bool = False
    network: Callable[[int], Awaitable[int]] | None = None
    """Port by which others reach the one that a replica listens on."""
    silent: set[str] = field(default_factory=set)
    """Services that do no work, and replicas by their names that list nothing."""
    mute: set[str] = field(default_factory=set)
    """Services that do not say how they are; not the face."""
    lost_pictures: int = 0
    """So many of the next pictures never arrive."""
    first_keyframe: bool = True
    """The first picture of a turn is a key frame."""
    unknown_avatar: str = ""
    """One that no face knows any more."""
    loop: str = ""
    """Digest of the loop that the face's idle life repeats; "": it does not."""
    lent_loop: str = "as told"
    """Digest of the loop that it gives who asks."""


@dataclass
class Seen:
    """What the gateway has asked for."""

    requests: list[tuple[str, Any]] = field(default_factory=list)
    attached: dict[str, int] = field(default_factory=dict)
    prompts: list[list[tuple[Any, str]]] = field(default_factory=list)
    prerendered: list[tuple[str, str, float]] = field(default_factory=list)
    """Voice, text and speed."""
    loops: list[str] = field(default_factory=list)
    """Avatars whose loop was asked for."""
    live_pictures: int = 0
    keyframes: int = 0
    rename_within_s: float = 0.0
    """How long an avatar's renaming may take."""

    def of(self, service: str, kind: str) -> list[Any]:
        """Messages of one kind that one service has received."""
        return [r for s, r in self.requests if s == service and r.WhichOneof("request") == kind]


class Double:
    """One replica of one service."""

    name = ""

    def __init__(self, bus: Bus, script: Script, seen: Seen, instance: str) -> None:
        self.bus, self.script, self.seen, self.instance = bus, script, seen, instance
        self.leases = 0
        self._had: set[str] = set()
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        self._micro: Any = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._draining = asyncio.Event()
        self.events: dict[str, asyncio.Queue[control_pb2.AttachEvent]] = {}
        """What a session's lease tells next."""
        self._metadata: dict[str, str] = {}
        self.first_utterance = 1

    async def start(self, port: int = 0) -> None:
        self.register(self._server)
        port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        await self._server.start()
        if self.script.network is not None:
            port = await self.script.network(port)
        address = f"127.0.0.1:{port}"
        self._metadata = {"instance": self.instance, "grpc": address, "device": "cpu"}
        self._metadata["level"] = str(self.script.level)
        self._micro = await nats.micro.add_service(
            self.bus.client,
            name=micro_name(self.name),
            version="0.1.0",
            metadata=self._metadata,
        )

    @property
    def port(self) -> int:
        return int(self._metadata["grpc"].rpartition(":")[2])

    def drain(self) -> None:
        """As on SIGTERM: it takes nothing new and tells its sessions to leave."""
        self._metadata["phase"] = Phase.DRAINING
        self._draining.set()

    async def stop(self) -> None:
        """As after a kill: streams break, nobody answers any more."""
        await self._micro.stop()
        await self.hang_up()

    async def hang_up(self) -> None:
        """No call reaches it any more; it still says that it is there."""
        await self._server.stop(None)

    def register(self, server: grpc.aio.Server) -> None:
        raise NotImplementedError

    async def work(self, session: str, listening: asyncio.Event) -> None:
        """What the stage does while it is attached; it is ready once it is `listening`."""
        listening.set()
        await asyncio.Event().wait()

    async def request(self, session: str, request: Any) -> None:
        """A later message of the stream."""

    def has_room_for(self, session: str) -> bool:
        """For a call beside its lease, or of nobody's: ""."""
        return self.leases < self.script.slots or session in self._had

    def status(self) -> control_pb2.ServiceStatus:
        return control_pb2.ServiceStatus(
            service=self.name,
            instance=self.instance,
            version="0.1.0",
            engines=[
                control_pb2.EngineStatus(
                    bundle="double", backend="none", device="cpu", file="double-q4.gguf"
                )
            ],
            slots=self.script.slots,
            free_slots=self.script.slots - self.leases,
            languages=["en", "zh"],
            capacity=control_pb2.Capacity(
                free_slots=self.script.slots - self.leases, **self.script.capacity
            ),
        )

    async def GetStatus(self, _request: Any, _context: Any) -> Any:
        if self.name in self.script.mute:
            await asyncio.Event().wait()
        return self.status()

    async def Attach(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        config = (await anext(requests)).config
        self.seen.requests.append((self.name, _wrap(config)))
        refuse = self.script.refuse
        status = refuse.get(self.instance, refuse.get(self.name))
        if status is not None:
            await context.abort(status, f"{self.instance} refuses")
        gone = self.script.unknown_avatar
        if gone and self.name == "face" and config.face.avatar == gone:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no avatar {gone!r}")
        if self.leases >= self.script.slots or self._draining.is_set():
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "all slots are taken")
        if self.script.lingers and config.session in self._had:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "it is attached already")
        await self.script.may_attach.wait()
        self.leases += 1
        self._had.add(config.session)
        self.seen.attached[self.name] = self.seen.attached.get(self.name, 0) + 1
        listening = asyncio.Event()
        events = self.events[config.session] = asyncio.Queue()
        if self.name == "asr":
            self.first_utterance = config.first_utterance
        worker = asyncio.create_task(self.work(config.session, listening))
        reader = asyncio.create_task(self._read(config.session, requests))
        told = asyncio.create_task(self._draining.wait())
        tasks: list[asyncio.Task[Any]] = [worker, reader, told]
        try:
            await listening.wait()
            yield control_pb2.AttachEvent(ready=control_pb2.AttachReady(instance=self.instance))
            while not (reader.done() or told.done()):
                coming = asyncio.create_task(events.get())
                tasks.append(coming)
                await asyncio.wait({reader, told, coming}, return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    yield coming.result()
            if not reader.done():
                yield control_pb2.AttachEvent(draining=control_pb2.Draining())
            await reader
            self._had.discard(config.session)
        finally:
            self.leases -= 1
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, session: str, requests: Any) -> None:
        async for request in requests:
            self.seen.requests.append((self.name, request))
            await self.request(session, request)


class _Config:
    """A first message, so that Seen.of finds it like the others."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def WhichOneof(self, _name: str) -> str:
        return "config"


def _wrap(config: Any) -> _Config:
    return _Config(config)


class AsrDouble(Double, asr_pb2_grpc.SpeechRecognitionServicer):
    name = "asr"

    def __init__(self, bus: Bus, script: Script, seen: Seen, instance: str) -> None:
        super().__init__(bus, script, seen, instance)
        self._waits: defaultdict[str, int] = defaultdict(lambda: _SILENCE_SAMPLES)
        """Of each session: samples of silence that end what is said."""

    async def request(self, session: str, request: Any) -> None:
        told = request.listening.endpointing
        if request.WhichOneof("request") == "listening" and told.HasField("silence_ms"):
            self._waits[session] = told.silence_ms * _SILENCE_SAMPLES // 100

    async def work(self, session: str, listening: asyncio.Event) -> None:
        """Loud sound is speech; 100 ms of silence end it, or as many as it was told later."""
        seq, utterance, silent = 0, self.first_utterance - 1, -1

        async def say(event: TranscriptEvent, text: str, pts: int) -> None:
            nonlocal seq
            place, end = Place(session, 0, seq, pts), pts - self._waits[session]
            chunk = TranscriptChunk(place, event, utterance, text, speech_end_samples=end)
            await self.bus.publish(Kind.TRANSCRIPT, chunk)
            seq += 1

        async with self.bus.subscribe(session, Kind.MIC) as sounds:
            listening.set()
            async for chunk in sounds:
                assert isinstance(chunk, PcmChunk)
                pts = chunk.place.pts + len(chunk.pcm)
                if np.abs(chunk.pcm.astype(int)).max(initial=0) > _LOUD:
                    if silent < 0:
                        utterance += 1
                        await say(TranscriptEvent.SPEECH_STARTED, "", pts)
                    silent = 0
                elif silent >= 0:
                    silent += len(chunk.pcm)
                    if silent >= self._waits[session]:
                        silent = -1
                        await say(TranscriptEvent.FINAL, self.script.hears, pts)

    def register(self, server: grpc.aio.Server) -> None:
        asr_pb2_grpc.add_SpeechRecognitionServicer_to_server(self, server)


class LlmDouble(Double, llm_pb2_grpc.LanguageModelServicer):
    name = "llm"
    run, seq = 0, 0
    """Of the newest turn: the run of it, and the next chunk."""

    def register(self, server: grpc.aio.Server) -> None:
        llm_pb2_grpc.add_LanguageModelServicer_to_server(self, server)

    async def request(self, session: str, request: Any) -> None:
        if request.WhichOneof("request") not in ("begin", "go_on"):
            return
        begin = request.begin if request.HasField("begin") else request.go_on
        if request.HasField("begin"):
            self.run, self.seq = request.begin.run, 0
        self.seen.prompts.append([(m.role, m.content) for m in begin.request.messages])
        if self.name in self.script.silent:
            return
        if self.script.calls:
            calls = [
                control_pb2.ToolCall(id=i, name=name, arguments_json=json)
                for i, name, json in self.script.calls
            ]
            self.script.calls = []
            called = control_pb2.ToolsCalled(turn=begin.turn, calls=calls, run=self.run)
            await self.events[session].put(control_pb2.AttachEvent(tools_called=called))
            return
        words = self.script.answer.split(" ")
        for i, word in enumerate(words):
            text = word if i == 0 else f" {word}"
            stamps = () if i else stamps_of("llm", "got", "started", "finished")
            place = Place(session, begin.turn, 0, len(" ".join(words[:i])), stamps=stamps)
            await self._write(TokenChunk(place, text))
        if shown := self.script.shown:
            for part in (shown[:3], shown[3:]):
                await self._write(TokenChunk(Place(session, begin.turn, 0, 0), part, 1, "python"))
        await self._write(TokenChunk(Place(session, begin.turn, 0, 0, last=True), ""))

    async def _write(self, chunk: TokenChunk) -> None:
        place, self.seq = replace(chunk.place, seq=self.seq), self.seq + 1
        await self.bus.publish(Kind.TOKENS, replace(chunk, place=place, run=self.run))


class TtsDouble(Double, tts_pb2_grpc.SpeechSynthesisServicer):
    name = "tts"

    def __init__(self, bus: Bus, script: Script, seen: Seen, instance: str) -> None:
        super().__init__(bus, script, seen, instance)
        self.runs: defaultdict[tuple[str, int], int] = defaultdict(int)
        """Of the voice, by session and turn."""

    def register(self, server: grpc.aio.Server) -> None:
        tts_pb2_grpc.add_SpeechSynthesisServicer_to_server(self, server)

    async def work(self, session: str, listening: asyncio.Event) -> None:
        async with self.bus.subscribe(session, Kind.TOKENS) as tokens:
            listening.set()
            async for chunk in tokens:
                if chunk.place.last and self.name not in self.script.silent:
                    await self._speak(session, chunk.place.turn)

    async def request(self, session: str, request: Any) -> None:
        if request.WhichOneof("request") == "resume":
            resume, turn = request.resume, request.resume.turn.header.turn
            self.runs[session, turn] = resume.run
            if resume.complete:
                await self._speak(session, turn, resume.samples)

    async def _speak(self, session: str, turn: int, said: int = 0) -> None:
        pcm = tone(round(self.script.voice_s * VOICE_RATE_HZ), rate_hz=VOICE_RATE_HZ)
        step, begun = VOICE_RATE_HZ // 10, stamps_of("tts", "got", "ready", "started")
        for seq, pts in enumerate(range(said, len(pcm), step)):
            last = pts + step >= len(pcm)
            stamps = () if seq else (*begun, *stamps_of("tts", "finished"))
            place = Place(session, turn, seq, pts, last, stamps)
            piece = np.ascontiguousarray(pcm[pts : pts + step])
            run = self.runs[session, turn]
            await self.bus.publish(Kind.VOICE, PcmChunk(place, VOICE_RATE_HZ, piece, run=run))

    async def Prerender(self, request: Any, context: Any) -> Any:
        if self.script.prerender_fails:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the engine is down")
        config = request.config
        self.seen.prerendered.append((config.voice, request.text, config.speed))
        return tts_pb2.PrerenderResponse(phrases=1, made=1)

    async def ListPhrases(self, _request: Any, _context: Any) -> Any:
        kept = [tts_pb2.KeptPhrase(text=t, seconds=0.5) for _, t, _ in self.seen.prerendered]
        return tts_pb2.ListPhrasesResponse(phrases=kept, bytes=9, limit_bytes=99, hits=1, misses=2)

    async def ClearPhrases(self, _request: Any, _context: Any) -> Any:
        removed = len(self.seen.prerendered)
        self.seen.prerendered.clear()
        return tts_pb2.ClearPhrasesResponse(removed=removed)

    async def ListVoices(self, _request: Any, _context: Any) -> Any:
        if self.instance in self.script.silent:
            await asyncio.Event().wait()
        voice = tts_pb2.Voice(
            name="ada",
            languages=["en"],
            gender="female",
            sample_rate_hz=VOICE_RATE_HZ,
            controls=["speed"],
            styles=["neutral"],
        )
        return tts_pb2.ListVoicesResponse(voices=[voice])


class FaceDouble(Double, face_pb2_grpc.FaceAnimationServicer):
    """Idle pictures at 25 fps; a turn's pictures as its voice comes in, all at once."""

    name = "face"
    created: dict[str, face_pb2.Avatar]

    def register(self, server: grpc.aio.Server) -> None:
        self.created = {}
        self.creating = 0
        self._keyframe: dict[str, bool] = {}
        self._codecs: dict[str, list[VideoCodec]] = {}
        self._resting: dict[str, bool] = {}
        face_pb2_grpc.add_FaceAnimationServicer_to_server(self, server)

    async def request(self, session: str, request: Any) -> None:
        if request.WhichOneof("request") == "attention":
            return
        if request.WhichOneof("request") == "idle":
            self._resting[session] = not request.idle.live
            self._keyframe[session] = self._keyframe[session] or request.idle.live
            return
        self._keyframe[session] = True
        if request.WhichOneof("request") == "codecs":
            self._codecs[session] = [VideoCodec(c) for c in request.codecs.codecs]

    def _begin(self, session: str) -> None:
        configs = [first.config for first in self.seen.of("face", "config")]
        config = next(c for c in reversed(configs) if c.session == session)
        self._codecs[session] = [VideoCodec(c) for c in config.face.codecs]
        self._keyframe[session] = True

    async def work(self, session: str, listening: asyncio.Event) -> None:
        self._begin(session)
        encoders: dict[VideoCodec, PictureEncoder | PoseEncoder] = {}
        seq, turn, produced, voice = 0, 0, 0, 0.0

        async def show(number: int, index: int, *, last: bool = False) -> None:
            nonlocal seq
            wanted, self._keyframe[session] = self._keyframe[session], False
            keyframe = wanted or (number > 0 and index == 0 and self.script.first_keyframe)
            for codec in self._codecs[session]:
                if fresh := codec not in encoders:
                    encoders[codec] = encoder_of(codec)
                encoder = encoders[codec]
                payload, key = encoder.encode(min(200, 40 + 15 * index), keyframe=keyframe or fresh)
                place = Place(session, number, seq, index, last)
                seq += 1
                self.seen.keyframes += key
                size, self._resting[session] = encoder.size, False
                if self.script.lost_pictures:
                    self.script.lost_pictures -= 1
                    continue
                await self.bus.publish(
                    Kind.VIDEO,
                    VideoChunk(
                        place,
                        number == 0,
                        codec,
                        key,
                        size,
                        size,
                        FPS,
                        payload,
                        encoder.made,
                        encoder.made,
                        self.script.loop,
                        bool(self.script.loop) and number == 0,
                    ),
                )

        async with self.bus.subscribe(session, Kind.VOICE) as voices:
            listening.set()
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1 / FPS):
                        chunk = await anext(voices)
                        assert isinstance(chunk, PcmChunk)
                        if self.name in self.script.silent:
                            continue
                        if chunk.place.turn != turn:
                            turn, produced, voice = chunk.place.turn, 0, 0.0
                        voice += len(chunk.pcm) / chunk.sample_rate_hz
                        wanted = round(voice * FPS)
                        for index in range(produced, wanted):
                            last = chunk.place.last and index == wanted - 1
                            await show(turn, index, last=last)
                        produced = wanted
                        continue
                if self.name not in self.script.silent and not self._resting.get(session):
                    self.seen.live_pictures += 1
                    await show(0, 0)

    async def RenderLoop(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.seen.loops.append(request.avatar)
        if not self.script.loop:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "it does not repeat")
        codec = VideoCodec(request.codec)
        encoder, count = encoder_of(codec), 2 * FPS
        digest = self.script.loop if self.script.lent_loop == "as told" else self.script.lent_loop
        size = encoder.size
        loop = face_pb2.IdleLoop(
            digest=digest, codec=request.codec, width=size, height=size, fps=FPS, pictures=count
        )
        yield face_pb2.RenderLoopResponse(loop=loop)
        for k in range(count):
            payload, key = encoder.encode(100 + k, keyframe=k % FPS == 0)
            picture = face_pb2.LoopPicture(data=payload, keyframe=key)
            yield face_pb2.RenderLoopResponse(pictures=face_pb2.LoopPictures(pictures=[picture]))

    async def GetStatus(self, _request: Any, _context: Any) -> Any:
        return face_pb2.FaceStatus(service=self.status(), blendshapes=[])

    async def ListAvatars(self, _request: Any, _context: Any) -> Any:
        avatars = [face_pb2.Avatar(name="eve"), *self.created.values()]
        return face_pb2.ListAvatarsResponse(avatars=avatars)

    async def GetAvatarPortrait(self, request: Any, context: Any) -> Any:
        if request.name not in ("eve", *self.created):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"avatar {request.name} is not known")
        return face_pb2.AvatarPortrait(jpeg=b"\xff\xd8jpeg")

    async def GetAvatarHead(self, request: Any, context: Any) -> Any:
        if request.name != "eve":
            await context.abort(grpc.StatusCode.NOT_FOUND, f"avatar {request.name} has no head")
        digest = f"digest {request.file} of eve"
        told = (b"glTF of eve", b'{"title": "Eve"}', b"wall of eve")[request.file]
        content = b"" if request.known_sha256 == digest else told
        return face_pb2.AvatarHead(content=content, sha256=digest)

    async def CreateAvatar(self, request: Any, context: Any) -> Any:
        if request.image.startswith(b"slow"):
            self.creating += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.creating -= 1
        if request.image.startswith(b"bad"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "image: there is no face in it")
        if request.name in ("eve", *self.created):
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"avatar {request.name} exists")
        consent = request.consent if request.HasField("consent") else None
        made = face_pb2.Avatar(name=request.name, width=64, height=64, consent=consent)
        self.created[request.name] = made
        left_out = ["material '[hat]': its fur is not drawn"] * request.image.startswith(b"PK")
        return face_pb2.Avatar(name=request.name, width=64, height=64, left_out=left_out)

    async def RenameAvatar(self, request: Any, context: Any) -> Any:
        self.seen.rename_within_s = context.time_remaining()
        if request.new_name in ("eve", *self.created):
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"avatar {request.new_name} exists")
        renamed = self.created.pop(request.name)
        renamed.name = request.new_name
        self.created[renamed.name] = renamed
        return renamed

    async def DeleteAvatar(self, request: Any, context: Any) -> Any:
        if request.name not in self.created:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"avatar {request.name} is not known")
        del self.created[request.name]
        return face_pb2.DeleteAvatarResponse()


KINDS = {"asr": AsrDouble, "llm": LlmDouble, "tts": TtsDouble, "face": FaceDouble}


class Doubles:
    """One replica of each service; a test may start and stop more."""

    def __init__(self, bus: Bus, kinds: Mapping[str, type[Double]] = KINDS) -> None:
        self.bus, self._kinds = bus, kinds
        self.script, self.seen = Script(), Seen()
        self.running: dict[str, Double] = {}
        self._all: list[Double] = []
        self._count = 0

    async def start(self, *names: str, port: int = 0) -> None:
        for name in names or tuple(KINDS):
            self._count += 1
            instance = f"{name}-{self._count}"
            double = self._kinds[name](self.bus, self.script, self.seen, instance)
            await double.start(port)
            self._all.append(double)
            self.running[name] = double

    async def stop(self, *names: str) -> None:
        """The newest replica of each; without names, all there are."""
        for double in [self.running.pop(n) for n in names] or list(self._all):
            self._all.remove(double)
            await double.stop()

    async def restore(self) -> bool:
        """Well-behaved again, one replica each; whether replicas had to be changed."""
        self.script.__init__()  # type: ignore[misc]
        self.seen.__init__()  # type: ignore[misc]
        if sorted(d.name for d in self._all) == sorted(KINDS):
            return False
        await self.stop()
        await self.start()
        return True

    def leases(self) -> int:
        return sum(double.leases for double in self._all)
