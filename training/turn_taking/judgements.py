"""Notes what asr knows at every pause of labelled clips, for fitting what it makes of it.

    python -m training.turn_taking.judgements FOLDER --out judgements.jsonl

The listener waits far longer than in service, so that every pause of a clip is judged with all
that was said before it. `calibration.py` reads the file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from services.asr.hearing.networks import Hearing
from services.asr.hearing.transcript import Transcript
from services.asr.servicer import open_hearing
from services.asr.session import ListeningSession
from services.asr.settings import AsrSettings
from services.asr.stream import Listener
from services.asr.turns.completeness import finished_odds
from services.asr.turns.endpointing import EndpointRules
from services.asr.utterance import Output, Utterance
from visavis.tools.bench.turns import RATE_HZ, TurnClip, load_turn_clips
from visavis.wire.clock import MonotonicClock

_SLACK_SAMPLES = RATE_HZ // 10
_WAIT_FRAMES = 50
# Longer than any pause of the clips, and shorter than the silence behind them.
PATIENT = EndpointRules(
    shortest_wait_frames=_WAIT_FRAMES,
    longest_wait_frames=_WAIT_FRAMES,
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One opinion on one pause. Samples at 16 kHz."""

    clip: str
    half: str
    kind: str
    language: str
    origin: str
    noise: str
    text: str
    speech_end: int
    """Where the listener takes the speech to have ended."""
    turn_end: int
    goes_on: int
    """Where the speaker goes on; 0: he does not."""
    silent_frames: int
    """So long the silence was by then."""
    end_of_turn: float
    odds: float


class _Noting(Listener):
    """A listener that notes each opinion."""

    def note(self, notes: list[dict[str, Any]]) -> None:
        self._notes = notes

    def _weigh_pause(self, utterance: Utterance) -> list[Output]:
        whole = utterance.whole()
        if utterance.text is not None and whole.text and utterance.end_of_turn is not None:
            self._notes.append(
                {
                    "text": whole.text,
                    "speech_end": utterance.speech_end,
                    "silent_frames": self._endpointer.silent_frames,
                    "end_of_turn": utterance.end_of_turn,
                    "odds": finished_odds(whole.text, whole.language),
                    "language": whole.language,
                }
            )
        return super()._weigh_pause(utterance)

    def _opinion_tells(self, odds: float, whole: Transcript) -> bool:
        """In service it is asked where it could change the wait; here it is noted always."""
        return True


async def noted(hearing: Hearing, clip: TurnClip) -> list[Judgement]:
    """Every opinion on every pause of the clip."""
    session = ListeningSession(
        hearing,
        clip.language,
        interim_results=True,
        rules=PATIENT,
        clock=MonotonicClock(),
        recorded=True,
    )
    code, _ = hearing.languages.resolve(clip.language)
    listener = _Noting(code, interim_results=True, rules=PATIENT)
    notes: list[dict[str, Any]] = []
    listener.note(notes)
    session._listener = listener
    sound = await asyncio.to_thread(clip.sound)
    async with session:
        for start in range(0, len(sound), RATE_HZ // 50):
            await session.hear(sound[start : start + RATE_HZ // 50], RATE_HZ)
            session.ready_events()
    return [_judgement(clip, note) for note in notes]


def _judgement(clip: TurnClip, note: dict[str, Any]) -> Judgement:
    end = note["speech_end"]
    over = end >= clip.turn_end - _SLACK_SAMPLES
    ends = [last for first, last in clip.pauses if first - _SLACK_SAMPLES <= end <= last]
    # A pause that nobody labelled is one within a word or two: it lasts no longer than that.
    goes_on = 0 if over else ends[0] if ends else min(clip.turn_end, end + RATE_HZ // 5)
    return Judgement(
        clip=clip.path.name,
        half=clip.half,
        kind=clip.category,
        origin=clip.origin,
        noise=clip.noise,
        turn_end=clip.turn_end,
        goes_on=goes_on,
        **note,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("folders", type=Path, nargs="+")
    options.add_argument("--half", default="")
    options.add_argument("--out", type=Path, required=True)
    chosen = options.parse_args()
    clips = [c for folder in chosen.folders for c in load_turn_clips(folder, half=chosen.half)]

    async def run() -> list[Judgement]:
        hearing = open_hearing(AsrSettings.model_validate({"profile": "default"}))
        await hearing.load()
        found = [judgement for clip in clips for judgement in await noted(hearing, clip)]
        await asyncio.to_thread(hearing.close)
        return found

    lines = [json.dumps(asdict(j), ensure_ascii=False) for j in asyncio.run(run())]
    chosen.out.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
