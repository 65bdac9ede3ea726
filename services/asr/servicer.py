"""Speech recognition on the wire: Recognize, StreamingRecognize, Attach, GetStatus.

The only file of the service that sees protobuf.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from services.asr.hearing.networks import BundledNetworks, Hearing
from services.asr.riva import servicer as riva
from services.asr.session import ASSUMED, ListeningSession, TranscribingSession, chunk_of, words_of
from services.asr.settings import FRAME_MS, AsrSettings, heard_from
from services.asr.sound import resample
from services.asr.turns.endpointing import EndpointRules
from visavis.bundles.store import bundle_path, profile
from visavis.bundles.store.lookup import maker_of
from visavis.engine import EngineState
from visavis.serving import metrics
from visavis.serving.admission.admission import Admission
from visavis.serving.admission.reporting import open_admission
from visavis.serving.errors import InvalidInputError, OutOfOrderError, SettingsError
from visavis.serving.lease import CallLimit, hearing_out, read_config
from visavis.serving.lifetime.supervision import end_tasks
from visavis.serving.stage import Leases, engine_status
from visavis.v1 import asr_pb2, asr_pb2_grpc, control_pb2, media_pb2, riva_asr_pb2_grpc
from visavis.wire.bus import Bus
from visavis.wire.clock import Clock, MonotonicClock
from visavis.wire.media import Place, check_sample_rate, pcm_from_bytes

LONGEST_RECORDING_S = 600
_RECORDINGS_AT_ONCE = 4
_LENGTHS = (
    ("lead_ms", "lead_frames", 0, 5_000),
    ("silence_ms", "silence_frames", 2 * FRAME_MS, 60_000),
    ("patience_ms", "patience_frames", 2 * FRAME_MS, 60_000),
)
"""Of Endpointing: field, what it is in the rules, least and most."""
_CONTEXT = grpc.aio.ServicerContext[Any, Any]


def open_hearing(settings: AsrSettings) -> Hearing:
    """The networks of the settings' profile and the user's own, not yet loaded.

    Raises ModelStoreError, SettingsError for a bundle that is no recogniser.
    """
    own = settings.own_recognisers
    for name in own:
        if maker_of(bundle_path(name, settings.model_dir)) != "whisper":
            raise SettingsError(
                f"recognisers: {name} was not made with `visavis bundle make whisper`"
            )
    names = [*own, *profile(settings.profile, settings.model_dir)[AsrSettings.section]]
    bundles: dict[str, Path] = {name: bundle_path(name, settings.model_dir) for name in names}
    return Hearing(BundledNetworks(bundles, settings.open_engine), settings.default_language)


class AsrService:
    """The deployable: the networks and the servicer in front."""

    name = AsrSettings.section

    def __init__(
        self,
        settings: AsrSettings,
        bus: Bus | None,
        instance: str,
        *,
        hearing: Hearing | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.languages: Sequence[str] = ()
        self._hearing = hearing or open_hearing(settings)
        self._servicer = SpeechRecognitionServicer(
            self._hearing, settings, bus, instance, clock or MonotonicClock()
        )
        self.leases = self._servicer.leases

    @property
    def engine_states(self) -> Sequence[EngineState]:
        return [state for _, state in self._servicer.engine_states()]

    @property
    def admission(self) -> Admission:
        return self._servicer.admission

    async def load(self) -> None:
        await self._hearing.load()
        self.languages = self._hearing.known_languages

    def register(self, server: grpc.aio.Server) -> Sequence[str]:
        asr_pb2_grpc.add_SpeechRecognitionServicer_to_server(self._servicer, server)
        riva_asr_pb2_grpc.add_RivaSpeechRecognitionServicer_to_server(
            self._servicer.for_riva(), server
        )
        ours = asr_pb2.DESCRIPTOR.services_by_name["SpeechRecognition"].full_name
        return [ours, riva.SERVICE]

    async def close(self) -> None:
        await asyncio.to_thread(self._hearing.close)


class SpeechRecognitionServicer(asr_pb2_grpc.SpeechRecognitionServicer):
    """Answers calls: streams and leases take a slot each, recordings a place in memory."""

    def __init__(
        self,
        hearing: Hearing,
        settings: AsrSettings,
        bus: Bus | None,
        instance: str,
        clock: Clock,
    ) -> None:
        self._hearing = hearing
        self._settings = settings
        self._clock = clock
        self.admission = open_admission(settings, ASSUMED, clock=clock)
        self.leases = Leases(AsrService.name, instance, bus, self.admission)
        # Recordings take no slot, but few are held in memory.
        self._recordings = CallLimit(min(settings.slots, _RECORDINGS_AT_ONCE), "recordings")

    async def Recognize(
        self, request: asr_pb2.RecognizeRequest, context: _CONTEXT
    ) -> asr_pb2.RecognizeResponse:
        """Raises InvalidInputError, UnknownNameError for the language, AtCapacityError."""
        rate = check_sample_rate(request.config.sample_rate_hz)
        pcm = pcm_from_bytes(request.pcm_s16le)
        if len(pcm) > LONGEST_RECORDING_S * rate:
            raise InvalidInputError(
                f"pcm_s16le: {len(pcm) / rate:.0f} s are more than {LONGEST_RECORDING_S} s; "
                "send longer recordings to StreamingRecognize"
            )
        code, _ = self._hearing.languages.resolve(request.config.language)
        with self._recordings.hold():
            sound = await asyncio.to_thread(resample, pcm, rate)
            transcript = await self._hearing.recognize(sound, code)
        metrics.asr_audio_seconds.inc(len(pcm) / rate)
        return asr_pb2.RecognizeResponse(
            text=transcript.text,
            language=transcript.language or code,
            words=[
                media_pb2.WordTime(word=w.word, start_ms=w.start_ms, end_ms=w.end_ms)
                for w in words_of(transcript.segments)
            ],
            audio_ms=len(pcm) * 1000 // rate,
        )

    async def StreamingRecognize(
        self, requests: AsyncIterator[asr_pb2.StreamingRecognizeRequest], context: _CONTEXT
    ) -> AsyncIterator[asr_pb2.StreamingRecognizeResponse]:
        requests = aiter(requests)
        async with hearing_out(requests):
            first = await read_config(requests, "StreamingRecognize")
            async with contextlib.aclosing(self._heard(first.config, requests)) as heard:
                async for transcript in heard:
                    yield asr_pb2.StreamingRecognizeResponse(transcript=transcript)

    async def _heard(
        self,
        config: asr_pb2.RecognitionConfig,
        requests: AsyncIterator[asr_pb2.StreamingRecognizeRequest],
    ) -> AsyncGenerator[media_pb2.TranscriptChunk, None]:
        rate = check_sample_rate(config.sample_rate_hz)
        session = self._session(config)
        with self.leases.slots.hold(f"stream-{secrets.token_hex(8)}"):
            async with session:
                reader = asyncio.create_task(_feed(requests, session, rate))
                try:
                    seq = 0
                    async for heard in session.events():
                        yield chunk_of(heard, Place("", 0, seq, heard.at_samples)).to_message()
                        seq += 1
                finally:
                    await end_tasks([reader])

    async def Attach(
        self, requests: AsyncIterator[asr_pb2.AsrAttachRequest], context: _CONTEXT
    ) -> AsyncIterator[control_pb2.AttachEvent]:
        first = await read_config(requests, "Attach")
        config = first.config
        with self.leases.attach(config.session, admitted=config.admitted) as stage:
            listening = self._session(config.recognition, config.first_utterance or 1)

            async def on_request(request: asr_pb2.AsrAttachRequest) -> None:
                if request.WhichOneof("request") != "listening":
                    raise OutOfOrderError("after the config only listening may follow on Attach")
                rules = self._rules(request.listening.endpointing)
                listening.set_language(request.listening.language)
                listening.take_turns_by(rules)

            async with listening:
                lease = stage.serve(TranscribingSession(stage, listening), requests, on_request)
                async with contextlib.aclosing(lease) as events:
                    async for event in events:
                        yield event

    async def GetStatus(
        self, request: control_pb2.GetStatusRequest, context: _CONTEXT
    ) -> control_pb2.ServiceStatus:
        engines = [engine_status(bundle, state) for bundle, state in self.engine_states()]
        status = self.leases.status(engines, self._hearing.known_languages)
        status.free_recordings = self._recordings.free
        return status

    def for_riva(self) -> riva.RivaRecognitionServicer:
        """The same for Riva's clients: networks, slots and limits are shared."""

        def listen(language: str, interim_results: bool) -> ListeningSession:
            return self._session(
                asr_pb2.RecognitionConfig(language=language, interim_results=interim_results)
            )

        return riva.RivaRecognitionServicer(
            self._hearing, listen, self.leases.slots, self._recordings, LONGEST_RECORDING_S
        )

    def engine_states(self) -> list[tuple[str, EngineState]]:
        """Each bundle, and where its networks run."""
        settings = self._settings
        unknown = EngineState(settings.backend, settings.device, "not loaded yet")
        return [(name, self._hearing.state(name) or unknown) for name in self._hearing.bundles]

    def _rules(self, wanted: asr_pb2.Endpointing) -> EndpointRules:
        """Raises InvalidInputError."""
        return rules_with(self._settings.endpoint_rules(), wanted)

    def _session(
        self, config: asr_pb2.RecognitionConfig, first_utterance: int = 1
    ) -> ListeningSession:
        return ListeningSession(
            self._hearing,
            config.language,
            interim_results=config.interim_results,
            foresight=config.foresight,
            rules=self._rules(config.endpointing),
            clock=self._clock,
            meter=self.admission.meter,
            recorded=config.recorded,
            first_utterance=first_utterance,
            to_spare=lambda: self.admission.idle_cores >= self._settings.foresight_idle_cores,
        )


def rules_with(rules: EndpointRules, wanted: asr_pb2.Endpointing) -> EndpointRules:
    """The service's, with what one stream wants. Raises InvalidInputError that names the field."""
    if wanted.HasField("speech_probability"):
        if not 0.0 < wanted.speech_probability < 1.0:
            raise InvalidInputError("speech_probability: more than 0 and less than 1 is wanted")
        rules = heard_from(rules, wanted.speech_probability)
    changes: dict[str, Any] = {
        name: getattr(wanted, name) for name in ("asked", "answered") if wanted.HasField(name)
    }
    for field, name, lowest_ms, highest_ms in _LENGTHS:
        if wanted.HasField(field):
            length_ms: int = getattr(wanted, field)
            if not lowest_ms <= length_ms <= highest_ms:
                raise InvalidInputError(f"{field}: {lowest_ms} to {highest_ms} is wanted")
            changes[name] = round(length_ms / FRAME_MS)
    return replace(rules, **changes)


async def _feed(
    requests: AsyncIterator[asr_pb2.StreamingRecognizeRequest], session: ListeningSession, rate: int
) -> None:
    """What the client sends, into the session; errors go the way of the answers."""
    try:
        async for request in requests:
            if request.WhichOneof("request") != "pcm_s16le":
                raise OutOfOrderError("after the config only sound may follow")
            pcm = pcm_from_bytes(request.pcm_s16le)
            if len(pcm) > rate:
                raise InvalidInputError(f"pcm_s16le: {len(pcm)} samples are more than one second")
            await session.hear(pcm, rate)
        await session.finish()
    except Exception as error:  # The answering side raises it, and so the client hears of it.
        await session.fail(error)
