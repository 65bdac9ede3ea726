"""Several agents of Pipecat at once, whose visitors all ask the same at the same moments.

    python -m tests.tools.bench.peer.together --visitors 1,2,4,8 --json together.json

What `visavis bench load --arrivals together` is for us (docs/deadlines.md): how much later is the
first sound when others ask, too? Each agent is a process of its own with models of its own, as
Pipecat is deployed; weights, threads and clips are those of peer_pipecat.py. Not a test.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from tests.tools.bench.peer.figures import turn_of
from tests.tools.bench.peer.rounds import Block
from tests.tools.bench.peer.venv import default_folder, ready_python
from tests.tools.bench.peer_pipecat import (
    MODES,
    PROFILES,
    ROOT,
    Plan,
    Weights,
    agent_environment,
    agent_job,
)
from visavis.serving.errors import VisavisError
from visavis.tools.bench.figures.report import machine
from visavis.tools.bench.questions import chosen_clips
from visavis.tools.bench.visitor.clips import Clip
from visavis.tools.output import check_output, write_json
from visavis.tools.shown import output_console

_HEARD_S = 15.0  # answers are heard to their ends, as by the visitors of `bench load`
_SOON_S = 1.0


def main(
    visitors: Annotated[str, typer.Option(help="Agents at once, step by step.")] = "1,2,4,8",
    model: Annotated[str, typer.Option(help="Language model.")] = "qwen2.5-coder-0.5b-instruct",
    mode: Annotated[str, typer.Option(help="Who ends a turn: vad or smart.")] = "smart",
    count: Annotated[int, typer.Option(min=1, help="Questions of each visitor.")] = 8,
    every_s: Annotated[float, typer.Option(min=5, help="From question to question.")] = 25.0,
    max_tokens: Annotated[int, typer.Option(help="Longest answer.")] = 80,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write all figures.")] = None,
) -> None:
    """Measure step after step and print a table."""
    check_output(json_path, ".json")
    assert model in PROFILES and mode in MODES, f"{', '.join(PROFILES)}; {', '.join(MODES)}"
    console = output_console(highlight=False)
    python = ready_python(default_folder(), console)
    clips = chosen_clips(None, "en", count, "tiny", console)
    plan = Plan(_HEARD_S, count, max_tokens, Weights.SAME)
    steps = []
    for at_once in map(int, visitors.split(",")):
        with (
            tempfile.TemporaryDirectory(prefix="visavis-together-") as folder,
            console.status(f"{at_once} agents, {count} questions each …"),
        ):
            block = Block(clips, [])
            job = {**agent_job(model, mode, plan, block, Path(folder)), "every_s": every_s}
            told = asyncio.run(_step(python, job, at_once, Path(folder), clips))
        steps.append(_judged(at_once, told))
        console.print(f"{at_once}: {steps[-1]}")
    console.print(table(steps))
    if json_path is not None:
        write_json(json_path, {"machine": machine(), "model": model, "mode": mode, "steps": steps})


async def _step(
    python: Path, job: dict[str, Any], at_once: int, folder: Path, clips: list[Clip]
) -> list[dict[str, Any]]:
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    results = [folder / f"{index}.json" for index in range(at_once)]
    running = [
        await asyncio.create_subprocess_exec(
            *(str(python), "-m", "tests.tools.bench.peer.inside"),
            *(str(folder / "job.json"), str(result)),
            cwd=ROOT,
            env=agent_environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=(folder / f"{result.stem}.log").open("wb"),
        )
        for result in results
    ]
    try:
        async with asyncio.timeout(300 + 2 * len(clips) * job["every_s"]):
            for agent in running:
                assert agent.stdout is not None
                while (line := await agent.stdout.readline()) and line != b"ready\n":
                    pass
            begins_s = time.monotonic() + _SOON_S
            told = f"{begins_s}\n".encode()
            await asyncio.gather(*(agent.communicate(told) for agent in running))
    finally:
        for agent in running:
            if agent.returncode is None:
                agent.kill()
    for agent, result in zip(running, results, strict=True):
        if agent.returncode:
            log = result.with_suffix(".log").read_text(encoding="utf-8")
            raise VisavisError(f"an agent failed:\n{log[-3000:]}")
    return [one for result in results for one in json.loads(result.read_text(encoding="utf-8"))]


def _judged(at_once: int, told: list[dict[str, Any]]) -> dict[str, Any]:
    turns = [turn_of(one) for one in told]
    first_s = [turn.figures["voice_to_voice"] or 0.0 for turn in turns if turn.counted]
    return {
        "visitors": at_once,
        "asked": len(turns),
        "counted": len(first_s),
        "spoke_over": sum(turn.spoke_over for turn in turns),
        "first_sound_p50_s": float(np.percentile(first_s, 50)) if first_s else None,
        "first_sound_p95_s": float(np.percentile(first_s, 95)) if first_s else None,
        "cpu_s_per_question": float(np.mean([one["cpu_s"] for one in told])),
        "memory_bytes": sum(one["memory_bytes"] for one in told) / max(1, len(told)) * at_once,
    }


def table(steps: list[dict[str, Any]]) -> Table:
    """First sound after the final words, by visitors at once."""
    made = Table(
        "visitors", "first sound P50", "P95", "of a lone one's", "counted", "CPU", "memory"
    )
    lone = steps[0]["first_sound_p95_s"]
    for step in steps:
        p50, p95 = step["first_sound_p50_s"], step["first_sound_p95_s"]
        made.add_row(
            str(step["visitors"]),
            "-" if p50 is None else f"{p50:.2f} s",
            "-" if p95 is None else f"{p95:.2f} s",
            "-" if p95 is None or not lone else f"{p95 / lone:.1f}",
            f"{step['counted']} of {step['asked']}",
            f"{step['cpu_s_per_question']:.2f} s",
            f"{step['memory_bytes'] / 1e6:.0f} MB",
        )
    return made


if __name__ == "__main__":
    typer.run(main)
