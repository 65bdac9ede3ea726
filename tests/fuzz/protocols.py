"""What clients of other protocols send: frames of Wyoming, sound as Riva's clients have it."""

from __future__ import annotations

import asyncio
import io
import wave

from hypothesis import strategies as st

from gateway.wyoming.answering import Microphone
from gateway.wyoming.events import LONGEST_LINE_BYTES, Event, encoded, read_head, read_rest
from services.asr.riva.incoming import Encoding, Incoming
from tests.fuzz.decoder import Decoder
from tests.fuzz.inputs import broken
from visavis.serving.errors import InvalidInputError

_FORM = {"rate": 22_050, "width": 2, "channels": 2}
_FRAMES = [
    encoded(Event("describe")) + encoded(Event("ping", {"text": "there?"})),
    encoded(Event("audio-start", _FORM)) + encoded(Event("audio-chunk", _FORM, bytes(4410))),
    encoded(Event("synthesize", {"text": "Hi.", "voice": {"name": "ada"}})),
]
_WORDS = [b"data_length", b"payload_length", b"\n", b"-1", b"1e9", b"null", b"[", b"{", b"\xff"]


def _frames(payload: bytes) -> None:
    asyncio.run(_read(payload))


async def _read(payload: bytes) -> None:
    reader = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
    reader.feed_data(payload)
    reader.feed_eof()
    microphone = Microphone()
    while (head := await read_head(reader)) is not None:
        event = await read_rest(reader, head)
        event.text("text")
        event.part("voice")
        if event.type == "audio-chunk":
            microphone.hear(event)


def _wav(rate: int, channels: int) -> bytes:
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(bytes(4 * rate // 100))
    return written.getvalue()


_OGG = b"OggS\0\2" + bytes(20) + b"\1\x13OpusHead\1\1\0\0\x80\xbb\0\0\0\0\0"
_FLAC = b"fLaC\x80\0\0\x22" + bytes(34) + b"\xff\xf8"


def _sound(given: tuple[bytes, Encoding, int]) -> None:
    payload, encoding, size = given
    incoming = Incoming(encoding, 16_000, 2)
    for start in range(0, len(payload), size):
        incoming.feed(payload[start : start + size])
    incoming.finish()


DECODERS = (
    Decoder(
        "wyoming-frames",
        "whoever reaches the Wyoming port",
        broken(_FRAMES, _WORDS),
        _frames,
        (InvalidInputError, asyncio.IncompleteReadError),
    ),
    Decoder(
        "riva-sound",
        "a client of Riva's protocol",
        st.tuples(
            broken(
                [_wav(16_000, 1), _wav(8000, 2), _OGG, _FLAC, bytes(640)],
                [b"RIFF", b"WAVEfmt ", b"data", b"\xfe\xff", b"\xff\xff\xff\xff", b"OggS", b"fLaC"],
            ),
            st.sampled_from(Encoding),
            st.sampled_from((1, 7, 64, 100_000)),
        ),
        _sound,
        (InvalidInputError,),
    ),
)
