"""The ways on which sound and pictures leave one session."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from gateway.api.events import WordTime
from gateway.background import Background
from gateway.faces.outputs import FaceOutputs
from gateway.faces.talking_head import TalkingHeads
from gateway.live.live import Live
from gateway.live.push.broadcasts import TargetRecord
from gateway.live.push.target import Target
from gateway.playout.audience import Audience
from gateway.playout.sinks.blendshapes import Blendshapes
from gateway.playout.sinks.broadcast import Broadcast
from gateway.playout.sinks.ice import IceServer
from gateway.playout.sinks.plain_sound import PlainSound
from gateway.playout.sinks.recording import Recordings
from gateway.playout.sinks.webrtc import Peers
from gateway.settings import GatewaySettings
from visavis.wire.clock import Clock
from visavis.wire.media import VideoCodec


@dataclass(frozen=True, slots=True)
class OutletNews:
    """What a session wants to know of its outlets."""

    missed: Callable[[VideoCodec], None]
    """Somebody waits for a key frame."""
    changed: Callable[[], None]
    """Somebody came, or left."""
    recording_failed: Callable[[str], None]
    broadcast_changed: Callable[[Target], None]


class OutletsRecord(BaseModel):
    """What another gateway goes on to supply."""

    broadcasts: list[TargetRecord] = []
    face_outputs: list[str] = []


class Outlets:
    """Whoever gets what a face shows and says: browsers, players, recordings, other hosts.

    Each is a sink of the session's audience. mic_rate_hz: of what browsers bring over WebRTC.
    mic_may_wait: see `Peers`.
    """

    def __init__(
        self,
        session: str,
        settings: GatewaySettings,
        audience: Audience,
        news: OutletNews,
        clock: Clock,
        background: Background,
        mic_rate_hz: int,
        mic_may_wait: Callable[[float], bool],
    ) -> None:
        def ice_servers() -> list[IceServer]:
            return settings.ice.of(session, time.time())

        self._background = background
        self._settings = settings
        seats, missed, changed = audience.seats, news.missed, news.changed
        self.peers = Peers(
            ice_servers,
            seats,
            missed,
            changed,
            mic_rate_hz=mic_rate_hz,
            mic_may_wait=mic_may_wait,
        )
        self.broadcast = Broadcast(seats, missed, changed)
        self.plain_sound = PlainSound(seats, changed)
        folder, limit_s = settings.recording_dir, settings.recording_limit_s
        self.recordings = Recordings(
            session, folder, limit_s, missed, changed, news.recording_failed
        )
        self.live = Live(
            clock, seats, background.run, missed, changed, news.broadcast_changed, ice_servers
        )
        blendshapes = Blendshapes(settings.max_viewers, changed)
        talking_heads = TalkingHeads(settings.max_viewers, changed)
        self.drawers: dict[str, Blendshapes] = {"": blendshapes, "talkinghead": talking_heads}
        """Who draws the face himself, by the form in which he wants it."""
        self.face_outputs = FaceOutputs(seats, changed)
        to_clients = (self.peers, self.broadcast, blendshapes, self.plain_sound)
        for sink in (*to_clients, self.recordings, self.live, self.face_outputs, talking_heads):
            audience.add(sink)

    @property
    def pictures_bps(self) -> float | None:
        """Of each stream of pictures at the most, so that they get through; None: no limit.

        The visitor's network decides, and where others alone look on, the best of theirs. What goes
        live is seen by many, whose networks nobody here knows: that has what it needs.
        """
        if self.live.watched:
            return None
        visitors, others = (
            [
                allowance.bps
                for sink in (self.peers, self.broadcast)
                for allowance in sink.allowances(speakers=speakers)
            ]
            for speakers in (True, False)
        )
        if visitors:
            return min((bps for bps in visitors if bps is not None), default=None)
        known = [bps for bps in others if bps is not None]
        return max(known) if known and len(known) == len(others) else None

    def caption(self, turn: int, words: Sequence[WordTime], played_s: float) -> None:
        """So much of a turn's answer has been heard; see `Captions`."""
        self.live.caption(turn, words, played_s)
        self.recordings.caption(turn, words, played_s)

    def record(self) -> OutletsRecord:
        """What goes along where the session goes to another gateway."""
        return OutletsRecord(
            broadcasts=self.live.broadcasts.record(), face_outputs=self.face_outputs.names
        )

    def carry_on(self, record: OutletsRecord) -> None:
        """Go on to supply what another gateway did."""
        self.live.broadcasts.carry_on(record.broadcasts)
        known = self._settings.destinations
        for name in record.face_outputs:
            if name in known:
                self._background.run(self.face_outputs.connect(known[name]))
