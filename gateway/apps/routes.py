"""The doors for texts that are to be said as they stand, and for answers as subtitles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response

from gateway.api.events import WordTime
from gateway.api.problems import responses
from gateway.api.schemas import SayNumber, SayRequest
from gateway.api.state import Gateway, TheGateway, TheSession
from gateway.apps.sayings import Saying
from gateway.openai.passages import as_srt, as_vtt
from gateway.session.session import Session
from gateway.stages.plain_calls import Passage
from gateway.talk.actions import Manner
from visavis.serving.errors import UnknownNameError

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["sessions"])

_ENDS = tuple(".!?…。！？；")
_FORMATS = {"vtt": (as_vtt, "text/vtt"), "srt": (as_srt, "application/x-subrip")}


async def say_in(
    session: Session, gateway: Gateway, text: str, manner: Manner, *, interrupt: bool
) -> Saying:
    """Have `text` said. Raises UnknownNameError, SayingsFullError and what `wake` does."""
    if manner.language:
        gateway.catalog.check_language(manner.language)
    await session.wake()
    return session.say(text, manner, interrupt=interrupt)


@router.post("/say", status_code=202, responses=responses(400, 404, 413, 422, 429, 503))
async def say(session: TheSession, body: SayRequest, gateway: TheGateway) -> SayNumber:
    """Have the face say a text as it stands; no language model is asked.

    It is a turn like any other: it can be interrupted, and what was heard of it is in the history
    as what the face has said. While something is being said, or the visitor speaks, it waits, in
    the order of the requests; what interrupts the face drops all that waits. `say` events tell what
    becomes of it. With `interrupt` it is said at once, in place of all that. 429
    `too_many_waiting` where too much waits already.
    """
    manner = Manner(body.style, body.language)
    saying = await say_in(session, gateway, body.text, manner, interrupt=body.interrupt)
    return SayNumber(say=saying.number)


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
async def get_captions(
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
