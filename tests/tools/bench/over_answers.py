"""What stops an answer and what does not, many times over, without a stack.

    python -m tests.tools.bench.over_answers sounds --json over.json
    python -m tests.tools.bench.over_answers echo --json echo.json
    python -m tests.tools.bench.over_answers noise --json noise.json
    python -m tests.tools.bench.over_answers soft --half tune --json soft.json

The real parts in one process and in time of the sound: asr's networks and listener, the gateway's
conversation, judge and playout, with a loudspeaker and a room between them (simulated). What asr
tells reaches the conversation when its networks have computed it, so a busy machine makes figures
worse, never better. The sounds are made by training/turn_taking/material.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.playout.playout import Playout, PlayoutEvent
from gateway.settings import GatewaySettings
from gateway.stages.incoming import heard
from gateway.talk.actions import Action, AnnounceTurn, DuckTurn, PauseTurn, ResumeTurn
from gateway.talk.conversation import Conversation
from gateway.talk.history import SpokenMark
from gateway.talk.interruption import Interruption
from gateway.talk.microphone import level_of
from gateway.talk.speech_over import BargeIn
from services.asr.hearing.networks import Hearing
from services.asr.servicer import open_hearing
from services.asr.session import ListeningSession, chunk_of
from services.asr.settings import AsrSettings
from services.asr.utterance import Heard
from training.turn_taking.material.over_answers import OverAnswer, load
from training.turn_taking.material.rooms import response_of
from visavis.tools.bench.turns import TurnClip, load_turn_clips
from visavis.tools.bench.visitor.clips import read_mono
from visavis.wire.clock import MonotonicClock
from visavis.wire.media import Place, TranscriptChunk, TranscriptEvent

RATE_HZ = 16_000
AFTER_S: float = GatewaySettings.model_fields["barge_in_after_s"].default
_TICK_S = 0.02
_TICK_SAMPLES = 320
_VISITOR_DB = -23.0
_ROOM_RMS = 10 ** (-62 / 20)
# Sound and events on their way through gateway, bus and asr.
_HOPS_S = 0.005
# So much of the answer has been heard when the sound begins, and so long it is watched.
_BEFORE_S, _WATCH_S = 1.5, 3.0
# Longer than what is compared to tell an echo.
_IDLE_S = 2.0
# A visitor's levels: of his own, then each softer one behind another of his own.
_SOFTER_DB = (6.0, 10.0, 12.0, 16.0, 20.0)
_TELEVISION_BELOW_DB = 20.0
# Between what a visitor says, for an answer; and before the first soft one.
_ANSWERED_S, _ALONE_S = 6.0, 20.0
# A loudspeaker that is loud is not linear.
_DRIVE = 1.5
_ECHO_ROOMS = ("study", "office", "kitchen", "hall", "study")
_DELAYS_S = (0.03, 0.06, 0.1, 0.15, 0.2)


@dataclass
class Outcome:
    """What became of one answer. Seconds from the first sample of the sound."""

    name: str
    kind: str
    stopped: bool = False
    """The answer was given up."""
    silent_s: float | None = None
    """Until its last sample left, where it was given up; `hushed_s` where it only paused."""
    hushed_s: float | None = None
    goes_on_s: float | None = None
    """Until it went on for good, where it paused and was not given up."""
    paused: int = 0
    ducked: int = 0
    understood: list[str] = field(default_factory=list)
    """When, in what event and what words."""
    text: str = ""
    voice: str = ""
    room: str = ""


class Loudspeaker:
    """What the microphone hears of what is played: room, delay and level are simulated."""

    def __init__(self, level_db: float | None, room: str = "", delay_s: float = 0.0) -> None:
        """level_db: of the echo against what is played; None: none."""
        self._on = level_db is not None
        response = response_of(room) if room else np.ones(1, np.float32)
        lead = np.zeros(round(delay_s * RATE_HZ), np.float32)
        self._response = np.concatenate([lead, response])
        self._response *= 10 ** ((level_db or 0.0) / 20) / np.sqrt(np.sum(response**2))
        self._coming = np.zeros(_TICK_SAMPLES + len(self._response), np.float32)

    def play(self, pcm: NDArray[np.int16]) -> NDArray[np.float32]:
        """pcm: [960] int16 at 48 kHz; [320] float32 that comes back meanwhile."""
        if not self._on:
            return np.zeros(_TICK_SAMPLES, np.float32)
        played = pcm.reshape(-1, 3).mean(axis=1).astype(np.float32) / np.float32(32768)
        played = np.tanh(_DRIVE * played) / _DRIVE
        self._coming[: len(self._response) + _TICK_SAMPLES - 1] += np.convolve(
            played, self._response
        )
        now = self._coming[:_TICK_SAMPLES].copy()
        self._coming = np.concatenate(
            [self._coming[_TICK_SAMPLES:], np.zeros(_TICK_SAMPLES, np.float32)]
        )
        return now


class Answer:
    """An answer that is being told, with whatever the microphone hears over it."""

    def __init__(
        self, hearing: Hearing, language: str, voice: NDArray[np.int16], text: str,
        speaker: Loudspeaker,
    ) -> None:  # fmt: skip
        """voice: [N] int16 at 16 kHz, of `text`."""
        self._playout, self._speaker = Playout(), speaker
        self.conversation = Conversation()
        judge = BargeIn(AFTER_S)
        self._interruption = Interruption("bench", self._playout, judge)
        self._listening = ListeningSession(
            hearing, language, interim_results=True, clock=MonotonicClock(), recorded=True,
            rules=AsrSettings.model_validate({}).endpoint_rules(),
        )  # fmt: skip
        self._waiting: list[tuple[float, TranscriptChunk]] = []
        self._now = -_IDLE_S
        self._told = (np.repeat(voice, 3), text)
        self._language = language
        self._room = np.random.default_rng(1)
        self._leaving = np.zeros(0, np.int16)
        """What the avatar says and nobody has heard yet."""
        self.told: list[tuple[float, Action]] = []
        self.chunks: list[tuple[float, TranscriptChunk]] = []
        self.levels: list[tuple[float, float]] = []
        """When a tick left, and the loudest sample in it."""

    async def begin(self) -> None:
        """The session was there for some time; the answer begins at 0 s."""
        for _ in range(round(_IDLE_S / _TICK_S)):
            await self.hear(np.zeros(_TICK_SAMPLES, np.float32))
        self._now = 0.0
        voice, text = self._told
        talk, seconds = self.conversation, len(voice) / 48_000
        self._perform(talk.submit_text("Tell me more.", 0.0))
        self._perform(talk.token(1, text, last=True, now=0.0))
        ends = [i for i, c in enumerate(text + " ") if c == " "]
        marks = [SpokenMark(end, seconds * end / len(text)) for end in ends]
        self._playout.push_voice(1, voice, last=True)
        self._perform(talk.voice(1, seconds, marks, last=True, now=0.0))

    async def hear(self, pcm: NDArray[np.float32]) -> None:
        """The next 20 ms of what others than the avatar make: [320] float32."""
        while len(self._leaving) < 3 * _TICK_SAMPLES:
            self._tick()
        played, self._leaving = np.split(self._leaving, [3 * _TICK_SAMPLES])
        noise = self._room.normal(size=_TICK_SAMPLES) * _ROOM_RMS
        mixed = np.clip(pcm + self._speaker.play(played) + noise, -1, 1)
        sound = (mixed * 32767).astype(np.int16)
        self._now += _TICK_S
        self._interruption.hear(sound, level_of(sound), self._now)
        await self._listening.hear(sound, RATE_HZ)
        for event in self._listening.ready_events():
            place = Place("", 0, 0, event.at_samples)
            known_s = self._now + event.compute_s + _HOPS_S
            self._waiting.append((known_s, chunk_of(event, place)))
        self._deliver()
        self._perform(self.conversation.check(self._now))

    def _tick(self) -> None:
        """What leaves next, some of which may be for the 20 ms after these."""
        tick = self._playout.tick()
        self._leaving = np.concatenate([self._leaving, tick.pcm])
        self.levels.append((self._now, float(np.abs(tick.pcm).max())))
        talk = self.conversation
        if talk.turn is not None:
            talk.played(talk.turn.number, self._playout.played_samples / 48_000, self._now)
        for event, number in tick.events:
            if event is PlayoutEvent.STARTED:
                self._perform(talk.started(number))
            elif event is PlayoutEvent.FINISHED:
                self._perform(talk.finished(number, self._now))
        self._perform(self._interruption.tick(tick.pcm, talk, self._now))

    def _deliver(self) -> None:
        """In order, as a bus does: what was computed sooner waits for what came before it."""
        while self._waiting and self._waiting[0][0] <= self._now:
            _, chunk = self._waiting.pop(0)
            self.chunks.append((self._now, chunk))
            if chunk.event is TranscriptEvent.SPEECH_STARTED:
                onset_s = chunk.place.pts / RATE_HZ - _IDLE_S
                self._interruption.speech_began(onset_s, self._now)
            self._perform(heard(self.conversation, chunk, self._now))
            self._perform(self._interruption.judge(self.conversation, self._now))

    def _perform(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self.told.append((self._now, action))
            match action:
                case AnnounceTurn():
                    self._interruption.void(action.reason, self._now)
                    if action.opens:
                        self._playout.open_turn(action.turn, held=action.held)
                    else:
                        self._playout.void(action.turn)
                case DuckTurn() | PauseTurn() | ResumeTurn():
                    self._interruption.carry_out(action, self._now)
                case _:
                    pass

    async def close(self) -> None:
        async with self._listening:
            pass


def outcome_of(name: str, kind: str, answer: Answer, onset_s: float) -> Outcome:
    """What was done to turn 1 from `onset_s` on."""
    told = [(at, a) for at, a in answer.told if at >= onset_s]
    ended = [at for at, a in told if isinstance(a, AnnounceTurn) and a.reason == "speech"]
    pauses = [at for at, a in told if isinstance(a, PauseTurn)]
    ducks = sum(isinstance(a, DuckTurn) for _, a in told)
    outcome = Outcome(name, kind, bool(ended), paused=len(pauses), ducked=ducks)
    loud = [at + _TICK_S for at, level in answer.levels if level > 30]
    if ended:
        last = max((at for at in loud if at <= ended[0] + _TICK_S), default=onset_s)
        outcome.silent_s = max(0.0, last - onset_s)
    elif pauses:
        outcome.hushed_s = pauses[0] - onset_s
        resumed = (at for at, a in told if isinstance(a, ResumeTurn) and at > pauses[-1])
        again_s = next(resumed, None)
        outcome.goes_on_s = None if again_s is None else again_s - onset_s
    outcome.understood = [
        f"{at - onset_s:.2f} {chunk.event.name.lower()} {chunk.text}"
        for at, chunk in answer.chunks
        if chunk.text
    ]
    return outcome


def answers_of(folder: Path, half: str) -> list[tuple[NDArray[np.int16], str]]:
    """Voice, [N] int16 at 16 kHz, and text of each."""
    return [
        (read_mono(p, RATE_HZ), p.with_suffix(".txt").read_text("utf-8").strip())
        for p in _answer_paths(folder, half)
    ]


def _answer_paths(folder: Path, half: str) -> list[Path]:
    return sorted(folder.glob(f"answer_{half}_*.opus"))


def _frames(pcm: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(pcm), _TICK_SAMPLES):
        frame = pcm[start : start + _TICK_SAMPLES]
        yield np.pad(frame, (0, _TICK_SAMPLES - len(frame)))


async def over_one(
    hearing: Hearing, sound: OverAnswer, folder: Path, answer: tuple[NDArray[np.int16], str],
    speaker: Loudspeaker, round_: int = 0,
) -> Outcome:  # fmt: skip
    """The sound over the middle of the answer."""
    pcm = read_mono(folder / sound.file, RATE_HZ).astype(np.float32) / np.float32(32768)
    # Not always at the same place between the words, nor in the frames of the networks.
    before_s = _BEFORE_S + 0.037 * ((hash_of(sound.file) + 7 * round_) % 20)
    before = np.zeros(round(before_s * RATE_HZ), np.float32)
    after = np.zeros(round(_WATCH_S * RATE_HZ), np.float32)
    talk = Answer(hearing, sound.language or "en", *answer, speaker)
    await talk.begin()
    for frame in _frames(np.concatenate([before, pcm, after])):
        await talk.hear(frame)
    await talk.close()
    found = outcome_of(sound.file, sound.kind, talk, before_s + sound.start / RATE_HZ)
    found.text, found.voice, found.room = sound.text, sound.voice, sound.room
    return found


def hash_of(name: str) -> int:
    return sum(ord(c) * (n + 1) for n, c in enumerate(name))


async def sounds(
    hearing: Hearing, folder: Path, half: str, echo_db: float | None, *, every: int, rounds: int,
    languages: Sequence[str],
) -> list[Outcome]:  # fmt: skip
    """Every sound of a half over an answer; in each round another, at another place.

    languages: "" is that of noises.
    """
    answers, done = answers_of(folder, half), []
    wanted = [sound for sound in load(folder, half) if sound.language in languages]
    for n, sound in enumerate(wanted[::every]):
        for k in range(rounds):
            speaker = Loudspeaker(echo_db, _ECHO_ROOMS[(n + k) % 5], _DELAYS_S[n // 5 % 5])
            answer = answers[(n + 3 * k) % len(answers)]
            done.append(await over_one(hearing, sound, folder, answer, speaker, k))
    return done


async def echoes(hearing: Hearing, folder: Path, half: str, echo_db: float) -> list[Outcome]:
    """Each answer in each room, to its end: nobody else makes a sound."""
    done = []
    for n, answer in enumerate(answers_of(folder, half)):
        for k, room in enumerate(_ECHO_ROOMS):
            delay_s = _DELAYS_S[(n + k) % len(_DELAYS_S)]
            talk = Answer(hearing, "en", *answer, Loudspeaker(echo_db, room, delay_s))
            await talk.begin()
            silence = np.zeros(_TICK_SAMPLES, np.float32)
            for _ in range(len(answer[0]) // _TICK_SAMPLES + 150):
                await talk.hear(silence)
            await talk.close()
            found = outcome_of(f"answer {n}, {room}, {delay_s:g} s", "echo", talk, 0.0)
            found.stopped = any(isinstance(a, AnnounceTurn) and a.turn > 1 for _, a in talk.told)
            found.room = room
            done.append(found)
    return done


async def noises(
    hearing: Hearing,
    paths: Sequence[Path],
    levels_db: Sequence[float],
    visitor: NDArray[np.int16] | None,
) -> list[dict[str, Any]]:
    """What is called a turn of what is none. levels_db: RMS, of full scale.

    visitor: [N] at 16 kHz, who speaks once, at the beginning; what he says is not counted.
    """
    done: list[dict[str, Any]] = []
    for path in paths:
        pcm = read_mono(path, RATE_HZ).astype(np.float32)
        for level_db in levels_db:
            played = pcm * (32768 * 10 ** (level_db / 20) / float(np.std(pcm)))
            room = np.random.default_rng(2).normal(size=len(played)) * 32768 * _ROOM_RMS
            said = 0 if visitor is None else len(visitor)
            if visitor is not None:
                loudness = float(np.sqrt(np.mean(np.square(visitor, dtype=np.float64))))
                # Behind half a second in which the room is heard.
                at = slice(RATE_HZ // 2, RATE_HZ // 2 + said)
                played[at] += visitor * (32768 * 10 ** (_VISITOR_DB / 20) / loudness)
                said += 3 * RATE_HZ
            heard = np.clip(played + room, -32768, 32767).astype(np.int16)
            found = await _finals(hearing, heard, said)
            minutes = len(pcm) / RATE_HZ / 60
            done.append(
                {"noise": path.stem, "level_db": level_db, "minutes": round(minutes, 1),
                 "answers": len(found), "texts": found[:40]}
            )  # fmt: skip
            print(json.dumps(done[-1], ensure_ascii=False), flush=True)  # noqa: T201
    return done


async def _heard(
    hearing: Hearing, pcm: NDArray[np.int16], language: str
) -> AsyncIterator[tuple[int, Heard]]:
    """What a session makes of a sound: the sample up to which it had come before, and the event."""
    listening = ListeningSession(
        hearing, language, interim_results=False, clock=MonotonicClock(), recorded=True,
        rules=AsrSettings.model_validate({}).endpoint_rules(),
    )  # fmt: skip
    async with listening:
        for start in range(0, len(pcm), _TICK_SAMPLES):
            await listening.hear(pcm[start : start + _TICK_SAMPLES], RATE_HZ)
            for event in listening.ready_events():
                yield start, event


async def _finals(hearing: Hearing, pcm: NDArray[np.int16], first: int) -> list[str]:
    """What ends as an utterance from sample `first` on."""
    return [
        event.text
        async for start, event in _heard(hearing, pcm, "en")
        if event.event is TranscriptEvent.FINAL and start >= first
    ]


@dataclass(frozen=True, slots=True)
class Said:
    """What a visitor says, by samples of the session, and how far below his own level."""

    below_db: float
    start: int
    end: int


def _soft_session(
    clip: TurnClip, others: Sequence[NDArray[np.float32]], seed: int
) -> tuple[NDArray[np.int16], list[Said]]:
    """[N] at 16 kHz: the clip over and over, twice at its own level and then softer each second
    time. others: who talk behind it all the time, one after the other."""
    levels_db = [0.0, 0.0, *(level for below in _SOFTER_DB for level in (below, 0.0))]
    pcm = read_mono(clip.path, RATE_HZ).astype(np.float32)
    pcm *= 10 ** (_VISITOR_DB / 20) / float(np.std(pcm[clip.speech_start : clip.turn_end]))
    said: list[Said] = []
    pieces = [np.zeros(RATE_HZ // 2, np.float32)]
    at = RATE_HZ // 2
    for n, below_db in enumerate(levels_db):
        rest = round((_ALONE_S if n == 1 else _ANSWERED_S) * RATE_HZ)
        said.append(Said(below_db, at + clip.speech_start, at + clip.turn_end))
        pieces += [pcm * 10 ** (-below_db / 20), np.zeros(rest, np.float32)]
        at += len(pcm) + rest
    heard = np.concatenate(pieces)
    choice = np.random.default_rng(seed)
    heard += choice.normal(size=at).astype(np.float32) * _ROOM_RMS
    voice = RATE_HZ
    while others and voice < at:
        other = others[int(choice.integers(len(others)))][: at - voice]
        level = 10 ** ((_VISITOR_DB - _TELEVISION_BELOW_DB) / 20)
        heard[voice : voice + len(other)] += other * level
        voice += len(other) + int(choice.uniform(0.3, 2.5) * RATE_HZ)
    return (np.clip(heard, -1, 1) * 32767).astype(np.int16), said


async def _turns(hearing: Hearing, pcm: NDArray[np.int16], language: str) -> list[tuple[int, int]]:
    """First sample and end of the speech of each final."""
    starts: dict[int, int] = {}
    turns: list[tuple[int, int]] = []
    async for _, event in _heard(hearing, pcm, language):
        if event.event is TranscriptEvent.SPEECH_STARTED:
            starts[event.utterance] = event.at_samples
        elif event.event is TranscriptEvent.FINAL:
            turns.append((starts[event.utterance], event.speech_end_samples))
    return turns


async def soft(hearing: Hearing, folder: Path, half: str, every: int) -> list[dict[str, Any]]:
    """Who is heard that speaks more softly than before, in a quiet room and before a television.

    Its voices are the half's others. Heard is what finals cover half of; what covers nothing of
    the visitor's is a turn of nobody.
    """
    clips = [c for c in load_turn_clips(folder, half=half) if c.noise.endswith("quiet")]
    done: list[dict[str, Any]] = []
    for behind in ("nobody", "television"):
        missed, nobodys, minutes = Counter[float](), 0, 0.0
        for n, clip in enumerate(clips[::every]):
            others = [_level_speech(c) for c in clips if c.voice != clip.voice]
            pcm, said = _soft_session(clip, others if behind == "television" else (), n)
            turns = await _turns(hearing, pcm, clip.language)
            for one in said:
                covered = sum(max(0, _overlap(one, turn)) for turn in turns)
                missed[one.below_db] += 2 * covered < one.end - one.start
            nobodys += sum(all(_overlap(one, turn) <= 0 for one in said) for turn in turns)
            minutes += len(pcm) / RATE_HZ / 60
        done.append(
            {"behind": behind, "visitors": len(clips[::every]), "minutes": round(minutes, 1),
             "missed": {f"{0 - db:g} dB": missed[db] for db in (0.0, *_SOFTER_DB)},
             "turns_of_nobody": nobodys}
        )  # fmt: skip
        print(json.dumps(done[-1]), flush=True)  # noqa: T201
    return done


def _level_speech(clip: TurnClip) -> NDArray[np.float32]:
    """The speech of a clip alone, [N] at 16 kHz with an RMS of 1."""
    pcm = read_mono(clip.path, RATE_HZ)[clip.speech_start : clip.turn_end].astype(np.float32)
    return pcm / np.float32(np.std(pcm))


def _overlap(said: Said, turn: tuple[int, int]) -> int:
    """Samples; none at all where it is negative."""
    return min(said.end, turn[1]) - max(said.start, turn[0])


def table(done: Sequence[Outcome]) -> dict[str, Any]:
    """Counts by kind; interruptions with their times."""
    told: dict[str, Any] = {}
    kinds = Counter(outcome.kind for outcome in done)
    for kind, n in kinds.items():
        of = [outcome for outcome in done if outcome.kind == kind]
        told[kind] = {
            "n": n,
            "stopped": sum(o.stopped for o in of),
            "paused": sum(o.paused > 0 and not o.stopped for o in of),
            "lower": sum(o.ducked > 0 and not o.paused and not o.stopped for o in of),
        }
        for name in ("silent", "goes_on"):
            times = [at for o in of if (at := getattr(o, f"{name}_s")) is not None]
            for share in (50, 95) if times else ():
                told[kind][f"{name}_p{share}_s"] = round(float(np.percentile(times, share)), 3)
    return told


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "visavis" / "bench"
    options.add_argument("what", choices=("sounds", "echo", "noise", "soft"))
    options.add_argument("--material", type=Path, default=cache / "turn_taking")
    options.add_argument("--half", choices=("tune", "test", "confirm"), default="test")
    options.add_argument("--every", type=int, default=1, help="only each so-manieth sound")
    options.add_argument("--languages", nargs="+", default=["en", "zh", ""])
    options.add_argument("--rounds", type=int, default=1, help="each over so many answers")
    options.add_argument("--echo-db", type=float, help="of the loudspeaker in the microphone")
    options.add_argument("--levels-db", type=float, nargs="+", default=[-43.0, -33.0])
    options.add_argument(
        "--visitor-first",
        action="store_true",
        help=f"noise: somebody speaks at its beginning, at {_VISITOR_DB:g} dB",
    )
    options.add_argument("--profile", default="default")
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()

    noise_paths = sorted((chosen.material / "noise").glob("*.opus"))
    folder = chosen.material / ("confirm" if chosen.half == "confirm" else "over")
    wanted = noise_paths if chosen.what == "noise" else _answer_paths(folder, chosen.half)
    if not wanted:
        options.error(
            f"{chosen.material} has none of it: `python -m training.turn_taking.material.making` "
            "makes the material, in some minutes"
        )

    async def run() -> Any:
        hearing = open_hearing(AsrSettings.model_validate({"profile": chosen.profile}))
        await hearing.load()
        try:
            if chosen.what == "noise":
                visitor = answers_of(folder, chosen.half)[0][0] if chosen.visitor_first else None
                return await noises(hearing, noise_paths, chosen.levels_db, visitor)
            if chosen.what == "soft":
                turns = chosen.material / "turns"
                return await soft(hearing, turns, chosen.half, chosen.every)
            if chosen.what == "sounds":
                done = await sounds(
                    hearing,
                    folder,
                    chosen.half,
                    chosen.echo_db,
                    every=chosen.every,
                    rounds=chosen.rounds,
                    languages=chosen.languages,
                )
            else:
                done = await echoes(
                    hearing, folder, chosen.half, -6.0 if chosen.echo_db is None else chosen.echo_db
                )
            for outcome in done:
                wrong = outcome.stopped != (outcome.kind == "interruption")
                if wrong or (outcome.silent_s or 0) > 0.25:
                    print(outcome)  # noqa: T201
            print(json.dumps(table(done), indent=1))  # noqa: T201
            return {"table": table(done), "sounds": [asdict(outcome) for outcome in done]}
        finally:
            await asyncio.to_thread(hearing.close)

    done = asyncio.run(run())
    if chosen.json:
        text = json.dumps(done, indent=1, ensure_ascii=False)
        chosen.json.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
