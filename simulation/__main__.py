"""One process of a simulated stack: python -m simulation <service> <plan> <its usual flags>

The plan is a `SimulationPlan` as JSON. `gateway` is the real one, in dilated time.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence

from simulation.device import BatchCurve, VirtualDevice
from simulation.faces import RepeatingEncoder, SimulatedFaces
from simulation.models import CountingBackend, SimulatedNetworks, ToneVoice
from simulation.occupied import Device
from visavis.serving.errors import VisavisError, exit_with
from visavis.serving.runtime import main as serve
from visavis.tools.bench.simulate.dilation import DilatedEventLoop
from visavis.tools.bench.simulate.plan import SimulationPlan
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock, dilate


def run_asr(plan: SimulationPlan, device: Device, argv: Sequence[str]) -> None:
    from services.asr.hearing.networks import Hearing
    from services.asr.servicer import AsrService
    from services.asr.settings import AsrSettings

    def service(settings: AsrSettings, bus: Bus | None, instance: str) -> AsrService:
        hearing = Hearing(SimulatedNetworks(device, plan.times), settings.default_language)
        return AsrService(settings, bus, instance, hearing=hearing)

    serve(service, AsrSettings, argv, loop_factory=DilatedEventLoop)


def run_llm(plan: SimulationPlan, device: Device, argv: Sequence[str]) -> None:
    from services.llm.servicer import LlmService
    from services.llm.settings import LlmSettings

    def service(settings: LlmSettings, bus: Bus | None, instance: str) -> LlmService:
        backend = CountingBackend(
            device,
            plan.times,
            slots=settings.slots,
            context_tokens=settings.context_tokens,
            mean_words=plan.answer_words,
        )
        return LlmService(settings, bus, instance, backend=backend)

    serve(service, LlmSettings, argv, loop_factory=DilatedEventLoop)


def run_tts(plan: SimulationPlan, device: Device, argv: Sequence[str]) -> None:
    from services.tts.phrase_cache import PhraseCache
    from services.tts.servicer import TtsService
    from services.tts.settings import TtsSettings
    from services.tts.synthesizer import Synthesizer

    def service(settings: TtsSettings, bus: Bus | None, instance: str) -> TtsService:
        voices = {language: ToneVoice(device, plan.times, language) for language in ("en", "zh")}
        phrases = PhraseCache(round(settings.phrase_cache_mb * 1e6))
        synthesizer = Synthesizer(voices, phrases=phrases)
        return TtsService(settings, bus, instance, synthesizer=synthesizer)

    serve(service, TtsSettings, argv, loop_factory=DilatedEventLoop)


def run_face(plan: SimulationPlan, device: Device, argv: Sequence[str]) -> None:
    from services.face.servicer import FaceService
    from services.face.settings import FaceSettings
    from services.face.studio import Studio

    def service(settings: FaceSettings, bus: Bus | None, instance: str) -> FaceService:
        studio = Studio(settings, SimulatedFaces(device, plan.times), RepeatingEncoder)
        return FaceService(settings, bus, instance, studio=studio)

    serve(service, FaceSettings, argv, loop_factory=DilatedEventLoop)


def run_gateway(argv: Sequence[str]) -> None:
    """As `python -m gateway`, on the event loop that this process is to have."""
    from gateway.__main__ import serve as serve_gateway

    with asyncio.Runner(loop_factory=DilatedEventLoop) as runner:
        serve_gateway(
            argv,
            prog="python -m simulation gateway",
            run=lambda server, sockets: runner.run(server.serve(sockets)),
        )


_STAGES: dict[str, Callable[[SimulationPlan, Device, Sequence[str]], None]] = {
    "asr": run_asr,
    "llm": run_llm,
    "tts": run_tts,
    "face": run_face,
}


def main(argv: Sequence[str]) -> None:
    """Serve until SIGTERM. Exits with one line on an error."""
    name, line, *flags = argv
    try:
        plan = SimulationPlan.from_line(line)
        dilate(plan.dilation)
        if name == "gateway":
            return run_gateway(flags)
        virtual = VirtualDevice(BatchCurve(plan.times.batches))
        with Device(name, virtual, MonotonicClock()) as device:
            _STAGES[name](plan, device, flags)
    except VisavisError as error:
        exit_with(name, error)


if __name__ == "__main__":
    main(sys.argv[1:])
