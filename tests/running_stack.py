"""A real stack as a user starts it: `visavis up` in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from visavis.tools.stack.keys import OwnersKeys, keys_here
from visavis.wire.permissions import Login, User

CLIENT_KEY = "what clients of other protocols show"
# Short answers: they are spoken at the speed of speech, and tests wait for their end. Of the
# likeliest words: so small a model drawn at random may say what no voice can, such as "1. 2. 3."
# And a short idle life: each stack draws its own, beside all that the tests wait for.
# What else goes on where tests run is nobody's reason to be turned away.
_LET_IN = 'slots = 4\nadmission = "slots"\n'
_CONFIG = (
    f"[llm]\n{_LET_IN}max_tokens = 12\ntemperature = 0\n"
    f'[asr]\n{_LET_IN}client_key = "{CLIENT_KEY}"\n[tts]\n{_LET_IN}client_key = "{CLIENT_KEY}"\n'
    f'[face]\n{_LET_IN}idle_life_s = 6\nclient_key = "{CLIENT_KEY}"\navatar_dir = {{avatars}}\n'
    "[gateway]\nwyoming_port = 0\nanswers = {answers}\n"
)
KNOWN_QUESTION = "What are your opening hours?"
KNOWN_ANSWER = "We are open from nine to five, Monday to Friday."
WELCOME = "Hello, and welcome to the museum."
_ANSWERS = {
    "answers": [
        {"language": "en", "questions": [KNOWN_QUESTION], "answer": f"[happy] {KNOWN_ANSWER}"},
    ],
    "welcome": [{"language": "en", "text": WELCOME}],
}
_READY_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 30.0


class RunningStack:
    """Started by the constructor, ended by `stop`. Speaks loopback only."""

    def __init__(
        self,
        log_dir: Path,
        *flags: str,
        environ: Mapping[str, str] | None = None,
        ready_timeout_s: float = _READY_TIMEOUT_S,
    ) -> None:
        """environ: beside this process's own."""
        self._ready_timeout_s = ready_timeout_s
        self._unprovoked_bytes: dict[str, int] | None = None
        self._told_before_stop_bytes: dict[str, int] = {}
        self.log_dir = log_dir
        self._output = log_dir / "up.txt"
        config = log_dir / "visavis.toml"
        answers = log_dir / "answers.json"
        answers.write_text(json.dumps(_ANSWERS), encoding="utf-8")
        # Of its own: what is drawn here would take the place of what the user's own stack keeps.
        paths = {"answers": answers, "avatars": log_dir / "avatars"}
        quoted = {name: json.dumps(str(path)) for name, path in paths.items()}
        config.write_text(_CONFIG.format(**quoted), encoding="utf-8")
        command = [sys.executable, "-c", "from visavis.tools.cli.main import main; main()", "up"]
        command += ["--profile", "tiny", "--port", "0", "--logs", str(log_dir)]
        command += ["--config", str(config), *flags]
        with self._output.open("wb") as output:
            # A process group of its own, as a shell gives to each command.
            self.process = psutil.Popen(
                command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **(environ or {})},
            )
        try:
            self.url = self._wait_for(r"Open (http://\S+)")
        except BaseException:
            self.stop()  # a test that ran out of time, too, leaves nothing behind
            raise
        self.ready_s = float(re.findall(r"Ready in ([\d.]+) s", self.output())[0])

    def output(self) -> str:
        """What `visavis up` has printed so far."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def child(self, module: str) -> psutil.Process:
        """The process of "services.tts", "gateway" or "nats-server"."""
        for process in self.process.children():
            with contextlib.suppress(psutil.NoSuchProcess):  # one that was killed a moment ago
                if any(part.endswith(module) for part in process.cmdline()):
                    return process
        raise AssertionError(f"{module} does not run")

    def login(self, user: User) -> Login:
        """With what a user comes to the stack's bus: out of what only its owner can read."""
        if user is User.OPERATOR:
            return Login(user, self.keys.password)
        environ = self.child("gateway" if user is User.GATEWAY else f"services.{user}").environ()
        return Login(user, environ[f"VISAVIS_{user.upper()}_NATS_PASSWORD"])

    @property
    def keys(self) -> OwnersKeys:
        """What the stack has left for its owner's tools."""
        found = keys_here(int(self.url.rpartition(":")[2]))
        assert found is not None
        return found

    def log(self, name: str) -> str:
        return (self.log_dir / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def provoke(self) -> None:
        """From now on faults are provoked: `faults` knows those before."""
        self._unprovoked_bytes = self._log_bytes()

    @property
    def wyoming_port(self) -> int:
        """Where the gateway speaks with Home Assistant."""
        return int(re.findall(r"Wyoming is spoken on [^:]+:(\d+)", self.log("gateway"))[-1])

    def faults(self) -> list[str]:
        """Tracebacks in the logs: what no client and no test may provoke."""
        found = []
        for path in sorted(self.log_dir.glob("*.log")):
            told = path.read_bytes()
            if self._unprovoked_bytes is not None:
                told = told[: self._unprovoked_bytes.get(path.stem, 0)]
            for line in told.decode(errors="replace").splitlines():
                if "Traceback" in line or "never retrieved" in line:
                    found.append(f"{path.stem}: {_readable(line)}")
        return found

    def bus_lost(self) -> list[str]:
        """Which processes said, as they were stopped, that the bus was gone before they were."""
        told = {path.stem: path.read_bytes() for path in self.log_dir.glob("*.log")}
        before = self._told_before_stop_bytes
        return [n for n, said in told.items() if b"connection lost" in said[before.get(n, 0) :]]

    def _log_bytes(self) -> dict[str, int]:
        return {path.stem: path.stat().st_size for path in self.log_dir.glob("*.log")}

    def stop(self) -> list[psutil.Process]:
        """Ctrl-C, as a terminal sends it: to the whole process group.

        Returns what is still alive after it: nothing, if all is well.
        """
        self._told_before_stop_bytes = self._log_bytes()
        family = [self.process, *self.process.children(recursive=True)]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        _gone, alive = psutil.wait_procs(family, timeout=_STOP_TIMEOUT_S)
        for process in alive:
            process.kill()
        return alive

    def _wait_for(self, pattern: str) -> str:
        """First group of `pattern` once it has been printed."""
        for _ in range(int(self._ready_timeout_s / 0.1)):
            found = re.search(pattern, self.output())
            if found:
                return found.group(1)
            try:
                status = self.process.wait(0.1)
            except psutil.TimeoutExpired:
                continue
            raise AssertionError(f"`visavis up` ended with {status}:\n{self.output()}")
        raise AssertionError(f"`visavis up` did not become ready:\n{self.output()}")


def _readable(line: str) -> str:
    """A line of JSON with its traceback on lines of its own."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    return f"{entry['message']}\n{entry.get('exception', '')}"
