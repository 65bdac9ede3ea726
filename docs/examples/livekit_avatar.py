"""visavis as the avatar of a LiveKit agent: its voice in, a speaking face out.

The agent sends its voice to this worker as byte streams (topic `lk.audio_stream`, one for each
utterance) and says `lk.clear_buffer` when it is interrupted; the worker tells it
`lk.playback_finished`. Voice and pictures come back from the gateway over WebRTC, in step, and are
published for the agent. Wants livekit, aiortc and visavis (for `visavis.client`).

    room = rtc.Room()
    await room.connect(livekit_url, token)  # of kind agent, with lk.publish_on_behalf
    async with visavis_avatar(room, agent_identity, "http://127.0.0.1:8080"):
        ...
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

from aiortc import RTCPeerConnection, RTCSessionDescription
from av import AudioResampler
from livekit import rtc

from visavis.client import GatewayClient, Speech

VOICE_HZ, SIDE_PIXELS = 48_000, 512

log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def visavis_avatar(
    room: Any, agent: str, url: str, api_key: str = "", *, avatar: str = ""
) -> AsyncIterator[None]:
    """Be the face of the participant `agent` of a room that is joined, while the context lasts.

    It ends early, with an ExceptionGroup, where the gateway, its session or the agent is lost.
    """
    async with contextlib.AsyncExitStack() as opened:
        client = await opened.enter_async_context(GatewayClient(url, api_key))
        made = client.session(spoken_by="client", avatar=avatar)
        session = await opened.enter_async_context(made)
        speech = await opened.enter_async_context(session.bring_speech())
        sound, pictures = rtc.AudioSource(VOICE_HZ, 1), rtc.VideoSource(SIDE_PIXELS, SIDE_PIXELS)
        voice = rtc.LocalAudioTrack.create_audio_track("voice", sound)
        face = rtc.LocalVideoTrack.create_video_track("face", pictures)
        for track in (voice, face):
            await room.local_participant.publish_track(track)
        peer = RTCPeerConnection()
        opened.push_async_callback(peer.close)
        work: set[asyncio.Task[None]] = set()
        together = await opened.enter_async_context(asyncio.TaskGroup())
        opened.callback(lambda: [task.cancel() for task in work])

        def start(doing: Any) -> None:
            work.add(task := together.create_task(doing))
            task.add_done_callback(work.discard)

        show = {"audio": lambda track: _hear(track, sound), "video": lambda t: _see(t, pictures)}
        peer.on("track", lambda track: start(show[track.kind](track)))
        for kind in show:
            peer.addTransceiver(kind, direction="recvonly")
        await peer.setLocalDescription(await peer.createOffer())
        offer = {"sdp": peer.localDescription.sdp, "type": "offer"}
        path = f"/v1/sessions/{session.id}/webrtc"
        answer = (await client.call("POST", path, json=offer)).json()
        await peer.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))

        one_at_a_time, cuts = asyncio.Lock(), 0

        async def bring(reader: Any) -> None:
            """One utterance: the stream's end is its end."""
            async with one_at_a_time:
                before = cuts
                await speech.begin(int(reader.info.attributes["sample_rate"]))
                async for piece in reader:
                    if cuts == before:
                        await speech.send(bytes(piece))
                if cuts == before:
                    await speech.end()

        async def clear(_call: Any) -> str:
            nonlocal cuts
            cuts += 1
            await speech.cut()
            return "ok"

        room.register_byte_stream_handler("lk.audio_stream", lambda reader, _: start(bring(reader)))
        room.local_participant.register_rpc_method("lk.clear_buffer", clear)
        start(_report(speech, room, agent))
        yield


async def _report(speech: Speech, room: Any, agent: str) -> None:
    """Tell the agent how much of each utterance was heard."""
    async for event in speech.events():
        if event["type"] == "error":  # such as that so much waits that no more is taken
            log.warning("%s", event["message"])
        elif event["event"] in ("finished", "interrupted", "failed"):
            cut_off = event["event"] != "finished"
            told = {"playback_position": event["played_ms"] / 1000, "interrupted": cut_off}
            await room.local_participant.perform_rpc(
                destination_identity=agent, method="lk.playback_finished", payload=json.dumps(told)
            )
    raise ConnectionError("the gateway's session has ended")


async def _hear(track: Any, sound: Any) -> None:
    resampler = AudioResampler("s16", "mono", VOICE_HZ)
    while True:
        for piece in resampler.resample(await track.recv()):
            pcm = piece.to_ndarray().tobytes()
            await sound.capture_frame(rtc.AudioFrame(pcm, VOICE_HZ, 1, len(pcm) // 2))


async def _see(track: Any, pictures: Any) -> None:
    while True:
        picture = await track.recv()
        rgba = picture.to_ndarray(format="rgba").tobytes()
        kind = rtc.VideoBufferType.RGBA
        pictures.capture_frame(rtc.VideoFrame(picture.width, picture.height, kind, rgba))
