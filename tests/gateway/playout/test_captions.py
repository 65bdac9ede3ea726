"""Captions within the pictures of a stream, read out of it by FFmpeg's decoders."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.codec.context import CodecContext

from gateway.api.events import WordTime
from gateway.playout.captions import Captions
from gateway.playout.pacing import VIDEO_HZ
from gateway.playout.pictures import ReleasedPicture
from gateway.playout.playout import Tick
from gateway.playout.sinks.recording import Recordings, Scope
from tests.gateway.live.peers import Received
from tests.gateway.live.test_segments import Show
from tests.gateway.media import PictureEncoder, film

BARE = b"\0\0\0\1\x41\x9a"
"""A picture."""


def said(text: str, word_s: float = 0.25) -> list[WordTime]:
    """Words of an answer, spoken one after the other."""
    at_ms = [round(1000 * n * word_s) for n in range(len(text) + 1)]
    return [
        WordTime(text=word, chars=0, start_ms=start, end_ms=end)
        for word, start, end in zip(text.split(), at_ms, at_ms[1:], strict=False)
    ]


def test_what_is_said_rolls_up_within_the_pictures() -> None:
    show = Show()
    show.idle(30)
    show.speak(
        1, 100, said("Good morning! At the café “Zur Möwe” breakfast is from 7 to 11 o’clock.")
    )
    show.speak(2, 50, said("Again: 5 €."))
    show.speak(3, 50, said("AI 是 人工智能 AI"))
    show.idle(130)
    watching, decoder = Received(), CodecContext.create("h264", "r")
    for picture in show.left:
        packet = av.Packet(picture.annex_b)
        packet.pts, packet.time_base = picture.time, Fraction(1, VIDEO_HZ)
        for frame in decoder.decode(packet):
            watching.take(frame)
    assert watching.captions == [
        "Good morning! At the café “Zur",
        "Good morning! At the café “Zur\nMöwe” breakfast is from 7 to 11",
        "Möwe” breakfast is from 7 to 11\no’clock.",
        "o’clock.\nAgain: 5 .",
        "Again: 5 .\nAI",
    ]


def test_an_answer_that_is_interrupted_ends_where_it_was_heard_and_captions_go_by_themselves() -> (
    None
):
    captions, picture = Captions(), VIDEO_HZ // 25
    for played_s in (0.0, 0.3):
        captions.spoken(1, said("One two three"), played_s)
    told = [at for at in range(300) if captions.within(BARE, at * picture) != BARE]
    assert told[-2:] == [told[-3] + 100, told[-3] + 101], "erased once, four seconds later"
    assert len(told) == 6 + len("One two") // 2 + 1 + 2


def test_who_goes_live_in_mid_answer_shows_what_is_said_from_then_on() -> None:
    captions, words = Captions(), said("One two three four five six")
    for played_s in (0.8, 1.1):
        captions.spoken(1, words, played_s)
    told = [at for at in range(100) if captions.within(BARE, at) != BARE]
    assert len(told) == 6 + len("four") // 2 + 3


def test_a_picture_that_is_shown_again_says_nothing_again() -> None:
    show = Show()
    show.idle(30)
    show.speak(1, 21, said("The face is lost in the middle"))  # its last picture is a key frame
    show.run(300)
    told = [any(t.type.name == "A53_CC" for t in f.side_data) for f in show.decoded("video")]
    assert told[-3:] == [True, False, False], "the last one, and twice the same"


async def test_a_recording_has_them_within_its_pictures(tmp_path: Path) -> None:
    recordings = Recordings("s1", tmp_path, 60.0, lambda codec: None, lambda: None)
    await recordings.start(Scope.SESSION)
    encoder, frame = PictureEncoder(), VIDEO_HZ // 25
    for at in range(40):
        turn, text = (1, "One two three") if at < 20 else (2, "Four")
        recordings.caption(turn, said(text), at % 20 / 25)
        picture = encoder.picture(brightness=100, keyframe=at == 0)
        pictures = (ReleasedPicture(picture, at * frame),)
        recordings.push(Tick(1920 * at, np.zeros(1920, np.int16), pictures))
    recorded, watching = await recordings.stop(), Received()
    with film(recorded.path.read_bytes()) as file:
        for shown in file.decode(video=0):
            watching.take(shown)
    assert watching.captions == ["One two three"], "which rolls up as the next begins"
    await recordings.close()
