"""Speech synthesis on the wire: Synthesize, Attach, ListVoices, GetStatus.

The only file of the service that sees protobuf.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias

import grpc
import grpc.aio
import numpy as np

from services.tts.phrase_cache import KeptPhrase, PhraseCache
from services.tts.phrase_feed import cut_phrases
from services.tts.prosody import styles_within
from services.tts.riva import servicer as riva
from services.tts.session import Resumption, SpeakingSession
from services.tts.settings import TtsSettings
from services.tts.sound import HOP_SAMPLES, N_MELS, SAMPLE_RATE_HZ
from services.tts.speech_lane import ASSUMED, SpeechLane, TurnLedger
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import SpeechPiece, Spoken, Synthesizer
from services.tts.voices.base import VOICES, VoiceInfo, voices_for
from services.tts.voices.opening import open_synthesizer, own_voices
from visavis.engine import EngineLane, EngineState
from visavis.serving.admission.admission import Admission
from visavis.serving.admission.reporting import open_admission
from visavis.serving.errors import EngineError, InvalidInputError, OutOfOrderError
from visavis.serving.lease import hearing_out, read_config
from visavis.serving.stage import Leases, engine_status
from visavis.v1 import control_pb2, riva_tts_pb2_grpc, tts_pb2, tts_pb2_grpc
from visavis.wire.bus import Bus
from visavis.wire.clock import Clock, MonotonicClock
from visavis.wire.media import MelChunk, PcmChunk, Place, TurnChunk

_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class TtsService:
    """The deployable: the synthesizer on its lane, and the servicer in front."""

    name = "tts"
    languages: Sequence[str] = tuple(sorted({tag for voice in VOICES for tag in voice.languages}))

    def __init__(
        self,
        settings: TtsSettings,
        bus: Bus | None,
        instance: str,
        *,
        synthesizer: Synthesizer | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._synthesizer = synthesizer
        self._resources = contextlib.ExitStack()
        self._lane = EngineLane(self.name)
        self._own = own_voices(settings.voices, settings.model_dir)
        self.servicer = SpeechSynthesisServicer(settings, bus, instance, clock or MonotonicClock())
        self.leases = self.servicer.leases
        self.servicer.voices = (*VOICES, *(voice.info for voice in self._own))

    @property
    def engine_states(self) -> Sequence[EngineState]:
        return [state for _, state in self.servicer.engine_states()]

    @property
    def admission(self) -> Admission:
        return self.servicer.admission

    async def load(self) -> None:
        synthesizer = await self._lane.run(self._open)
        self.servicer.speech = SpeechLane(synthesizer, self._lane, self.admission.meter)

    def _open(self) -> Synthesizer:
        if self._synthesizer is not None:
            return self._synthesizer
        settings = self._settings
        synthesizer = self._resources.enter_context(
            open_synthesizer(
                model_dir=settings.model_dir,
                open_engine=settings.open_engine,
                phrases=PhraseCache(round(settings.phrase_cache_mb * 1e6)),
                own=self._own,
            )
        )
        synthesizer.warm_up()
        return synthesizer

    def register(self, server: grpc.aio.Server) -> Sequence[str]:
        tts_pb2_grpc.add_SpeechSynthesisServicer_to_server(self.servicer, server)
        riva_tts_pb2_grpc.add_RivaSpeechSynthesisServicer_to_server(
            self.servicer.for_riva(), server
        )
        ours = tts_pb2.DESCRIPTOR.services_by_name["SpeechSynthesis"].full_name
        return [ours, riva.SERVICE]

    async def close(self) -> None:
        self._lane.close()
        self._resources.close()


class SpeechSynthesisServicer(tts_pb2_grpc.SpeechSynthesisServicer):
    """Answers the service's calls; `speech` is there once the voices are loaded."""

    def __init__(self, settings: TtsSettings, bus: Bus | None, instance: str, clock: Clock) -> None:
        self.speech: SpeechLane | None = None
        self.voices: tuple[VoiceInfo, ...] = VOICES
        self._settings = settings
        self._clock = clock
        self.admission = open_admission(settings, ASSUMED, clock=clock)
        self.leases = Leases(TtsService.name, instance, bus, self.admission)

    async def Synthesize(
        self, requests: AsyncIterator[tts_pb2.SynthesizeRequest], context: _Context
    ) -> AsyncIterator[tts_pb2.SynthesizeResponse]:
        requests = aiter(requests)
        async with hearing_out(requests):
            first = await read_config(requests, "Synthesize")
            options = read_options(first.config, self.voices)
            ledger = TurnLedger(self._clock, self._clock.now(), options.language)
            seq = 0
            pieces = self._ready().speak(cut_phrases(_texts(requests)), options, ledger)
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    for response in _responses(piece, seq):
                        yield response
                    seq += 1
        for response in _last_responses(ledger.produced_samples, seq):
            yield response

    async def Attach(
        self, requests: AsyncIterator[tts_pb2.TtsAttachRequest], context: _Context
    ) -> AsyncIterator[control_pb2.AttachEvent]:
        first = await read_config(requests, "Attach")
        options = read_options(first.config.synthesis, self.voices)
        config = first.config
        with self.leases.attach(config.session, admitted=config.admitted) as stage:
            session = SpeakingSession(
                stage, self._ready(), options, lead_s=self._settings.lead_s, clock=self._clock
            )

            async def on_request(request: tts_pb2.TtsAttachRequest) -> None:
                match request.WhichOneof("request"):
                    case "synthesis":
                        session.options = read_options(request.synthesis, self.voices)
                    case "resume":
                        await session.resume(_resumption(request.resume))
                    case _:
                        raise OutOfOrderError(
                            "after the config only synthesis and resume may follow on Attach"
                        )

            async with contextlib.aclosing(stage.serve(session, requests, on_request)) as events:
                async for event in events:
                    yield event

    async def ListVoices(
        self, request: tts_pb2.ListVoicesRequest, context: _Context
    ) -> tts_pb2.ListVoicesResponse:
        return tts_pb2.ListVoicesResponse(
            voices=[
                tts_pb2.Voice(
                    name=voice.name,
                    languages=voice.languages,
                    gender=voice.gender,
                    sample_rate_hz=voice.sample_rate_hz,
                    licence=voice.licence,
                    description=voice.description,
                    controls=sorted(voice.controls),
                    styles=styles_within(voice.controls),
                )
                for voice in voices_for(request.language, self.voices)
            ]
        )

    async def Prerender(
        self, request: tts_pb2.PrerenderRequest, context: _Context
    ) -> tts_pb2.PrerenderResponse:
        options = read_options(request.config, self.voices)
        speech, cache = self._ready(), self._phrases()
        before = cache.evictions
        phrases, made = await speech.prerender(cut_phrases(_whole(request.text)), options)
        evicted = cache.evictions - before
        return tts_pb2.PrerenderResponse(phrases=phrases, made=made, evicted=evicted)

    async def ListPhrases(
        self, request: tts_pb2.ListPhrasesRequest, context: _Context
    ) -> tts_pb2.ListPhrasesResponse:
        cache = self._phrases()
        return tts_pb2.ListPhrasesResponse(
            phrases=[_kept(phrase) for phrase in cache.phrases()],
            bytes=cache.size_bytes,
            limit_bytes=cache.limit_bytes,
            hits=cache.hits,
            misses=cache.misses,
            evictions=cache.evictions,
        )

    async def ClearPhrases(
        self, request: tts_pb2.ClearPhrasesRequest, context: _Context
    ) -> tts_pb2.ClearPhrasesResponse:
        return tts_pb2.ClearPhrasesResponse(removed=self._phrases().clear())

    async def GetStatus(
        self, request: control_pb2.GetStatusRequest, context: _Context
    ) -> control_pb2.ServiceStatus:
        engines = [engine_status(bundle, state) for bundle, state in self.engine_states()]
        return self.leases.status(engines, TtsService.languages)

    def for_riva(self) -> riva.RivaSynthesisServicer:
        """The same for Riva's clients: voices and lane are shared."""
        return riva.RivaSynthesisServicer(self._ready, self.voices, self._clock)

    def engine_states(self) -> list[tuple[str, EngineState]]:
        """The bundles of the voices, and where their networks run."""
        bundles = dict.fromkeys(voice.bundle for voice in self.voices)
        return [(bundle, self._state(bundle)) for bundle in bundles]

    def _state(self, bundle: str) -> EngineState:
        settings = self._settings
        if self.speech is None:
            return EngineState(settings.backend, settings.device, "not loaded yet")
        known = self.speech.state(bundle)
        return known or EngineState(settings.backend, settings.device)

    def _ready(self) -> SpeechLane:
        if self.speech is None:
            raise EngineError("the voices are not loaded yet; try again in a moment")
        return self.speech

    def _phrases(self) -> PhraseCache:
        cache = self._ready().phrases
        if cache is None:
            raise EngineError("this replica keeps no phrases")
        return cache


def _kept(phrase: KeptPhrase) -> tts_pb2.KeptPhrase:
    key = phrase.key
    return tts_pb2.KeptPhrase(
        text=key.text,
        language=key.language,
        voice=key.voice,
        speed=key.speed,
        seconds=phrase.seconds,
        bytes=phrase.size_bytes,
        hits=phrase.hits,
    )


def _resumption(resume: tts_pb2.ResumeVoice) -> Resumption:
    """Raises InvalidInputError naming the field."""
    if resume.samples < 0 or resume.samples % HOP_SAMPLES:
        raise InvalidInputError(
            f"samples: {resume.samples} is no whole number of {HOP_SAMPLES} samples"
        )
    return Resumption(
        TurnChunk.of(resume.turn),
        resume.text,
        resume.complete,
        Spoken(resume.chars, resume.samples),
        resume.heard_samples,
        resume.run,
        resume.text_run,
    )


async def _whole(text: str) -> AsyncIterator[str]:
    yield text


def read_options(
    config: tts_pb2.SynthesisConfig, voices: Sequence[VoiceInfo] = VOICES
) -> SpeechOptions:
    """Raises InvalidInputError or UnknownNameError naming the field."""
    return SpeechOptions(
        language=config.language,
        voice=config.voice,
        speed=config.speed or 1.0,
        volume=config.volume if config.HasField("volume") else 1.0,
        style=config.style,
        pitch_range=config.pitch_range or 1.0,
        energy=config.energy or 1.0,
    ).checked(voices)


async def _texts(requests: AsyncIterator[tts_pb2.SynthesizeRequest]) -> AsyncIterator[str]:
    async for request in requests:
        if request.WhichOneof("request") != "text":
            raise OutOfOrderError("after the config only text may follow on Synthesize")
        yield request.text


def _responses(piece: SpeechPiece, seq: int) -> list[tts_pb2.SynthesizeResponse]:
    place = Place("", 0, seq, piece.pts_samples)
    voice = PcmChunk(place, SAMPLE_RATE_HZ, piece.voice, piece.marks)
    place = Place("", 0, seq, piece.pts_hops)
    mel = MelChunk(place, SAMPLE_RATE_HZ, HOP_SAMPLES, piece.mel, piece.phonemes, piece.style)
    told = (control_pb2.TurnNotice(code="unsupported", message=text) for text in piece.notices)
    return [
        *(tts_pb2.SynthesizeResponse(notice=notice) for notice in told),
        tts_pb2.SynthesizeResponse(voice=voice.to_message()),
        tts_pb2.SynthesizeResponse(mel=mel.to_message()),
    ]


def _last_responses(samples: int, seq: int) -> list[tts_pb2.SynthesizeResponse]:
    place = Place("", 0, seq, samples, last=True)
    voice = PcmChunk(place, SAMPLE_RATE_HZ, np.zeros(0, np.int16))
    place = Place("", 0, seq, samples // HOP_SAMPLES, last=True)
    mel = MelChunk(place, SAMPLE_RATE_HZ, HOP_SAMPLES, np.zeros((0, N_MELS), np.float32))
    return [
        tts_pb2.SynthesizeResponse(voice=voice.to_message()),
        tts_pb2.SynthesizeResponse(mel=mel.to_message()),
    ]
