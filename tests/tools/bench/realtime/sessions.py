"""Many Realtime sessions at once against a real stack, each with texts of its own.

    python -m tests.tools.bench.realtime.sessions --sessions 20 --json twenty.json

Starts a stack of the tiny profile on this machine, with real weights and without a network, unless
`--url` names one that runs. The visitors are a process of their own: OpenAI's Python SDK, where
`make clients` has installed it, else plain WebSockets. All of them ask at the same instant unless
`--apart-s` spreads them. Ends with 1 where an order was broken or anything of one session was heard
in another.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.running_stack import RunningStack
from tests.tools.bench.realtime.judging import (
    Session,
    crossed_ids,
    crossed_voices,
    crossed_words,
    session_of,
)
from visavis.tools.bench.figures.report import summarise

_ROOT = Path(__file__).parents[4]
_CLIENTS = Path(os.environ.get("VISAVIS_CLIENTS", _ROOT / ".venv-clients")) / "bin" / "python"
_WORDS = (
    "kangaroo volcano saxophone umbrella cathedral pineapple submarine telescope butterfly glacier "
    "lighthouse trumpet cinnamon parachute hedgehog tornado marble violin cactus pyramid walnut "
    "penguin windmill diamond avocado compass thunder lantern orchid tractor"
).split()
_RATE_HZ = 24_000


@contextmanager
def stack_at(url: str, sessions: int, profile: str) -> Iterator[str]:
    """The address of the one that runs, or of one with room for so many."""
    if url:
        yield url
        return
    environ = {f"VISAVIS_{s}_SLOTS": str(sessions + 4) for s in ("ASR", "LLM", "TTS", "FACE")}
    with tempfile.TemporaryDirectory() as folder:
        stack = RunningStack(Path(folder), "--profile", profile, environ=environ)
        try:
            yield stack.url
        finally:
            stack.stop()
            sys.stderr.write("".join(f"{fault}\n" for fault in stack.faults()))


def talk(url: str, words: Sequence[str], rounds: int, apart_s: float) -> dict[str, Any]:
    """What the visitors have heard."""
    python = str(_CLIENTS) if _CLIENTS.exists() else sys.executable
    script = Path(__file__).with_name("visitors.py")
    command = [python, str(script), url, str(rounds), str(apart_s), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


async def understood(url: str, sessions: Sequence[Session]) -> dict[str, list[str]]:
    """By word, what the stack's own recogniser makes of each voice."""
    heard: dict[str, list[str]] = {}
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        for session in sessions:
            heard[session.word] = []
            for voice in session.voices:
                files = {"file": ("voice.wav", _wav(voice))}
                asked = {"model": "whisper-1", "language": "en"}
                told = await http.post("/v1/audio/transcriptions", files=files, data=asked)
                heard[session.word].append(str(told.json().get("text", "")))
    return heard


def _wav(pcm: bytes) -> bytes:
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_RATE_HZ)
        file.writeframes(pcm)
    return content.getvalue()


def figures(
    client: str, sessions: Sequence[Session], heard: dict[str, list[str]]
) -> dict[str, Any]:
    """All that is told of a run."""
    waits = summarise(wait_s for session in sessions for wait_s in session.waits_s)
    return {
        "client": client,
        "sessions": len(sessions),
        "refused or broken off": [f"{s.word}: {s.fault}" for s in sessions if s.fault],
        "asked": sum(len(session.typed) for session in sessions),
        "answered": sum(bool(answer) for session in sessions for answer in session.answers),
        "first sound s": waits and waits.to_dict(),
        "order errors": [f"{s.word}: {s.order_error}" for s in sessions if s.order_error],
        "crossed ids": crossed_ids(sessions),
        "crossed words": crossed_words(sessions),
        "crossed voices": crossed_voices(sessions, heard),
    }


def table(told: dict[str, Any]) -> str:
    """As docs/clients/openai-realtime.md has it."""
    waits = told["first sound s"] or {"p50": float("nan"), "p95": float("nan")}
    lost = ("crossed words", "crossed ids", "crossed voices", "order errors")
    names = ["sessions", "asked", "answered", "first sound P50", "P95", *lost, "broken off"]
    row = (
        *(told[name] for name in ("sessions", "asked", "answered")),
        f"{waits['p50']:.2f} s",
        f"{waits['p95']:.2f} s",
        *(len(told[name]) for name in (*lost, "refused or broken off")),
    )
    lines = (names, ["---"] * len(names), row)
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=20, choices=range(1, len(_WORDS) + 1))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--apart-s", type=float, default=0.0, help="spread questions over so long")
    parser.add_argument("--url", default="", help="of a stack that runs; default: start one")
    parser.add_argument("--profile", default="tiny")
    parser.add_argument("--json", type=Path, default=None)
    asked = parser.parse_args()
    with stack_at(asked.url, asked.sessions, asked.profile) as url:
        told = talk(url, _WORDS[: asked.sessions], asked.rounds, asked.apart_s)
        sessions = [session_of(visitor) for visitor in told["visitors"]]
        heard = asyncio.run(understood(url, sessions))
    result = figures(told["client"], sessions, heard)
    if asked.json is not None:
        answers = {s.word: {"answers": s.answers, "understood": heard[s.word]} for s in sessions}
        text = json.dumps({**result, "texts": answers}, indent=1, ensure_ascii=False)
        asked.json.write_text(text, encoding="utf-8")
    wrong = {
        name: result[name] for name in result if isinstance(result[name], list) and result[name]
    }
    sys.stdout.write(f"{result['client']}, {os.cpu_count()} cores\n{table(result)}\n")
    for name, what in wrong.items():
        sys.stdout.write(f"{name}: {what}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
