"""HLS segments, read back by an independent demuxer."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from gateway.api.events import WordTime
from gateway.live.hls.segments import LISTED, TARGET_S, Segmenter
from gateway.live.media import LiveMedia, LivePicture
from gateway.playout.pacing import RATE_HZ, TICK_SAMPLES
from gateway.playout.playout import Playout
from tests.gateway.media import PictureEncoder, film, tone
from visavis.wire.media import VideoCodec

START_S = 1_700_000_000.0


class Show:
    """A face that talks in real pictures, cut into segments."""

    def __init__(self) -> None:
        self.playout = Playout()
        self.playout.set_codecs({VideoCodec.H264})
        self.encoder = PictureEncoder()
        self.media = LiveMedia(self.playout.now_samples)
        self.segmenter = Segmenter()
        self.left: list[LivePicture] = []
        self.turn, self.words = 0, list[WordTime]()
        self.ticks = 0

    def idle(self, pictures: int, *, keyframes: bool = True) -> None:
        """keyframes: the face makes those that are asked for."""
        for _ in range(pictures):
            wanted = keyframes and self.segmenter.wants_keyframe
            picture = self.encoder.picture(brightness=100, keyframe=wanted)
            self.playout.push_picture(picture)
            self.run(2)

    def speak(self, turn: int, frames: int, words: Sequence[WordTime] = ()) -> None:
        self.turn, self.words = turn, list(words)
        self.playout.open_turn(turn)
        self.playout.push_voice(turn, tone(2 * frames * TICK_SAMPLES), last=True)
        for i in range(frames):
            picture = self.encoder.picture(
                turn, i, brightness=200, keyframe=i % 20 == 0, last=i == frames - 1
            )
            self.playout.push_picture(picture)
        self.run(2 * frames + 2)

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.ticks += 1
            tick = self.playout.tick()
            played_s = self.playout.played_samples / RATE_HZ
            self.media.captions.spoken(self.turn, self.words, played_s)
            live = self.media.take(tick)
            self.left += live.pictures
            self.segmenter.take(live, START_S + self.ticks * 0.02)

    @property
    def listed(self) -> list[int]:
        return [
            int(n) for n in re.findall(r"^segment-(\d+)\.m4s$", self.segmenter.playlist(), re.M)
        ]

    @property
    def lengths_s(self) -> list[float]:
        return [float(n) for n in re.findall(r"#EXTINF:([\d.]+),", self.segmenter.playlist())]

    @property
    def begun_s(self) -> Any:
        """How long after another one each was begun, by the wall clock."""
        dates = re.findall(r"PROGRAM-DATE-TIME:(.*)", self.segmenter.playlist())
        return np.diff([datetime.fromisoformat(date).timestamp() for date in dates])

    def decoded(self, kind: str, *numbers: int, init: int = 1) -> list[Any]:
        """Frames of a kind in these segments; of none: in all that are listed."""
        payloads = map(self.segmenter.payload, numbers or self.listed)
        parts = (part or b"missing" for part in (self.segmenter.init(init), *payloads))
        with film(b"".join(parts)) as container:
            return list(container.decode(**{kind: 0}))


def test_segments_of_a_second_one_after_the_other() -> None:
    show = Show()
    show.idle(30)
    show.speak(1, 80)
    show.idle(10)
    assert show.listed == [1, 2, 3, 4, 5]
    assert all(0.8 <= length <= 1.44 for length in show.lengths_s)
    pictures = show.decoded("video")
    frames = np.diff([p.pts for p in pictures])
    assert set(frames) <= {1800, 3600, 5400, 7200}, "nothing is missing between two segments"
    assert sum(show.lengths_s) == pytest.approx(len(pictures) / 25, abs=0.05)
    decoded = show.decoded("audio")
    assert decoded[0].layout.nb_channels == 2
    sound = np.concatenate([frame.to_ndarray()[0] for frame in decoded])
    heard_s = (decoded[0].pts + int(np.argmax(np.abs(sound) > 0.05))) / 48_000
    seen = next(p for p in pictures if p.to_ndarray(format="gray").mean() > 180)
    assert heard_s == pytest.approx(seen.pts / 90_000, abs=0.01)
    for number in show.listed:
        assert show.decoded("video", number)[0].key_frame, "each plays by itself"


def test_without_key_frames_no_segment_is_longer_than_promised() -> None:
    show = Show()
    show.idle(1)
    show.idle(100, keyframes=False)
    assert len(show.listed) == 2 and max(show.lengths_s) < 1.5
    assert len(show.decoded("video")) == pytest.approx(72, abs=1)


@pytest.mark.parametrize("stalls_s", [0.7, 1.5, 5.0])
@pytest.mark.parametrize("keyframes", [True, False])
def test_where_pictures_stall_no_segment_is_longer_than_promised(
    stalls_s: float, keyframes: bool
) -> None:
    show = Show()
    show.idle(50)
    show.run(round(stalls_s / 0.02))
    show.idle(25, keyframes=keyframes)
    show.idle(50)
    assert max(show.lengths_s) < TARGET_S + 0.5
    shown = [p.pts for p in show.decoded("video")]
    assert max(np.diff(shown)) < 1.5 * 90_000, "sound has pictures, wherever it is"
    heard = [(f.pts, f.samples) for f in show.decoded("audio")]
    assert all(a + n == b for (a, n), (b, _) in itertools.pairwise(heard)), "no sound is lost"
    assert show.begun_s == pytest.approx(show.lengths_s[:-1], abs=0.05)


def test_pictures_that_come_late_in_mid_speech_go_on_where_time_is() -> None:
    show, frames, came = Show(), 200, 0
    show.idle(25)
    show.playout.open_turn(1)
    show.playout.push_voice(1, tone(2 * frames * TICK_SAMPLES), last=True)
    for until_frame, ticks in ((25, 188), (115, 40), (frames, 120)):  # for 2.8 s none comes
        for i in range(came, until_frame):
            picture = show.encoder.picture(1, i, brightness=200, keyframe=i % 50 == 0)
            show.playout.push_picture(picture)
        show.run(ticks)
        came = until_frame
    shown = [p.pts for p in show.decoded("video")]
    assert all(a < b for a, b in itertools.pairwise(shown))
    assert set(shown[-70:]) <= {p.time for p in show.left}, "with their sound, as they were before"
    for number, length_s in zip(show.listed, show.lengths_s, strict=True):
        times = [p.pts for p in show.decoded("video", number)]
        assert times[-1] < times[0] + length_s * 90_000
    assert show.begun_s == pytest.approx(show.lengths_s[:-1], abs=0.05)


def test_what_is_kept_is_bounded() -> None:
    show = Show()
    show.idle(15 * 25)
    assert len(show.listed) == LISTED and show.listed[-1] >= 13
    assert f"#EXT-X-MEDIA-SEQUENCE:{show.listed[0]}\n" in show.segmenter.playlist()
    assert show.segmenter.payload(1) is None
    assert show.segmenter.payload(show.listed[0] - 3) is not None, "for whoever is a little late"


def test_a_face_of_another_size_is_a_discontinuity_and_each_init_segment_is_kept() -> None:
    show = Show()
    show.idle(30)
    for size in (128, 96, 160):
        show.encoder = PictureEncoder(size=size)
        show.playout.restart_stream()
        show.playout.push_picture(show.encoder.picture(brightness=100, keyframe=True))
        show.run(2)
        show.idle(30)
    playlist = show.segmenter.playlist()
    assert playlist.count("#EXT-X-DISCONTINUITY\n") == 3
    named = re.findall(r'URI="init-(\d+)\.mp4"', playlist)
    assert named == ["1", "2", "3", "4"]
    assert all(show.segmenter.init(int(version)) for version in named)
    assert show.decoded("video", show.listed[-1], init=4)[0].width == 160


def test_after_a_rest_numbers_go_on() -> None:
    show = Show()
    show.idle(60)
    last = show.listed[-1]
    show.segmenter.restart()
    assert show.listed == []
    show.run(40)
    show.idle(60)
    assert show.listed[0] == last + 1
    assert "#EXT-X-DISCONTINUITY\n" in show.segmenter.playlist()
    assert len(show.decoded("video", init=2)) > 25
    show.segmenter.restart()
    show.idle(60)
    assert "#EXT-X-DISCONTINUITY-SEQUENCE:1\n" in show.segmenter.playlist()
