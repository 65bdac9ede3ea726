"""Everybody and everything that watches one session: browsers, mp4 viewers, recordings."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gateway import metrics
from gateway.playout.playout import Tick
from gateway.playout.sinks.broadcast import Broadcast, Viewer
from gateway.playout.sinks.recording import Phase, Recording, Scope
from gateway.playout.sinks.webrtc import Peer, Role
from gateway.playout.sound import OpusEncoder
from gateway.settings import GatewaySettings
from visavis.serving.errors import AtCapacityError, OutOfOrderError, UnknownNameError
from visavis.wire.media import VideoCodec

log = logging.getLogger(__name__)


class Audience:
    """One session's viewers. Sound is encoded once for all of a kind.

    on_keyframe: somebody cannot decode before the next one.
    on_codecs: the set of codecs that viewers need has changed.
    on_recording_failed: it ended by itself; why, and what is kept.
    """

    def __init__(
        self,
        session: str,
        settings: GatewaySettings,
        on_keyframe: Callable[[VideoCodec], None],
        on_codecs: Callable[[set[VideoCodec]], None],
        on_recording_failed: Callable[[str], None] = lambda message: None,
    ) -> None:
        self._session = session
        self._settings = settings
        self._on_keyframe = on_keyframe
        self._on_codecs = on_codecs
        self._on_recording_failed = on_recording_failed
        self._peers: dict[str, Peer] = {}
        self._opus: OpusEncoder | None = None
        self._broadcast = Broadcast(on_keyframe)
        self._recording: Recording | None = None
        self._folder: Path | None = None
        # Before anybody has come: most viewers take it, and need not wait for an encoder then.
        self._codecs = {VideoCodec.H264}
        self._joining = 0
        self._closed = False

    @property
    def present(self) -> int:
        """Viewers connected now."""
        return len(self._peers) + self._broadcast.viewers

    @property
    def attending(self) -> bool:
        """Whether a viewer is there at this moment, as far as it can be known."""
        return self._broadcast.viewers > 0 or not all(p.silent for p in self._peers.values())

    @property
    def watched(self) -> bool:
        """Whether sound and pictures reach anybody, or a recording."""
        connected = any(peer.connected for peer in self._peers.values())
        return self.recorded or connected or self._broadcast.viewers > 0

    @property
    def recorded(self) -> bool:
        """Whether a recording runs or is about to."""
        return self._recording is not None and self._recording.phase is not Phase.DONE

    @property
    def recording(self) -> Recording | None:
        return self._recording

    @property
    def recording_waits(self) -> bool:
        """A recording starts with the next turn."""
        return self._recording is not None and self._recording.phase is Phase.ARMED

    # ------------------------------------------------------------ browsers

    async def add_peer(
        self,
        sdp: str,
        kind: str,
        role: Role,
        *,
        on_mic: Callable[[str, NDArray[np.int16]], None],
        on_gone: Callable[[str], None],
        peer_id: str,
    ) -> tuple[str, str]:
        """Answer an offer; SDP and type.

        Raises InvalidInputError, AtCapacityError, UnknownNameError once the session is over.
        """
        self._check_room()

        def closed(peer: Peer) -> None:
            if self._peers.pop(peer.id, None) is not None:
                metrics.viewers.labels("webrtc").dec()
            on_gone(peer.id)
            self._review_codecs()

        peer = Peer(
            peer_id,
            role,
            ice_servers=self._settings.ice_servers,
            on_mic=lambda pcm: on_mic(peer_id, pcm),
            on_keyframe=self._on_keyframe,
            on_closed=closed,
        )
        self._joining += 1
        try:
            answer = await peer.answer(sdp, kind)
            self._check_open()
        except BaseException:
            await peer.close()
            raise
        finally:
            self._joining -= 1
        self._peers[peer_id] = peer
        metrics.viewers.labels("webrtc").inc()
        self._review_codecs()
        return answer

    async def remove_peer(self, peer_id: str) -> None:
        """Raises UnknownNameError."""
        peer = self._peers.get(peer_id)
        if peer is None:
            raise UnknownNameError(f"peer: the session has no peer {peer_id[:64]!r}")
        await peer.close()

    def has_peer(self, peer_id: str) -> bool:
        return peer_id in self._peers

    # ------------------------------------------------------------ mp4 viewers

    def add_viewer(self) -> Viewer:
        """Raises AtCapacityError, UnknownNameError once the session is over."""
        self._check_room()
        metrics.viewers.labels("websocket").inc()
        viewer = self._broadcast.join()
        self._review_codecs()
        return viewer

    def remove_viewer(self, viewer: Viewer) -> None:
        metrics.viewers.labels("websocket").dec()
        self._broadcast.leave(viewer)
        self._review_codecs()

    # ------------------------------------------------------------ recordings

    def start_recording(self, scope: Scope) -> Recording:
        """Raises OutOfOrderError while one is running, AtCapacityError where there is no room for
        a file. An older one is forgotten.
        """
        if self._recording is not None and self._recording.phase is not Phase.DONE:
            raise OutOfOrderError("recording: one is running; stop it first")
        self._drop_recording()
        path = self._recording_folder() / f"{secrets.token_hex(4)}.mp4"
        self._recording = Recording(path, scope, limit_s=self._settings.recording_limit_s)
        self._review_codecs()
        self._on_keyframe(VideoCodec.H264)
        return self._recording

    def stop_recording(self, now_samples: int) -> Recording:
        """Raises UnknownNameError where none was started."""
        if self._recording is None:
            raise UnknownNameError("recording: none was started")
        recording = self._recording
        self._writing(lambda: recording.finish(now_samples))
        self._review_codecs()
        return recording

    def turn_cut(self, turn: int, now_samples: int) -> None:
        """A turn ended early: nobody shall hear more of it that waits for a slow connection."""
        for peer in self._peers.values():
            peer.silence()
        recording = self._recording
        if recording is not None:
            self._writing(lambda: recording.turn_cut(turn, now_samples))

    # ------------------------------------------------------------ media

    def push(self, tick: Tick) -> None:
        """Hand a tick to everybody. Never waits."""
        if self._peers:
            self._opus = self._opus or OpusEncoder()
            packets = self._opus.encode(tick.pcm, tick.start_samples)
            for peer in self._peers.values():
                for packet in packets:
                    peer.push_sound(packet)
                for released in tick.pictures:
                    peer.push_picture(released)
        else:
            self._opus = None
        self._broadcast.push(tick)
        recording = self._recording
        if recording is not None and self.recorded:
            self._writing(lambda: recording.push(tick))
            if not self.recorded:
                self._review_codecs()

    async def close(self) -> None:
        """Disconnect everybody, delete recordings."""
        self._closed = True  # there is no face to tell any more
        closing = [peer.close() for peer in list(self._peers.values())]
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, BaseException):
                log.error("a viewer did not close in order", exc_info=error)
        self._broadcast.close()
        self._opus = None  # encoders hold threads
        self._drop_recording()
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    # ------------------------------------------------------------ inside

    def _check_open(self) -> None:
        if self._closed:
            raise UnknownNameError("session: it has ended")

    def _recording_folder(self) -> Path:
        if self._folder is None:
            parent = self._settings.recording_dir
            try:
                if parent is not None:
                    parent.mkdir(parents=True, exist_ok=True)
                self._folder = Path(tempfile.mkdtemp(prefix=f"{self._session}-", dir=parent))
            except OSError as error:
                raise AtCapacityError(
                    f"recording: there is no folder for it: {error.strerror or error}"
                ) from error
        return self._folder

    def _writing(self, work: Callable[[], None]) -> None:
        """A full disk ends the recording, not the conversation."""
        try:
            work()
        except OSError as error:
            assert self._recording is not None
            self._recording.fail(error)
            log.error("%s", self._recording.error)
            self._on_recording_failed(self._recording.error)

    def _check_room(self) -> None:
        """Raises AtCapacityError; those count whose answer is being made, too."""
        self._check_open()
        limit = self._settings.max_viewers
        if self.present + self._joining >= limit:
            raise AtCapacityError(f"viewers: the session has {limit} already, the most allowed")

    def _drop_recording(self) -> None:
        if self._recording is not None:
            self._recording.abandon()
            self._recording = None

    def _review_codecs(self) -> None:
        """What nobody watches is not encoded; where nobody watches at all, nothing is drawn."""
        codecs = {peer.codec for peer in self._peers.values()}
        if self.recorded or self._broadcast.viewers:
            codecs.add(VideoCodec.H264)
        if codecs != self._codecs and not self._closed:
            self._codecs = codecs
            self._on_codecs(codecs)
