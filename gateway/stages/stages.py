"""A session's four leases, and what is said to each stage. Protobuf of the stages stops here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway import metrics
from gateway.api.choices import DrawnBy, SpokenBy
from gateway.api.events import ErrorEvent, SessionEvent
from gateway.background import Background
from gateway.knowledge.passages import Passage
from gateway.playout.attention import Attention, AttentionOrder
from gateway.playout.idle import IdleOrder
from gateway.playout.playout import Playout
from gateway.settings import GatewaySettings
from gateway.stages.ears import Ears
from gateway.stages.lease import LeaseListener, StageLease
from gateway.stages.plain_calls import Wanted, generation
from gateway.stages.registry import Registry
from gateway.stages.room import NoRoomError
from gateway.talk.actions import Action, Emit, Message, ResumeVoice
from gateway.talk.conversation import Conversation
from gateway.talk.microphone import RATE_HZ as MIC_RATE_HZ
from gateway.talk.turn import Phase, Turn
from gateway.tools.doing import ServerTools, offered
from gateway.tools.offers import FREE, Call, ToolChoice, ToolOffer
from visavis.serving.errors import AtCapacityError, OutdatedError, VisavisError
from visavis.serving.settings import SERVICES
from visavis.v1 import asr_pb2, control_pb2, face_pb2, llm_pb2, tts_pb2
from visavis.wire.clock import Clock
from visavis.wire.levels import BEFORE, GOES_ON, SMALLER_PICTURES
from visavis.wire.media import ClockChunk, MelChunk, PcmChunk, Place, TurnChunk, VideoCodec

log = logging.getLogger(__name__)

_ATTENTION = {
    Attention.NOBODY: face_pb2.SetAttention.NOBODY,
    Attention.LISTENING: face_pb2.SetAttention.LISTENING,
    Attention.THINKING: face_pb2.SetAttention.THINKING,
}

_NOT_TOLD = ("tools", "tool_choice", "endpointing")
"""Options that listeners are not told of."""


@dataclass(frozen=True, slots=True)
class Endpointing:
    """Where utterances of one session begin and end, as its recogniser is asked to find them.

    None: as the recogniser's own settings say. silence_ms: that ends an utterance, whatever was
    said; patience_ms: the longest behind words that are surely not all; lead_ms: sound before the
    speech that belongs to it.
    """

    speech_probability: float | None = None
    lead_ms: int | None = None
    silence_ms: int | None = None
    patience_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """What a session can be told; empty voice, avatar: the service's choice."""

    language: str = "en"
    voice: str = ""
    avatar: str = ""
    speed: float = 1.0
    style: str = ""
    drawn_by: DrawnBy = "server"
    tools: tuple[ToolOffer, ...] = ()
    """What answers may have its clients do."""
    tool_choice: ToolChoice = FREE
    spoken_by: SpokenBy = "server"
    endpointing: Endpointing = Endpointing()

    @property
    def services(self) -> tuple[str, ...]:
        """What the session needs a slot of."""
        return ("face",) if self.spoken_by == "client" else SERVICES

    @property
    def codecs(self) -> tuple[VideoCodec, ...]:
        """What most who come will take: it need not be waited for then."""
        by_client = self.drawn_by == "client"
        return (VideoCodec.BLENDSHAPES if by_client else VideoCodec.H264,)

    def event(self, session: str) -> SessionEvent:
        """As listeners of `session` are told."""
        told = {k: v for k, v in asdict(self).items() if k not in _NOT_TOLD}
        return SessionEvent(id=session, **told)


class Stages:
    """Holds a lease on asr, llm, tts and face for one session, and says to each what it needs."""

    def __init__(
        self,
        session: str,
        options: Options,
        registry: Registry,
        listener: LeaseListener,
        settings: GatewaySettings,
        background: Background,
        ears: Ears,
        tools: ServerTools,
    ) -> None:
        """tools: that the gateway does itself."""
        self._session = session
        self._ears = ears
        self._tools = tools
        self.options = options
        self._settings = settings
        self.attached = False
        """Whether the session wants its stages; one of them may be coming back just now."""
        self.talk = (False, 0)
        """Whether the visitor was asked something last, by which asr weighs a statement, and the
        newest utterance that was his own, from which it learns how he pauses."""
        self._face_stale = False
        self._codecs = options.codecs
        self._most_kbps = 0
        self._attention = Attention.NOBODY
        """Of the face, as it is wanted."""
        configs = {
            "asr": self._asr_config,
            "llm": self._llm_config,
            "tts": self._tts_config,
            "face": self._face_config,
        }
        self._leases = {
            s: StageLease(s, registry, configs[s], listener, background) for s in options.services
        }
        self._weigh_face()

    @property
    def instances(self) -> dict[str, str | None]:
        """Replica that serves each stage."""
        return {name: lease.instance for name, lease in self._leases.items()}

    @property
    def settled(self) -> bool:
        """Whether no stage is just going from one replica to another."""
        return all(lease.settled.is_set() for lease in self._leases.values())

    @property
    def may_begin(self) -> bool:
        """Whether a turn may: all is settled, and there is a voice."""
        voice = self._leases.get("tts")
        return self.settled and (voice is None or voice.there)

    @property
    def voice_away(self) -> str:
        """Why there is no voice just now; "": there is one, or none is wanted."""
        voice = self._leases.get("tts")
        return "" if voice is None or voice.there else voice.away

    async def settle(self) -> None:
        """Returns once no stage is going from one replica to another."""
        for lease in self._leases.values():
            await lease.settled.wait()

    async def attach(self) -> None:
        """Attach to all four, or to none and raise the first error. Also anew after `release`.

        Raises NoRoomError where a stage takes no session now, and others.
        """
        self.attached, self._face_stale = True, False
        let_in_before = all(lease.admitted for lease in self._leases.values())
        try:
            results = await asyncio.gather(
                *(lease.attach() for lease in self._leases.values()), return_exceptions=True
            )
            errors = {s: r for s, r in zip(self._leases, results, strict=True) if r is not None}
            if errors:
                raise _worst(errors)
        except BaseException:
            await self.release()
            if let_in_before:
                self.admit()  # it is tried again, and is no newcomer then
            raise

    def admit(self) -> None:
        """The session comes from another gateway: it needs slots and is not weighed again."""
        for lease in self._leases.values():
            lease.admit()

    async def release(self) -> None:
        """Give all slots back."""
        self.attached = False
        await asyncio.gather(*(lease.release() for lease in self._leases.values()))

    async def leave(self) -> None:
        """As `release`; returns once no replica has the session any more."""
        self.attached = False
        await asyncio.gather(*(lease.leave() for lease in self._leases.values()))

    async def begin_answer(
        self,
        turn: Turn,
        messages: Sequence[Message],
        *,
        last: bool = False,
        run: int = 0,
        so_far: str = "",
        chars: int = 0,
        blocks: int = 0,
    ) -> None:
        """Let the language model answer. Where it is waited for, the turn may be confirmed
        meanwhile, or over, or asked for as another run: it is told as it stands then.

        last: as in `continue_answer`, where results are among the messages. run: what it writes is
        marked with it. so_far: of the answer to these, which goes on behind it; chars, blocks: that
        the turn had before it. Raises StageLostError, OutdatedError.
        """
        choice = _behind_results(last=last) if messages[-1].role == "tool" else None

        def begin() -> llm_pb2.LlmAttachRequest | None:
            if turn.phase is Phase.CLOSED or run != turn.text_run.number:
                return None
            begin = llm_pb2.BeginTurn(
                turn=turn.number,
                request=self._request(messages, turn.known, choice),
                held=turn.phase is Phase.HELD,
                so_far=so_far,
                chars=chars,
                blocks=blocks,
                run=run,
            )
            return llm_pb2.LlmAttachRequest(begin=begin)

        await self._leases["llm"].send_as_of_then(begin, since=GOES_ON if run else BEFORE)

    async def continue_answer(
        self,
        turn: int,
        messages: Iterable[Message],
        known: tuple[Passage, ...] = (),
        *,
        last: bool,
    ) -> None:
        """With the results of what it called. last: it calls no more. Raises StageLostError."""
        request = self._request(messages, known, _behind_results(last=last))
        go_on = llm_pb2.ContinueTurn(turn=turn, request=request)
        await self._leases["llm"].send(llm_pb2.LlmAttachRequest(go_on=go_on))

    async def say_meanwhile(self, turn: int, text: str) -> None:
        """Words of ours in an answer that waits for results. Raises StageLostError."""
        say = llm_pb2.SayMeanwhile(turn=turn, text=text)
        await self._leases["llm"].send(llm_pb2.LlmAttachRequest(say=say))

    async def read_ahead(
        self, messages: Iterable[Message], known: tuple[Passage, ...] = ()
    ) -> None:
        """Let the language model read a question that is not complete. Raises StageLostError."""
        if "llm" not in self._leases:
            return
        read = llm_pb2.ReadAhead(request=self._request(messages, known))
        await self._leases["llm"].send(llm_pb2.LlmAttachRequest(read_ahead=read))

    async def resume_voice(
        self,
        announced: TurnChunk,
        turn: Turn,
        spoken: ResumeVoice,
        heard: tuple[int, int] | None,
    ) -> None:
        """Have the voice go on with a turn that another one began. heard: so many samples of it,
        and their rate; None: it has none. Raises StageLostError, OutdatedError.
        """
        heard_samples, rate_hz = heard or (0, 0)
        resume = tts_pb2.ResumeVoice(
            turn=announced.to_message(),
            text=turn.tagged,
            complete=turn.text_complete,
            chars=spoken.chars,
            samples=round(spoken.at_s * rate_hz),
            heard_samples=heard_samples,
            run=spoken.run,
            text_run=turn.text_run.number,
        )
        await self._leases["tts"].send(tts_pb2.TtsAttachRequest(resume=resume), since=GOES_ON)

    async def resume_face(
        self,
        announced: TurnChunk,
        mel: Iterable[MelChunk],
        voice: Iterable[PcmChunk],
        heard: tuple[int, int] | None,
        *,
        paused: bool,
    ) -> None:
        """Have the face go on with a turn that another one began, if it can. heard: as in
        `resume_voice`; None: it has not begun. Raises StageLostError.
        """
        clock = None
        if heard is not None:
            samples, rate_hz = heard
            place = Place(self._session, announced.place.turn, 0, samples)
            clock = ClockChunk(place, rate_hz, paused).to_message()
        resume = face_pb2.ResumeFace(
            turn=announced.to_message(),
            mel=[chunk.to_message() for chunk in mel],
            voice=[chunk.to_message() for chunk in voice],
            clock=clock,
        )
        with suppress(OutdatedError):
            await self._leases["face"].send(
                face_pb2.FaceAttachRequest(resume=resume), since=GOES_ON
            )

    async def update(self, options: Options) -> None:
        """Tell asr and tts, each as soon as it is there; the face is changed by `refresh_face`."""
        before, self.options = self.options, options
        self._weigh_face()
        if not self.attached:
            return  # attaching tells them
        self._face_stale = self._face_stale or options.avatar != before.avatar
        news: dict[str, Any] = {}
        heard = ("language", "endpointing")
        if any(getattr(options, name) != getattr(before, name) for name in heard):
            news["asr"] = self._listening()
        voice = ("language", "voice", "speed", "style")
        if any(getattr(options, name) != getattr(before, name) for name in voice):
            news["tts"] = tts_pb2.TtsAttachRequest(synthesis=self._synthesis())
        known = self._leases.keys() & news.keys()
        await asyncio.gather(*(self._leases[name].tell(news[name]) for name in known))

    async def tell_talk(self, talk: tuple[bool, int]) -> None:
        """Let asr, if the session has one, know how the conversation goes, once it is there."""
        self.talk = talk
        if self.attached and "asr" in self._leases:  # otherwise attaching tells it
            await self._leases["asr"].tell(self._listening())

    def wear_default(self, *, attached: bool) -> None:
        """The avatar is there no more. attached: the face still has it, up to `refresh_face`."""
        self.options = replace(self.options, avatar="")
        self._face_stale = attached

    def avatar_renamed(self, name: str) -> None:
        """The face goes on with the avatar; only who attaches again asks for it by this name."""
        self.options = replace(self.options, avatar=name)

    def refresh_face(self) -> None:
        """Attach to the face anew if the avatar has been changed since."""
        if self._face_stale:
            self._face_stale = False
            self._leases["face"].restart()

    def hear_anew(self) -> None:
        """Attach to a recogniser anew, be it the same: what it hears now has holes."""
        if "asr" in self._leases:
            self._ears.lost()
            self._leases["asr"].restart()

    async def request_keyframe(self, codec: VideoCodec) -> None:
        """A viewer cannot decode before the next key frame. Raises StageLostError."""
        if codec not in self._codecs or not self.attached:
            return  # its last viewer has just left, or all have
        request = face_pb2.KeyframeRequest(codec=_codec(codec))
        await self._leases["face"].send(face_pb2.FaceAttachRequest(keyframe=request))

    async def set_codecs(self, codecs: Iterable[VideoCodec]) -> None:
        """What the face is to encode, told as soon as it is there."""
        self._codecs = tuple(codecs)
        self._weigh_face()
        if not self.attached:
            return  # attaching tells it
        request = face_pb2.SetCodecs(codecs=[_codec(c) for c in self._codecs])
        await self._leases["face"].tell(face_pb2.FaceAttachRequest(codecs=request))

    async def limit_pictures(self, most_kbps: int) -> None:
        """Of each stream of pictures; 0: as much as the face sends. Raises StageLostError."""
        self._most_kbps = most_kbps
        if not self.attached:
            return  # it is told as it comes
        bitrate = face_pb2.SetBitrate(most_kbps=most_kbps)
        request = face_pb2.FaceAttachRequest(bitrate=bitrate)
        with suppress(OutdatedError):
            await self._leases["face"].send(request, since=SMALLER_PICTURES)

    async def tell_idle(self, order: IdleOrder) -> None:
        """Who shows the idle life. Raises StageLostError."""
        if not self.attached:
            return  # the face that comes back begins with live pictures
        idle = face_pb2.SetIdle(live=order.live, motion_frame=order.frame)
        await self._leases["face"].send(face_pb2.FaceAttachRequest(idle=idle))

    async def tell_attention(self, order: AttentionOrder) -> None:
        """How the face is to look while it says nothing. Raises StageLostError."""
        self._attention = order.attention
        if not self.attached:
            return  # it is told as it comes
        phase = _ATTENTION[order.attention]
        attention = face_pb2.SetAttention(phase=phase, cue=order.cue, shown_from=order.shown_from)
        await self._leases["face"].send(face_pb2.FaceAttachRequest(attention=attention))

    async def brief_face(self) -> None:
        """Tell a face that has come what is not in its first message. Raises StageLostError."""
        if not self._codecs:
            await self.set_codecs(())
        if self._attention is not Attention.NOBODY:
            await self.tell_attention(AttentionOrder(self._attention))
        if self._most_kbps:
            await self.limit_pictures(self._most_kbps)

    def _weigh_face(self) -> None:
        """Where every viewer draws it himself, the face is asked for next to nothing."""
        codecs = self._codecs or self.options.codecs
        self._leases["face"].light = not any(codec.drawn for codec in codecs)

    def _request(
        self,
        messages: Iterable[Message],
        known: tuple[Passage, ...],
        choice: ToolChoice | None = None,
    ) -> llm_pb2.GenerateRequest:
        """choice: instead of the session's."""
        options, settings = self.options, self._settings
        tools = offered(options.tools, self._tools.offers)
        choice = choice or options.tool_choice
        if choice.named and choice.named not in [tool.name for tool in tools]:
            choice = FREE  # its server is lost just now
        wanted = Wanted(
            tuple(messages),
            settings.max_tokens,
            settings.temperature,
            tools=tools,
            choice=choice if tools else FREE,
            known=known,
        )
        return generation(wanted)

    # ------------------------------------------------------------ first messages

    def _asr_config(self, admitted: bool) -> asr_pb2.AsrAttachRequest:
        recognition = asr_pb2.RecognitionConfig(
            sample_rate_hz=MIC_RATE_HZ,
            language=self.options.language,
            interim_results=True,
            endpointing=self._endpointing(),
            foresight=self._settings.prepare_before_pause,
        )
        config = asr_pb2.AsrAttachConfig(
            session=self._session,
            recognition=recognition,
            first_utterance=self._ears.newcomer(),
            admitted=admitted,
        )
        return asr_pb2.AsrAttachRequest(config=config)

    def _listening(self) -> asr_pb2.AsrAttachRequest:
        listening = asr_pb2.Listening(
            language=self.options.language, endpointing=self._endpointing()
        )
        return asr_pb2.AsrAttachRequest(listening=listening)

    def _endpointing(self) -> asr_pb2.Endpointing:
        asked, answered = self.talk
        wanted = asdict(self.options.endpointing)
        return asr_pb2.Endpointing(asked=asked, answered=answered, **wanted)

    def _llm_config(self, admitted: bool) -> llm_pb2.LlmAttachRequest:
        config = llm_pb2.LlmAttachConfig(session=self._session, admitted=admitted)
        return llm_pb2.LlmAttachRequest(config=config)

    def _tts_config(self, admitted: bool) -> tts_pb2.TtsAttachRequest:
        config = tts_pb2.TtsAttachConfig(
            session=self._session, synthesis=self._synthesis(), admitted=admitted
        )
        return tts_pb2.TtsAttachRequest(config=config)

    def _face_config(self, admitted: bool) -> face_pb2.FaceAttachRequest:
        codecs = self._codecs or self.options.codecs  # of none the face would make one
        # Speech that is brought comes without phonemes.
        brought = self.options.spoken_by == "client"
        source = face_pb2.FaceConfig.SOURCE_VOICE if brought else face_pb2.FaceConfig.SOURCE_MEL
        face = face_pb2.FaceConfig(
            avatar=self.options.avatar, codecs=[_codec(c) for c in codecs], source=source
        )
        config = face_pb2.FaceAttachConfig(session=self._session, face=face, admitted=admitted)
        return face_pb2.FaceAttachRequest(config=config)

    def _synthesis(self) -> tts_pb2.SynthesisConfig:
        options = self.options
        return tts_pb2.SynthesisConfig(
            language=options.language,
            voice=options.voice,
            speed=options.speed,
            style=options.style,
        )


def _worst(errors: Mapping[str, BaseException]) -> BaseException:
    """Which error is told, of those of the stages by name."""
    ours = {s: error for s, error in errors.items() if isinstance(error, VisavisError)}
    for service, error in (ours or errors).items():
        return NoRoomError(str(error), service) if isinstance(error, AtCapacityError) else error
    raise AssertionError("no error")


def _behind_results(*, last: bool) -> ToolChoice:
    """Of an answer that has called what it had to."""
    return ToolChoice("none" if last else "auto")


def _codec(codec: VideoCodec) -> Any:
    """Enum value as the generated code's annotations want it."""
    return int(codec)


class StageNews:
    """Tells the conversation what stages say over their leases: turns that fail, replicas that go.

    perform: carries out what follows. avatar_gone: called where no replica knows the avatar.
    face_came: called where one has the session that did not have it. hear_anew: has a recogniser
    that misses something begin anew. repeat: sends one of the microphone's sound again, [N] int16
    behind the place of its first sample.
    """

    def __init__(
        self,
        conversation: Conversation,
        playout: Playout,
        clock: Clock,
        perform: Callable[[Sequence[Action]], None],
        ears: Ears,
        avatar_gone: Callable[[], None],
        face_came: Callable[[], object],
        hear_anew: Callable[[], None],
        repeat: Callable[[int, NDArray[np.int16]], None],
    ) -> None:
        self._conversation = conversation
        self._avatar_gone = avatar_gone
        self._face_came = face_came
        self._hear_anew = hear_anew
        self._repeat = repeat
        self._playout = playout
        self._ears = ears
        self._clock = clock
        self._perform = perform

    def stage_event(self, service: str, event: control_pb2.AttachEvent) -> None:
        """An event of a lease."""
        kind = event.WhichOneof("event")
        if kind == "turn_failed":
            failed, code = event.turn_failed, event.turn_failed.code.lower()
            told = self._conversation.stage_failed(service, failed.turn, code, failed.message)
            self._perform(told)
        elif kind == "bus_lost":
            if service == "asr":
                message = "its connection to the bus was lost"
                lost = self._conversation.stage_lost(service, message, self._clock.now())
                self._perform(lost)
                self._hear_anew()
            elif not event.bus_lost.away:  # before that it hears nothing, and nobody hears it
                self._perform(self._conversation.stage_lost_bus(service))
        elif kind == "turn_notice":
            notice = event.turn_notice
            self._perform(self._conversation.notice(notice.turn, notice.code, notice.message))
        elif kind == "tools_called":
            called = event.tools_called
            calls = [Call(c.id, c.name, c.arguments_json) for c in called.calls]
            now = self._clock.now()
            told = self._conversation.tools_called(
                called.turn, called.text, calls, now, run=called.run
            )
            self._perform(told)
        elif kind == "turn_finished":
            finished, turns = event.turn_finished, self._conversation.turns
            turn = turns.find(finished.turn)
            if turn is not None:
                turn.stage_seconds[service] = dict(finished.seconds)
            if service == "llm":
                wasted = turns.generated(finished.turn, finished.produced)
                metrics.speculation_wasted_tokens.inc(wasted)

    def stage_lost(self, service: str, message: str) -> None:
        """A replica is gone; its lease is looking for another."""
        log.warning("%s: %s", service, message)
        if service == "face":
            self._playout.restart_stream(lost=True)
        elif service == "asr":
            self._ears.lost()
        self._perform(self._conversation.stage_lost(service, message, self._clock.now()))

    def stage_missed(self, service: str, message: str) -> None:
        """A stage was lost, and nobody has taken its place yet."""
        self._perform([Emit(ErrorEvent(code="stage_away", message=f"{service}: {message}"))])

    def stage_refused(self, service: str, message: str) -> None:
        """A stage was lost, and no replica takes the session now."""
        self._perform([Emit(ErrorEvent(code="at_capacity", message=f"{service}: {message}"))])

    def stage_unknown(self, service: str) -> None:
        """What a stage was asked for is there no more."""
        if service == "face":
            self._avatar_gone()

    def stage_ready(self, service: str) -> None:
        """A stage is (again) attached, or another replica has taken over."""
        if service == "face":
            self._playout.restart_stream()
            self._face_came()
        elif service == "asr":
            for pts, pcm in self._ears.switch():
                self._repeat(pts, pcm)
        self._perform(self._conversation.stage_back(service, self._clock.now()))

    def may_move(self, service: str) -> bool:
        """Whether another replica may take over: nobody speaks, and nothing is being answered."""
        quiet = self._conversation.turn is None and self._conversation.state == "idle"
        overheard = service == "asr" and self._ears.newcomer_is_in_an_utterance
        return quiet and not overheard
