"""An answer as subtitles, by the times of its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response

from gateway.api.events import WordTime
from gateway.api.problems import responses
from gateway.api.state import TheSession
from gateway.openai.passages import as_srt, as_vtt
from gateway.stages.plain_calls import Passage
from visavis.serving.errors import UnknownNameError

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["sessions"])

_ENDS = tuple(".!?…。！？；")
_FORMATS = {"vtt": (as_vtt, "text/vtt"), "srt": (as_srt, "application/x-subrip")}


def sentences(text: str, words: Sequence[WordTime]) -> Iterator[Passage]:
    """The sentences of an answer's `text`, with their times. words: all of it, in order."""
    begins_at, start_ms = 0, 0
    for index, word in enumerate(words):
        if index + 1 < len(words) and not word.text.rstrip("\"'”’」』)").endswith(_ENDS):
            continue
        said = text[begins_at : word.chars].strip()
        yield Passage(said, start_ms / 1000, word.end_ms / 1000)
        begins_at, start_ms = word.chars, word.end_ms


@router.get(
    "/turns/{turn}/captions",
    response_class=Response,
    responses={
        200: {"content": {media_type: {} for _, media_type in _FORMATS.values()}},
        **responses(404, 422),
    },
)
async def captions(
    session: TheSession, turn: int, format: Literal["vtt", "srt"] = "vtt"
) -> PlainTextResponse:
    """An answer as WebVTT or SubRip, for a recording of its turn; as far as its voice was made.

    Times count from the answer's first sample.
    """
    record = session.records.get(turn)
    if record is None or not record.words:
        raise UnknownNameError(f"turn: nothing was said in a turn {turn} here (any more)")
    write, media_type = _FORMATS[format]
    said = list(sentences(record.answer, record.words))
    return PlainTextResponse(write(said), media_type=media_type)
