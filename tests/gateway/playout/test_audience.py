"""The codecs that the face is told to encode are those that somebody watches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection

from gateway.playout.audience import Audience
from gateway.playout.pictures import ReleasedPicture
from gateway.playout.playout import PlayoutEvent, Tick
from gateway.playout.sinks.broadcast import Broadcast
from gateway.playout.sinks.recording import Recording, Recordings, Scope
from gateway.playout.sinks.webrtc import Peer, Peers
from tests.gateway.media import PictureEncoder, film
from visavis.serving.errors import InvalidInputError, UnknownNameError
from visavis.wire.media import VideoCodec

H264 = {VideoCodec.H264}


class Watched:
    """An audience and the codecs that it asked for, in order."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[set[VideoCodec]] = []
        self.audience = audience = Audience(64, self.asked.append)
        self.viewers = Broadcast(audience.seats, lambda codec: None, audience.review)
        self.recordings = Recordings("s1", folder, 60.0, lambda codec: None, audience.review)
        self.browsers = Peers(lambda: [], audience.seats, lambda codec: None, audience.review)
        audience.add(self.browsers)
        audience.add(self.viewers)
        audience.add(self.recordings)

    def tick(
        self,
        at: int,
        *events: tuple[PlayoutEvent, int],
        pictures: tuple[ReleasedPicture, ...] = (),
    ) -> None:
        self.audience.push(Tick(960 * at, np.zeros(960, np.int16), pictures, events))


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    watched = Watched(tmp_path)
    yield watched
    await watched.audience.close()


@pytest.fixture
def disk_works(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Until it is set, nothing can be written."""
    works, push = threading.Event(), Recording.push

    def push_slowly(recording: Recording, tick: Tick) -> None:
        assert works.wait(10)
        push(recording, tick)

    monkeypatch.setattr(Recording, "push", push_slowly)
    return works


async def test_nothing_is_encoded_once_the_last_viewer_has_left(watched: Watched) -> None:
    first, second = watched.viewers.join(), watched.viewers.join()
    assert watched.asked == [], "the face begins with H.264 by itself"
    watched.viewers.leave(first)
    assert watched.asked == []
    watched.viewers.leave(second)
    assert watched.asked == [set()]
    watched.viewers.leave(watched.viewers.join())
    assert watched.asked == [set(), H264, set()]


async def test_pictures_begin_anew_a_day_after_the_last_was_seen(watched: Watched) -> None:
    viewers, encoder, day = watched.viewers, PictureEncoder(), 24 * 3600 * 25
    viewers.join(pictures=False)
    first = viewers.join()
    picture = encoder.picture(brightness=100, keyframe=True)
    watched.tick(20, pictures=(ReleasedPicture(picture, 36_000),))
    viewers.leave(first)
    second = viewers.join()
    for at in (day, day + 1):
        picture = encoder.picture(brightness=100, keyframe=at == day)
        watched.tick(2 * at, pictures=(ReleasedPicture(picture, 3600 * at),))
    message = await anext(second)
    with film(message + await anext(second)) as container:
        assert [packet.pts for packet in container.demux(video=0) if packet.size] == [3600 * day]


async def test_a_recording_is_somebody_who_watches_until_it_ends(watched: Watched) -> None:
    watched.viewers.leave(watched.viewers.join())
    await watched.recordings.start(Scope.SESSION)
    assert watched.asked == [set(), H264]
    watched.tick(1)
    await watched.recordings.stop()
    assert watched.asked == [set(), H264, set()]
    await watched.recordings.start(Scope.TURN)
    watched.tick(2, (PlayoutEvent.STARTED, 1))
    await watched.recordings.written()
    assert watched.asked[3:] == [H264]
    watched.tick(3, (PlayoutEvent.FINISHED, 1))
    await watched.recordings.written()
    assert watched.asked[3:] == [H264, set()], "it ends with its turn"


async def test_nobody_waits_for_a_slow_disk(watched: Watched, disk_works: threading.Event) -> None:
    await watched.recordings.start(Scope.SESSION)
    for at in range(200):
        watched.tick(at)
    assert watched.asked == [] and watched.recordings.watched
    disk_works.set()
    await watched.recordings.stop()
    assert watched.asked == [set()]


async def test_a_disk_that_stands_still_ends_the_recording(
    watched: Watched, disk_works: threading.Event
) -> None:
    recording = await watched.recordings.start(Scope.SESSION)
    for at in range(2000):
        watched.tick(at)
    disk_works.set()
    await watched.recordings.written()
    assert "does not keep up" in recording.error and not watched.recordings.watched


async def test_nobody_waits_while_an_old_recording_is_deleted(
    monkeypatch: pytest.MonkeyPatch, watched: Watched
) -> None:
    deleted_in, abandon, encoder = list[int](), Recording.abandon, PictureEncoder()

    def abandon_there(recording: Recording) -> None:
        deleted_in.append(threading.get_ident())
        abandon(recording)

    monkeypatch.setattr(Recording, "abandon", abandon_there)
    recordings, picture = watched.recordings, encoder.picture(brightness=100, keyframe=True)
    first = await recordings.start(Scope.SESSION)
    watched.tick(0, pictures=(ReleasedPicture(picture, 0),))
    await recordings.stop()
    assert first.path.exists()
    second = await recordings.start(Scope.SESSION)
    watched.tick(1, pictures=(ReleasedPicture(picture, 1800),))
    await recordings.written()
    assert not first.path.exists()
    await recordings.close()
    assert not second.path.parent.exists()
    assert len(deleted_in) == 2 and threading.get_ident() not in deleted_in


async def test_a_face_is_not_told_of_the_end(watched: Watched) -> None:
    audience = watched.audience
    watched.viewers.join()
    await watched.recordings.start(Scope.SESSION)
    await audience.close()
    assert watched.asked == []


@pytest.fixture
async def browser() -> AsyncIterator[RTCPeerConnection]:
    """One that has made its offer."""
    browser = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    for kind in ("audio", "video"):
        browser.addTransceiver(kind, direction="recvonly")
    await browser.setLocalDescription(await browser.createOffer())
    yield browser
    await browser.close()


async def connect(watched: Watched, browser: RTCPeerConnection, gone: list[str]) -> None:
    offer = browser.localDescription
    await watched.browsers.connect(
        offer.sdp,
        offer.type,
        "viewer",
        on_mic=lambda peer, pcm: None,
        on_gone=gone.append,
        peer_id="p1",
    )


async def test_a_browser_that_is_answered_while_the_session_ends_is_not_left_connected(
    watched: Watched, browser: RTCPeerConnection
) -> None:
    audience, gone = watched.audience, list[str]()
    answering = asyncio.create_task(connect(watched, browser, gone))
    await asyncio.sleep(0)
    assert not answering.done()
    await audience.close()
    with pytest.raises(UnknownNameError):
        await answering
    assert gone == ["p1"] and audience.present == 0
    with pytest.raises(UnknownNameError):
        watched.viewers.join()


async def test_a_browser_that_goes_while_it_is_answered_keeps_no_seat(
    monkeypatch: pytest.MonkeyPatch, watched: Watched, browser: RTCPeerConnection
) -> None:
    async def answer_and_lose(peer: Peer, sdp: str, kind: str) -> tuple[str, str]:
        answered = await answer(peer, sdp, kind)
        await peer.close()
        return answered

    answer, gone = Peer.answer, list[str]()
    monkeypatch.setattr(Peer, "answer", answer_and_lose)
    with pytest.raises(InvalidInputError):
        await connect(watched, browser, gone)
    assert gone == ["p1"] and watched.audience.present == 0
    assert watched.asked == [set()], "nobody is there to see a picture"
