"""One language model computed by several builds and engines, by turns, on one thread:

    python -m tests.tools.bench.language_model_builds MODEL.gguf \\
        --build "wheel=.venv/bin/python xllamacpp" \\
        --build "native=/tmp/native/bin/python xllamacpp" \\
        --build "zen4=.venv/bin/python package/bins/linux-x64/libggml-cpu-zen4.so" \\
        --build "openvino=/tmp/openvino/bin/python openvino_model.xml"

Each build is NAME=PYTHON ENGINE and runs in a process of its own. ENGINE is `xllamacpp`, a
`libllama.so`, one of the libraries that llama.cpp chooses among by the processor (its others lie
beside it), or a model of OpenVINO. 200 tokens are in the key-value cache. Printed are medians in
milliseconds, of processor time and of wall time: the first token after 8 new ones, each of five
further tokens, the first token after 60 new ones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

_ENGINE = str(Path(__file__).with_name("language_model_engine.py"))
_FURTHER = 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--build", action="append", required=True, help="NAME=PYTHON ENGINE")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    running, rounds = dict[str, Any](), dict[str, list[Any]]()
    for build in arguments.build:
        name, _, command = build.partition("=")
        python, kind = command.split()
        running[name], rounds[name] = subprocess.Popen(
            [python, _ENGINE, arguments.model, kind],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ), []  # fmt: skip
        print(f"{name}: {running[name].stdout.readline().strip()}")  # noqa: T201
    for k in range(arguments.rounds + 1):
        for name, process in running.items():
            print(k, file=process.stdin, flush=True)
            rounds[name].append(json.loads(process.stdout.readline()))
    for name, process in running.items():
        process.communicate()
        print(name, _told(rounds[name][1:], 0), "wall", _told(rounds[name][1:], 1))  # noqa: T201


def _told(rounds: list[Any], clock: int) -> str:
    first, all_six, unread = ([1e3 * one[part][clock] for one in rounds] for part in range(3))
    further = [(b - a) / _FURTHER for a, b in zip(first, all_six, strict=True)]
    return " ".join(f"{statistics.median(part):.1f}" for part in (first, further, unread))


if __name__ == "__main__":
    main()
