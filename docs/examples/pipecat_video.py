"""visavis as a video service of Pipecat: the pipeline's voice in, a speaking face out.

    face = VisavisVideoService("http://127.0.0.1:8080", avatar="ada")
    pipeline = Pipeline([transport.input(), stt, llm, tts, face, transport.output()])

The voice goes to the gateway over a WebSocket as fast as it is made; voice and pictures come back
over WebRTC, in step. Wants pipecat-ai, aiortc and visavis (for `visavis.client`).
"""

from __future__ import annotations

import contextlib
from typing import Any

from aiortc import MediaStreamTrack, RTCPeerConnection, RTCSessionDescription
from av import AudioResampler
from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    InterruptionFrame,
    OutputImageRawFrame,
    SpeechOutputAudioRawFrame,
    StartFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
)
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.ai_service import AIService

from visavis.client import GatewayClient


class VisavisVideoService(AIService):
    """Replaces the voice of a pipeline by the same voice with a face."""

    def __init__(
        self, url: str, api_key: str = "", *, avatar: str = "", rate_hz: int = 24_000, **more: Any
    ) -> None:
        """rate_hz: of the voice that goes on."""
        super().__init__(**more)
        self._client = GatewayClient(url, api_key)
        self._avatar, self._rate_hz = avatar, rate_hz
        self._open = contextlib.AsyncExitStack()
        self._within = False

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        enter = self._open.enter_async_context
        await enter(self._client)
        session = await enter(self._client.session(spoken_by="client", avatar=self._avatar))
        self._speech = await enter(session.bring_speech())
        peer = RTCPeerConnection()
        self._open.push_async_callback(peer.close)
        peer.on("track", self._begin_to_watch)
        peer.addTransceiver("audio", direction="recvonly")
        peer.addTransceiver("video", direction="recvonly")
        await peer.setLocalDescription(await peer.createOffer())
        offer = {"sdp": peer.localDescription.sdp, "type": "offer"}
        path = f"/v1/sessions/{session.id}/webrtc"
        answer = (await self._client.call("POST", path, json=offer)).json()
        await peer.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            if not self._within:
                self._within = True
                await self._speech.begin(frame.sample_rate)
            await self._speech.send(frame.audio)
        elif isinstance(frame, TTSStoppedFrame):
            if self._within:
                self._within = False
                await self._speech.end()
        else:
            if isinstance(frame, InterruptionFrame):
                self._within = False
                await self._speech.cut()
            await self.push_frame(frame, direction)

    async def stop(self, frame: EndFrame) -> None:
        await super().stop(frame)
        await self._open.aclose()

    async def cancel(self, frame: CancelFrame) -> None:
        await super().cancel(frame)
        await self._open.aclose()

    def _begin_to_watch(self, track: MediaStreamTrack) -> None:
        watch = self._hear(track) if track.kind == "audio" else self._see(track)
        task = self.create_task(watch)
        self._open.push_async_callback(self.cancel_task, task)

    async def _hear(self, track: Any) -> None:
        resampler = AudioResampler("s16", "mono", self._rate_hz)
        while True:
            for sound in resampler.resample(await track.recv()):
                pcm = sound.to_ndarray()
                if pcm.any():  # a call's silence goes on for ever
                    heard = SpeechOutputAudioRawFrame(pcm.tobytes(), self._rate_hz, 1)
                    await self.push_frame(heard)

    async def _see(self, track: Any) -> None:
        while True:
            picture = await track.recv()
            image = picture.to_ndarray(format="rgb24").tobytes()
            size = (picture.width, picture.height)
            await self.push_frame(OutputImageRawFrame(image=image, size=size, format="RGB"))
