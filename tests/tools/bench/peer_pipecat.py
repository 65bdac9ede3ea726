"""Pipecat and visavis answer the same questions, with the same weights, on the same machine.

    python -m tests.tools.bench.peer_pipecat --json peer.json        # about 70 minutes a model
    python -m tests.tools.bench.peer_pipecat --count 3 --rounds 1 --models smollm2-135m
    python -m tests.tools.bench.peer_pipecat --peers vad,vad-webrtc --voice-alone

For each language model: our stack (with a face) and Pipecat (without one), with Silero alone
("vad") and with smart-turn ("smart"), by turns: each answers a block of questions in fresh
processes while nothing of the others runs, then all answer the next block in the other order.
Pipecat's visitor is in its own process, where nothing is encoded, or ("-webrtc") at the other end
of a connection, as ours is. All hear the same clips in real time, answer at temperature 0 with the
same persona and length limit, begin a new conversation after so many turns, and are interrupted by
the same sentences. Pipecat's recogniser and language model read what ours read, laid out for the
CPU, unless `--weights published` has them read what was pulled; the report names the file of each.
Not a test: it prints ratios, ours by theirs, with the interval that holds them 19 times of 20;
first those on questions that nothing was tuned on.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from services.llm.settings import LlmSettings
from tests.tools.bench.peer.caller import called
from tests.tools.bench.peer.figures import (
    COMPARED,
    compared,
    interruption_of,
    paired,
    ratio,
    turn_of,
)
from tests.tools.bench.peer.rounds import Block, blocks_of, order
from tests.tools.bench.peer.venv import default_folder, ready_python
from visavis.bundles.gguf.prepared import laid_out_file
from visavis.bundles.moonshine_eight_bit import graph_to_load
from visavis.bundles.store import bundle_path
from visavis.client import GatewayClient
from visavis.large_pages import large_pages
from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.serving.settings import SECTIONS, env_prefix
from visavis.tools.bench.barge_in import LONG_QUESTIONS, BargeInBench, Interruption
from visavis.tools.bench.figures.processes import find_processes
from visavis.tools.bench.figures.report import machine, machine_kind
from visavis.tools.bench.figures.turn_figures import TurnFigures, groups_of, standing
from visavis.tools.bench.held_out import own_clips, ready_held_out
from visavis.tools.bench.latency import LatencyBench, LatencyPlan
from visavis.tools.bench.questions import ready_set, write_clip
from visavis.tools.bench.turns import load_turn_clips
from visavis.tools.bench.visitor.clips import (
    HELD_OUT,
    RATE_HZ,
    TUNED,
    Clip,
    SpeechSpan,
    choose,
    load_clips,
)
from visavis.tools.bench.visitor.idle_life import draw_idle_life
from visavis.tools.bench.visitor.visitor import Drawer
from visavis.tools.cli.models import pull_missing, pull_profile
from visavis.tools.cli.up import stack_arguments
from visavis.tools.output import check_output, write_json
from visavis.tools.shown import output_console
from visavis.tools.stack.process import log_dir
from visavis.tools.stack.supervisor import Stack, StackOptions

PROFILES = {"smollm2-135m": "tiny", "qwen2.5-coder-0.5b-instruct": "default"}
MODES = ("vad", "smart")
CALLED = "-webrtc"
PEERS = (*MODES, *(f"{mode}{CALLED}" for mode in MODES))
OURS, VOICE_ALONE = "visavis", "visavis, voice alone"
RECOGNISER, VOICE = "moonshine-tiny-en", "hibari-en"
ROOT = Path(__file__).parents[3]
FEWEST_INTERRUPTIONS = 20
TEMPERATURE = 0.0
_SPOKEN_S, _WATCH_S = 1.5, 3.0
_AGENT_MARGIN_S = 600.0
_UNITS = {"cpu_s": 1.0, "memory_bytes": 1e-6}
# All that an agent needs of ours; a variable that one side alone would read is in nobody's.
_ENVIRONMENT = ("PATH", "HOME", "LANG", "TMPDIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH")


class Weights(StrEnum):
    """What Pipecat's language model reads."""

    SAME = "same"
    PUBLISHED = "published"


@dataclass(frozen=True)
class Plan:
    """How both are asked."""

    listen_s: float
    turns_per_session: int
    max_tokens: int
    pipecat_weights: Weights


@dataclass
class Side:
    """What one of them did."""

    name: str
    weights: str
    """Name of the file that its language model reads."""
    turns: list[TurnFigures] = field(default_factory=list)
    interruptions: list[Interruption] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        groups = {
            name: {**standing(turns).to_dict(), "figures": compared(turns, self.interruptions)}
            for name, turns in groups_of(self.turns).items()
        }
        return {
            "name": self.name,
            "weights": self.weights,
            "groups": groups,
            "interruptions_that_stopped": sum(s.stopped for s in self.interruptions),
            "notes": self.notes,
            "turns": [turn.to_dict() for turn in self.turns],
            "interruptions": [sound.to_dict() for sound in self.interruptions],
        }


def main(
    models: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(PROFILES),
    clips: Annotated[Path | None, typer.Option(help="Folder of English WAVs.")] = None,
    recordings: Annotated[
        Path, typer.Option(help="Labelled set whose finished recordings of people are asked, too.")
    ] = ROOT / "tests" / "turns",
    count: Annotated[int, typer.Option(min=0, help="So many questions of a set; 0: all.")] = 0,
    rounds: Annotated[int, typer.Option(min=1, help="So many blocks, in both orders.")] = 4,
    interruptions: Annotated[int, typer.Option(min=0, help="So many interruptions.")] = 24,
    listen_s: Annotated[float, typer.Option(help="Each answer is cut after so long.")] = 3.0,
    turns_per_session: Annotated[int, typer.Option(min=1)] = 10,
    max_tokens: Annotated[int, typer.Option(help="Longest answer, for both.")] = 80,
    weights: Annotated[
        Weights, typer.Option(help="Pipecat's language model: the same file as ours, or as pulled.")
    ] = Weights.SAME,
    peers: Annotated[
        str,
        typer.Option(help=f"How Pipecat ends a turn and is reached, of {', '.join(PEERS)}."),
    ] = ",".join(MODES),
    voice_alone: Annotated[
        bool, typer.Option(help="Ours once more, whose visitors are sent no pictures.")
    ] = False,
    venv: Annotated[Path | None, typer.Option(help="Pipecat's environment.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write all figures.")] = None,
) -> None:
    """Measure both in one run, by turns, and print the ratios."""
    check_output(json_path, ".json")
    for variable in settings_in(os.environ):
        del os.environ[variable]
    console = output_console(highlight=False)
    chosen = _known("models", models, PROFILES)
    modes = _known("peers", peers, PEERS)
    python = ready_python(venv or default_folder(), console)
    asked = _asked(clips, recordings, count, console)
    into = load_clips(ready_set("interruptions", "tiny", console))
    repeated = [into[i % len(into)] for i in range(interruptions)]
    if interruptions < FEWEST_INTERRUPTIONS:
        console.print(f"Note: {interruptions} interruptions are too few to tell anything by")
    plan = Plan(listen_s, turns_per_session, max_tokens, weights)
    told = {"rounds": rounds, "language_model": language_model(plan)}
    result: dict[str, Any] = {
        "machine": machine(), "settings": told, "questions": len(asked), "models": {},
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="visavis-peer-") as folder:
        for model in chosen:
            sides = sides_of(model, weights, modes, voice_alone=voice_alone)
            for number, block in enumerate(blocks_of(asked, repeated, rounds)):
                for name in order(list(sides), number):
                    side = sides[name]
                    if name in (OURS, VOICE_ALONE):
                        drawn_by: Drawer = "server" if name == OURS else "client"
                        _ours(side, model, plan, block, drawn_by, Path(folder), console)
                    else:
                        _theirs(side, name, model, plan, block, python, Path(folder), console)
                    console.print(f"{model}, block {number + 1}: {summary(side)}")
                result["models"][model] = [side.to_dict() for side in sides.values()]
                if json_path is not None:
                    write_json(json_path, result)
            for group in groups_of(sides[OURS].turns):
                for ours in (name for name in (OURS, VOICE_ALONE) if name in sides):
                    console.print(table(model, group, [sides[ours], *(sides[m] for m in modes)]))


def _known(option: str, given: str, known: Iterable[str]) -> list[str]:
    """The names in a list with commas. Raises InvalidInputError."""
    names = [name for name in given.split(",") if name]
    if unknown := sorted(set(names) - set(known)):
        raise InvalidInputError(f"{option}: {', '.join(unknown)}; known are {', '.join(known)}")
    return names


def sides_of(
    model: str, weights: Weights, modes: Sequence[str], *, voice_alone: bool
) -> dict[str, Side]:
    """Everybody who answers, ours first."""
    own, theirs = ours_file(model).name, theirs_file(model, weights).name
    ours = {name: Side(name, own) for name in (OURS, *([VOICE_ALONE] if voice_alone else []))}
    return ours | {mode: Side(f"Pipecat, {mode}", theirs) for mode in modes}


def _asked(folder: Path | None, recordings: Path, count: int, console: Console) -> list[Clip]:
    """The folder's clips; else the held-out set, people, and our own voices' untuned half."""
    if folder is not None:
        return choose(load_clips(folder, "en"), count)
    held_out = load_clips(ready_held_out("tiny", console))
    own = [clip for clip in own_clips("en", "tiny", console) if clip.group != TUNED]
    return [*choose(held_out, count), *choose(recorded(recordings), count), *choose(own, count)]


def recorded(folder: Path) -> list[Clip]:
    """People's finished turns in a labelled set, of the half that no rule was chosen on."""
    return [
        Clip(
            turn.path.stem,
            turn.sound(),
            SpeechSpan(turn.speech_start, turn.turn_end, "label"),
            turn.text,
            turn.language,
            HELD_OUT,
        )
        for turn in load_turn_clips(folder, "en", "test")
        if (turn.origin, turn.category) == ("recorded", "finished")
    ]


def settings_in(environ: Iterable[str]) -> list[str]:
    """Variables that would outrank what our services are told here."""
    ours = tuple(map(env_prefix, SECTIONS))
    return [variable for variable in environ if variable.startswith(ours)]


def language_model(plan: Plan) -> dict[str, Any]:
    """What both are told, word for word: the fields' defaults, whatever the environment says."""
    defaults = LlmSettings.model_fields
    return {
        "threads": defaults["threads"].default,
        "persona": defaults["persona"].default,
        "temperature": TEMPERATURE,
        "max_tokens": plan.max_tokens,
    }


def _ours(
    side: Side,
    model: str,
    plan: Plan,
    block: Block,
    drawn_by: Drawer,
    folder: Path,
    console: Console,
) -> None:
    """A block of our own stack, which begins and ends with it."""
    profile = PROFILES[model]
    pull_profile(profile, console)
    pull_missing([model], console)
    config = folder / "visavis.toml"
    told = {"model": model, **language_model(plan)}
    lines = (f"{name} = {json.dumps(value)}" for name, value in told.items())
    config.write_text("\n".join(["[llm]", *lines, ""]), encoding="utf-8")
    arguments = stack_arguments(profile, config)

    async def run() -> None:
        options = StackOptions(log_dir=log_dir() / "peer", arguments=arguments)
        async with Stack(options) as stack:
            async with GatewayClient(stack.url) as client:
                addresses = [replica.grpc_address for replica in stack.replicas]
                processes = find_processes(stack.url, addresses)
                side.notes += await draw_idle_life(
                    client, block.clips[-1], "webrtc", drawn_by, tell=lambda _: None
                )
                latency = LatencyPlan(plan.turns_per_session, plan.listen_s, "webrtc", drawn_by)
                bench = LatencyBench(client, processes, latency, lambda _: None)
                run = await bench.run(block.clips)
                into = BargeInBench(client, lambda _: None, "webrtc")
                spoken_over = block.interruptions if drawn_by == "server" else []
                cut = await into.run([("interruption", clip) for clip in spoken_over])
        side.turns += run.turns
        side.interruptions += cut
        side.notes += run.notes

    with console.status(f"{model}: {side.name}, {len(block.clips)} questions …"):
        asyncio.run(run())


def _theirs(
    side: Side,
    mode: str,
    model: str,
    plan: Plan,
    block: Block,
    python: Path,
    folder: Path,
    console: Console,
) -> None:
    """A block of an agent of Pipecat's, which begins and ends with it."""
    job = agent_job(model, mode.removesuffix(CALLED), plan, block, folder)
    job_path = folder / "job.json"
    job_path.write_text(json.dumps(job), encoding="utf-8")
    spoken_s = sum(len(clip.pcm) for clip in (*block.clips, *block.interruptions)) / RATE_HZ
    patience_s = 2 * spoken_s + 40.0 * (len(block.clips) + len(block.interruptions))
    with console.status(f"{model}: Pipecat ({mode}), {len(block.clips)} questions …"):
        visiting = _called if mode.endswith(CALLED) else _inside
        told = visiting(python, job_path, job, block, patience_s + _AGENT_MARGIN_S)
    groups = {clip.name: clip.group for clip in block.clips}
    for one in told:
        if one["kind"] == "interruption":
            side.interruptions.append(interruption_of(one))
        else:
            side.turns.append(replace(turn_of(one), group=groups[one["clip"]]))


def _inside(
    python: Path, job_path: Path, job: Mapping[str, Any], block: Block, patience_s: float
) -> list[dict[str, Any]]:
    """What a visitor in the agent's own process noted."""
    result_path = job_path.with_name("result.json")
    command = (str(python), "-m", "tests.tools.bench.peer.inside", str(job_path), str(result_path))
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=agent_environment(),
        capture_output=True,
        text=True,
        timeout=patience_s,
    )
    if done.returncode:
        raise VisavisError(f"Pipecat's agent failed:\n{done.stderr[-3000:]}")
    told: list[dict[str, Any]] = json.loads(result_path.read_text(encoding="utf-8"))
    return told


def _called(
    python: Path, job_path: Path, job: Mapping[str, Any], block: Block, patience_s: float
) -> list[dict[str, Any]]:
    """What a visitor noted who reached the agent over WebRTC."""
    command = [str(python), "-m", "tests.tools.bench.peer.called", str(job_path)]

    async def visit() -> list[dict[str, Any]]:
        async with asyncio.timeout(patience_s):
            return await called(command, agent_environment(), job_path.parent, job, block)

    return asyncio.run(visit())


def agent_environment() -> dict[str, str]:
    """What an agent's process is told; one thread a network and large pages, as our own stack's
    processes."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {**kept, **large_pages(), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def ours_file(model: str) -> Path:
    """What our service loads by default: it has been made by then, this finds it."""
    return laid_out_file(bundle_path(model) / "model.gguf", model)


def theirs_file(model: str, weights: Weights) -> Path:
    """What Pipecat's language model loads."""
    return ours_file(model) if weights is Weights.SAME else bundle_path(model) / "model.gguf"


def theirs_ears(weights: Weights, folder: Path) -> Path:
    """Where Pipecat's recogniser is read from: `folder` has it as our service computes it."""
    published = bundle_path(RECOGNISER)
    if weights is not Weights.SAME:
        return published
    for part in ("encoder.onnx", "decoder.onnx"):
        (folder / part).write_bytes(graph_to_load(published / part))
    shutil.copy(published / "tokenizer.json", folder)
    return folder


def agent_job(model: str, mode: str, plan: Plan, block: Block, folder: Path) -> dict[str, Any]:
    """What an agent reads; its clips are written into `folder`."""
    told = language_model(plan)
    return {
        "mode": mode,
        "gguf": str(theirs_file(model, plan.pipecat_weights)),
        "moonshine": str(theirs_ears(plan.pipecat_weights, folder)),
        "voice": str(bundle_path(VOICE) / "hibari-durations.onnx"),
        "threads": 1,
        "llm_threads": told["threads"],
        "persona": told["persona"],
        "temperature": told["temperature"],
        "max_tokens": told["max_tokens"],
        "turns_per_session": plan.turns_per_session,
        "clips": [_told(clip, folder) for clip in block.clips],
        "interruptions": [_told(clip, folder) for clip in block.interruptions],
        "long_question": LONG_QUESTIONS["en"],
        "listen_s": plan.listen_s,
        "spoken_s": _SPOKEN_S,
        "watch_s": _WATCH_S,
    }


def _told(clip: Clip, folder: Path) -> dict[str, Any]:
    """The clip for the agent, which reads 16 kHz WAVs only."""
    path = folder / f"{clip.name}.wav"
    write_clip(path, clip.pcm)
    span = clip.span
    return {
        "name": clip.name,
        "path": str(path),
        "start_samples": span.start_samples,
        "end_samples": span.end_samples,
    }


def summary(side: Side) -> str:
    """One line for who waits."""
    figure = _spread(compared(side.turns, [])["voice_to_voice"], "")
    notes = "".join(f" ({note})" for note in side.notes)
    return f"{side.name} ({side.weights}): {standing(side.turns)}, {figure} s{notes}"


def table(model: str, group: str, sides: Sequence[Side]) -> Table:
    """P50 / P90 of each over one set of questions, and ours by theirs over those that count on
    both sides.
    """
    turns = [groups_of(side.turns).get(group, []) for side in sides]
    spreads = [compared(t, s.interruptions) for t, s in zip(turns, sides, strict=True)]
    title = f"{model}, {group}, {machine_kind()}: P50 / P90, and ours by theirs (19 times of 20)"
    made = Table("figure", sides[0].name, title=title, title_justify="left")
    for side in sides[1:]:
        made.add_column(side.name)
        made.add_column("ratio", justify="right")
    for name in COMPARED:
        row = [name, _spread(spreads[0][name], name)]
        for other, spread in zip(turns[1:], spreads[1:], strict=True):
            row += [_spread(spread[name], name), _ratios(spreads[0], spread, turns[0], other, name)]
        made.add_row(*row)
    both = [paired(turns[0], other, "voice_to_voice", 50) for other in turns[1:]]
    counts = [str(found.questions) if found else "0" for found in both]
    made.add_row("counted on both sides", "", *(cell for n in counts for cell in ("", n)))
    standings = [standing(of_side).to_dict() for of_side in turns]
    for name in standings[0]:
        cells = ["-" if told[name] is None else str(told[name]) for told in standings]
        made.add_row(name, cells[0], *(cell for other in cells[1:] for cell in (other, "")))
    return made


def _spread(summary: Mapping[str, Any] | None, name: str) -> str:
    if summary is None:
        return "-"
    scale = _UNITS.get(name, 1.0)
    places = 0 if scale != 1.0 else 3
    return f"{summary['p50'] * scale:.{places}f} / {summary['p90'] * scale:.{places}f}"


def _ratios(
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    our_turns: Sequence[TurnFigures],
    their_turns: Sequence[TurnFigures],
    name: str,
) -> str:
    """ "0.50 (0.45 – 0.56) / 0.61 (0.52 – 0.70)"."""
    told = []
    for key, percentile in (("p50", 50), ("p90", 90)):
        if name == "barge_in_to_silence":  # which is no question's
            value = ratio(ours[name], theirs[name], key)
            told.append("-" if value is None else f"{value:.2f}")
            continue
        found = paired(our_turns, their_turns, name, percentile)
        within = None if found is None else found.within
        span = "" if within is None else f" ({within[0]:.2f} – {within[1]:.2f})"
        told.append("-" if found is None else f"{found.value:.2f}{span}")
    return " / ".join(told)


if __name__ == "__main__":
    typer.run(main)
