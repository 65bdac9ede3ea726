"""Pipecat and visavis answer the same questions, with the same weights, on the same machine.

    python -m tests.tools.bench.peer_pipecat --json peer.json        # about 40 minutes
    python -m tests.tools.bench.peer_pipecat --count 3 --models smollm2-135m

For each language model: our stack (with a face), then Pipecat (without one) with Silero alone
("vad") and with smart-turn ("smart"). Both hear the same clips in real time with true silence
after them, answer at temperature 0 with the same persona and length limit, begin a new
conversation after so many turns, and are interrupted by the same sentences. Pipecat's language
model reads the file that ours reads, laid out for the CPU, unless `--weights published` has it
read the one that was pulled; the report names the file of each. Not a test: it prints ratios,
ours by theirs.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from services.llm.settings import LlmSettings
from tests.tools.bench.pipecat_figures import compared, interruption_of, ratio, turn_of
from tests.tools.bench.pipecat_venv import default_folder, ready_python
from visavis.bundles.gguf.prepared import laid_out_file
from visavis.bundles.store import bundle_path
from visavis.client import GatewayClient
from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.tools.bench.barge_in import LONG_QUESTIONS, BargeInBench, Interruption
from visavis.tools.bench.figures.processes import find_processes
from visavis.tools.bench.figures.report import machine
from visavis.tools.bench.figures.tables import wide_console
from visavis.tools.bench.figures.turn_figures import TurnFigures
from visavis.tools.bench.latency import LatencyBench, LatencyPlan
from visavis.tools.bench.questions import chosen_clips, ready_set, write_clip
from visavis.tools.bench.visitor.clips import RATE_HZ, Clip, load_clips
from visavis.tools.cli.models import pull_missing, pull_profile
from visavis.tools.cli.up import stack_arguments
from visavis.tools.output import check_output, write_json
from visavis.tools.stack.process import log_dir
from visavis.tools.stack.supervisor import Stack, StackOptions

PROFILES = {"smollm2-135m": "tiny", "qwen2.5-coder-0.5b-instruct": "default"}
MODES = ("vad", "smart")
RECOGNISER, VOICE = "moonshine-tiny-en", "hibari-en"
ROOT = Path(__file__).parents[3]
TEMPERATURE = 0.0
_SPOKEN_S, _WATCH_S = 1.5, 3.0
_AGENT_MARGIN_S = 600.0
_UNITS = {"cpu_s": 1.0, "memory_bytes": 1e-6}


class Weights(StrEnum):
    """What Pipecat's language model reads."""

    SAME = "same"
    PUBLISHED = "published"


@dataclass(frozen=True)
class Plan:
    """What both are asked."""

    clips: list[Clip]
    interruptions: list[Clip]
    listen_s: float
    turns_per_session: int
    max_tokens: int
    pipecat_weights: Weights


@dataclass
class Side:
    """What one of the two did."""

    name: str
    weights: str
    """Name of the file that its language model reads."""
    turns: list[TurnFigures]
    interruptions: list[Interruption]
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "weights": self.weights,
            "figures": compared(self.turns, self.interruptions),
            "asked": len(self.turns),
            "counted": sum(turn.counted for turn in self.turns),
            "spoke_over_the_visitor": sum(turn.spoke_over for turn in self.turns),
            "notes": self.notes,
            "turns": [turn.to_dict() for turn in self.turns],
            "interruptions": [sound.to_dict() for sound in self.interruptions],
        }


def main(
    models: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(PROFILES),
    clips: Annotated[Path | None, typer.Option(help="Folder of English WAVs.")] = None,
    count: Annotated[int, typer.Option(min=0, help="So many questions; 0: all.")] = 40,
    interruptions: Annotated[int, typer.Option(min=0, help="So many interruptions.")] = 12,
    listen_s: Annotated[float, typer.Option(help="Each answer is cut after so long.")] = 3.0,
    turns_per_session: Annotated[int, typer.Option(min=1)] = 10,
    max_tokens: Annotated[int, typer.Option(help="Longest answer, for both.")] = 80,
    weights: Annotated[
        Weights, typer.Option(help="Pipecat's language model: the same file as ours, or as pulled.")
    ] = Weights.SAME,
    venv: Annotated[Path | None, typer.Option(help="Pipecat's environment.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write all figures.")] = None,
) -> None:
    """Measure both in one run and print the ratios."""
    check_output(json_path, ".json")
    console = wide_console()
    chosen = [name for name in models.split(",") if name]
    unknown = sorted(set(chosen) - set(PROFILES))
    if unknown:
        raise InvalidInputError(f"models: {', '.join(unknown)}; known are {', '.join(PROFILES)}")
    python = ready_python(venv or default_folder(), console)
    asked = chosen_clips(clips, "en", count, "tiny", console)
    into = load_clips(ready_set("interruptions", "tiny", console))
    repeated = [into[i % len(into)] for i in range(interruptions)]
    plan = Plan(asked, repeated, listen_s, turns_per_session, max_tokens, weights)
    result: dict[str, Any] = {"machine": machine(), "questions": len(asked), "models": {}}
    with tempfile.TemporaryDirectory(prefix="visavis-peer-") as folder:
        for model in chosen:
            sides = [_ours(model, plan, Path(folder), console)]
            console.print(summary(model, sides[-1]))
            for mode in MODES:
                sides.append(_theirs(model, mode, plan, python, Path(folder), console))
                console.print(summary(model, sides[-1]))
            result["models"][model] = [side.to_dict() for side in sides]
            console.print(table(model, result["models"][model]))
    if json_path is not None:
        write_json(json_path, result)


def _ours(model: str, plan: Plan, folder: Path, console: Console) -> Side:
    profile = PROFILES[model]
    pull_profile(profile, console)
    pull_missing([model], console)
    config = folder / "visavis.toml"
    config.write_text(
        f'[llm]\nmodel = "{model}"\nmax_tokens = {plan.max_tokens}\ntemperature = {TEMPERATURE}\n',
        encoding="utf-8",
    )
    arguments = stack_arguments(profile, config)

    async def run() -> Side:
        options = StackOptions(log_dir=log_dir() / "peer", arguments=arguments)
        async with Stack(options) as stack:
            async with GatewayClient(stack.url) as client:
                addresses = [replica.grpc_address for replica in stack.replicas]
                processes = find_processes(stack.url, addresses)
                latency = LatencyPlan(plan.turns_per_session, plan.listen_s, "webrtc")
                run = await LatencyBench(client, processes, latency, lambda _: None).run(plan.clips)
                into = BargeInBench(client, lambda _: None, "webrtc")
                cut = await into.run([("interruption", clip) for clip in plan.interruptions])
        return Side("visavis", ours_file(model).name, run.turns, cut, run.notes)

    with console.status(f"{model}: visavis, {len(plan.clips)} questions …"):
        return asyncio.run(run())


def _theirs(
    model: str, mode: str, plan: Plan, python: Path, folder: Path, console: Console
) -> Side:
    job_path, result_path = folder / "job.json", folder / "result.json"
    job_path.write_text(json.dumps(agent_job(model, mode, plan, folder)), encoding="utf-8")
    # As our own stack does for its processes.
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [
        str(python),
        "-m",
        "tests.tools.bench.pipecat_agent",
        str(job_path),
        str(result_path),
    ]
    spoken_s = sum(len(clip.pcm) for clip in (*plan.clips, *plan.interruptions)) / RATE_HZ
    patience_s = 2 * spoken_s + 40.0 * (len(plan.clips) + len(plan.interruptions))
    with console.status(f"{model}: Pipecat ({mode}), {len(plan.clips)} questions …"):
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=patience_s + _AGENT_MARGIN_S,
        )
    if done.returncode:
        raise VisavisError(f"Pipecat's agent failed:\n{done.stderr[-3000:]}")
    told = json.loads(result_path.read_text(encoding="utf-8"))
    return Side(
        f"Pipecat, {mode}",
        theirs_file(model, plan.pipecat_weights).name,
        [turn_of(one) for one in told if one["kind"] == "question"],
        [interruption_of(one) for one in told if one["kind"] == "interruption"],
    )


def ours_file(model: str) -> Path:
    """What our service loads by default: it has been made by then, this finds it."""
    return laid_out_file(bundle_path(model) / "model.gguf", model)


def theirs_file(model: str, weights: Weights) -> Path:
    """What Pipecat's language model loads."""
    return ours_file(model) if weights is Weights.SAME else bundle_path(model) / "model.gguf"


def agent_job(model: str, mode: str, plan: Plan, folder: Path) -> dict[str, Any]:
    """What an agent reads; its clips are written into `folder`."""
    settings = LlmSettings.model_validate({})
    return {
        "mode": mode,
        "gguf": str(theirs_file(model, plan.pipecat_weights)),
        "moonshine": str(bundle_path(RECOGNISER)),
        "voice": str(bundle_path(VOICE) / "hibari-durations.onnx"),
        "threads": 1,
        "llm_threads": settings.threads,
        "persona": settings.persona,
        "temperature": TEMPERATURE,
        "max_tokens": plan.max_tokens,
        "turns_per_session": plan.turns_per_session,
        "clips": [_told(clip, folder) for clip in plan.clips],
        "interruptions": [_told(clip, folder) for clip in plan.interruptions],
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


def summary(model: str, side: Side) -> str:
    """One line for who waits."""
    told = side.to_dict()
    figure = _spread(told["figures"]["first_sample_leaves"], "")
    notes = "".join(f" ({note})" for note in side.notes)
    counted = f"{told['counted']} of {told['asked']} counted"
    return f"{model} ({side.weights}), {side.name}: {counted}, {figure} s{notes}"


def table(model: str, sides: Sequence[dict[str, Any]]) -> Table:
    """P50 / P90 of each, and ours by theirs."""
    ours, *others = sides
    title = f"{model}: P50 / P90, and ours by theirs"
    made = Table("figure", ours["name"], title=title, title_justify="left")
    for side in others:
        made.add_column(side["name"])
        made.add_column("ratio", justify="right")
    for name, own in ours["figures"].items():
        row = [name, _spread(own, name)]
        for side in others:
            theirs = side["figures"][name]
            row += [_spread(theirs, name), _ratios(own, theirs)]
        made.add_row(*row)
    for name in ("asked", "counted", "spoke_over_the_visitor"):
        row = [name, str(ours[name])]
        for side in others:
            row += [str(side[name]), ""]
        made.add_row(*row)
    return made


def _spread(summary: dict[str, float] | None, name: str) -> str:
    if summary is None:
        return "-"
    scale = _UNITS.get(name, 1.0)
    places = 0 if scale != 1.0 else 3
    return f"{summary['p50'] * scale:.{places}f} / {summary['p90'] * scale:.{places}f}"


def _ratios(ours: dict[str, float] | None, theirs: dict[str, float] | None) -> str:
    found = [ratio(ours, theirs, key) for key in ("p50", "p90")]
    return " / ".join("-" if value is None else f"{value:.2f}" for value in found)


if __name__ == "__main__":
    typer.run(main)
