"""Server-sent events out of a byte stream, as the HTML standard (9.2.6) reads them."""

from __future__ import annotations

from visavis.errors import EngineError

_MAX_LINE_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"


class SseParser:
    """Feed it bytes cut anywhere; it gives the data of every complete event.

    Comments and fields other than `data` are skipped.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._first_line = True
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """Data of the events that `piece` completes.

        Raises EngineError if a line never ends or is not UTF-8.
        """
        events: list[str] = []
        # A line ends with CR, LF or CRLF; the LF of a CRLF may come in the next piece.
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        self._rest += piece
        while (end := _line_end(self._rest)) >= 0:
            line, ending = self._rest[:end], self._rest[end : end + 2]
            size = 2 if ending == b"\r\n" else 1
            self._after_cr = ending == b"\r"
            self._rest = self._rest[end + size :]
            event = self._take_line(line)
            if event is not None:
                events.append(event)
        if len(self._rest) > _MAX_LINE_BYTES:
            raise EngineError("the language model server sent a line of more than 1 MB")
        return events

    def _take_line(self, line: bytes) -> str | None:
        if self._first_line:
            line = line.removeprefix(_BOM)
            self._first_line = False
        if not line:
            event, self._data = "\n".join(self._data) if self._data else None, []
            return event
        field, _, value = line.partition(b":")
        if field == b"data":
            try:
                self._data.append(value.removeprefix(b" ").decode())
            except UnicodeDecodeError as error:
                raise EngineError(
                    "the language model server sent text that is not UTF-8"
                ) from error
        return None


def _line_end(text: bytes) -> int:
    ends = [place for mark in (b"\n", b"\r") if (place := text.find(mark)) >= 0]
    return min(ends, default=-1)
