"""Captions within the pictures of a stream, read out of it by FFmpeg's decoders."""

from __future__ import annotations

from fractions import Fraction

import av
from av.codec.context import CodecContext

from gateway.api.events import WordTime
from gateway.live.captions import Captions
from gateway.playout.pacing import VIDEO_HZ
from tests.gateway.live.peers import Received
from tests.gateway.live.test_segments import Show


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
    units = [captions.on(at * picture) for at in range(300)]
    told = [at for at, unit in enumerate(units) if unit is not None]
    assert told[-2:] == [told[-3] + 100, told[-3] + 101], "erased once, four seconds later"
    assert len(told) == 6 + len("One two") // 2 + 1 + 2


def test_who_goes_live_in_mid_answer_shows_what_is_said_from_then_on() -> None:
    captions, words = Captions(), said("One two three four five six")
    for played_s in (0.8, 1.1):
        captions.spoken(1, words, played_s)
    units = [captions.on(at) for at in range(100)]
    assert len([unit for unit in units if unit is not None]) == 6 + len("four") // 2 + 3


def test_a_picture_that_is_shown_again_says_nothing_again() -> None:
    show = Show()
    show.idle(30)
    show.speak(1, 21, said("The face is lost in the middle"))  # its last picture is a key frame
    show.run(300)
    told = [any(t.type.name == "A53_CC" for t in f.side_data) for f in show.decoded("video")]
    assert told[-3:] == [True, False, False], "the last one, and twice the same"
