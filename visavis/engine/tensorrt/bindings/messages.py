"""What TensorRT says while it works, kept so that a failure can carry the reason.

TensorRT takes one logger per process: a second builder or runtime with another logger
is answered with a warning, and the first logger stays. So there is one per module, and
everybody who wants the messages of a piece of work opens a `collecting` block.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_KEPT_MESSAGES = 4000
_FAILURES = ("INTERNAL_ERROR", "ERROR")
# Said on every machine without a driver, beside each real error: it explains nothing.
_NO_DRIVER = "cudaError 35"


@dataclass(frozen=True)
class Message:
    """One line of the compiler."""

    severity: str
    """INTERNAL_ERROR, ERROR, WARNING or INFO."""
    text: str


class Messages:
    """The newest messages of one piece of work, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[Message] = deque(maxlen=_KEPT_MESSAGES)

    def add(self, message: Message) -> None:
        """Keep `message`; the oldest makes room."""
        self._kept.append(message)

    @property
    def texts(self) -> list[str]:
        """Every message, whatever its severity."""
        return [message.text for message in self._kept]

    @property
    def warnings(self) -> list[str]:
        """Warnings, each once."""
        said = (m.text.strip() for m in self._kept if m.severity == "WARNING")
        return list(dict.fromkeys(said))

    @property
    def errors(self) -> list[str]:
        """Errors, each once; the complaint about a missing driver only if there is no other."""
        said = list(dict.fromkeys(m.text.strip() for m in self._kept if m.severity in _FAILURES))
        return [text for text in said if _NO_DRIVER not in text] or said


class _Relay:
    """Hands a message to the block of the thread that caused it.

    The compiler's own threads have no block: what they say goes to every open one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, list[Messages]] = {}

    def enter(self, messages: Messages) -> None:
        with self._lock:
            self._open.setdefault(threading.get_ident(), []).append(messages)

    def leave(self) -> None:
        thread = threading.get_ident()
        with self._lock:
            self._open[thread].pop()
            if not self._open[thread]:
                del self._open[thread]

    def say(self, message: Message) -> None:
        with self._lock:
            own = self._open.get(threading.get_ident())
            blocks = [own[-1]] if own else [stack[-1] for stack in self._open.values()]
            for block in blocks:
                block.add(message)


_relays: dict[type, tuple[Any, _Relay]] = {}
"""By the module's own ILogger: one library behind two names has one logger."""
_relays_lock = threading.Lock()


def shared_logger(trt: Any) -> Any:
    """The process's one ILogger of the module `trt`: give it to every Builder and Runtime."""
    return _shared(trt)[0]


@contextmanager
def collecting(trt: Any) -> Iterator[Messages]:
    """Collect what `trt` says about this thread's work until the block ends."""
    relay, messages = _shared(trt)[1], Messages()
    relay.enter(messages)
    try:
        yield messages
    finally:
        relay.leave()


def _shared(trt: Any) -> tuple[Any, _Relay]:
    with _relays_lock:
        if trt.ILogger not in _relays:
            relay = _Relay()
            _relays[trt.ILogger] = (_make_logger(trt, relay), relay)
        return _relays[trt.ILogger]


def _make_logger(trt: Any, relay: _Relay) -> Any:
    class RelayLogger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, msg: str) -> None:
            if severity.name != "VERBOSE":
                relay.say(Message(severity.name, msg))

    return RelayLogger()
