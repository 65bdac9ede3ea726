"""Events come out whole, whatever the line ends and wherever the bytes are cut."""

import pytest

from services.llm.backends.openai_compatible import SseParser
from visavis.serving.errors import EngineError

STREAM = (
    b"\xef\xbb\xbf: a comment\r\n"
    b'event: message\r\ndata: {"a": 1}\r\n\r\n'
    b"data:no space\n\n"
    b"\n\n"
    b"data: two\rdata: lines\r\r"
    b"data: two\r\ndata: more\r\n\r\n"
    b"id: 7\nretry: 10\n\n"
    b"data\n\n"
    b"data: \xe4\xbd\xa0\xe5\xa5\xbd\n\n"
    b"data: never finished"
)
EVENTS = ['{"a": 1}', "no space", "two\nlines", "two\nmore", "", "你好"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_events_come_out_whole_however_the_bytes_are_cut(size: int) -> None:
    parser = SseParser()
    events: list[str] = []
    for start in range(0, len(STREAM), size):
        events += parser.feed(STREAM[start : start + size])
    assert events == EVENTS


def test_a_line_without_end_is_refused() -> None:
    parser = SseParser()
    with pytest.raises(EngineError, match="1 MB"):
        for _ in range(20):
            parser.feed(b"x" * 100_000)
