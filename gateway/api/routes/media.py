"""WebRTC, recordings."""

from __future__ import annotations

import secrets

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from gateway.access.callers import Role
from gateway.api.problems import ForbiddenError, responses
from gateway.api.schemas import Answer, IceServerList, Offer, RecordingInfo, RecordingRequest
from gateway.api.state import TheCaller, TheSession
from gateway.playout.sinks.recording import Recording, RecordingPhase
from visavis.serving.errors import OutOfOrderError, UnknownNameError

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["media"])


class _Film(FileResponse):
    """Refuses a range of it as everything is refused here, not in Starlette's plain words."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: Message) -> None:
            status = message.get("status", 200)
            if status < 400:
                await send(message)
                return
            length = self.headers["content-length"]
            why = f"Range: bytes are wanted, of the {length} that there are"
            raise HTTPException(status, why, {"Content-Range": f"bytes */{length}"})

        await super().__call__(scope, receive, answer)


@router.post("/webrtc", responses=responses(400, 404, 409, 413, 422, 429, 503))
async def connect_webrtc(session: TheSession, body: Offer, caller: TheCaller) -> Answer:
    """Answer a browser's offer (no trickle: all candidates are in it).

    Any number of viewers may connect, one speaker: a second one gets 409. H.264 is
    preferred, VP8 understood; sound is Opus. With `"drawn_by": "client"` there are no
    pictures: what to draw comes over the WebSocket `…/face`.
    """
    if caller.role is Role.VIEWER and body.role != "viewer":
        raise ForbiddenError("role: a viewer has no microphone")
    await session.wake()
    peer_id = secrets.token_urlsafe(9)
    if body.role == "speaker":
        await session.take_microphone(peer_id)
    try:
        sdp, kind = await session.outlets.peers.connect(
            body.sdp,
            body.type,
            body.role,
            on_mic=session.push_mic,
            on_gone=session.release_microphone,
            peer_id=peer_id,
            pictures=session.drawn_by(body.drawn_by) == "server",
        )
    except BaseException:
        session.release_microphone(peer_id)
        raise
    return Answer(sdp=sdp, type=kind, peer_id=peer_id)


@router.get("/ice-servers", responses=responses(404))
async def list_ice_servers(session: TheSession) -> IceServerList:
    """STUN and TURN servers for the offer, with passwords that are this session's own."""
    return IceServerList(ice_servers=list(session.outlets.peers.ice_servers()))


@router.delete("/webrtc/{peer_id}", status_code=204, responses=responses(404))
async def disconnect_webrtc(session: TheSession, peer_id: str) -> Response:
    """Close one connection."""
    await session.outlets.peers.disconnect(peer_id)
    return Response(status_code=204)


def _info(recording: Recording) -> RecordingInfo:
    return RecordingInfo(
        scope=recording.scope,
        state=recording.phase,
        turn=recording.turn,
        duration_s=recording.duration_s,
        error=recording.error,
    )


@router.post("/recording", status_code=201, responses=responses(400, 404, 409, 413, 422, 503))
async def start_recording(session: TheSession, body: RecordingRequest) -> RecordingInfo:
    """Start recording; a finished recording of before is forgotten."""
    await session.wake()
    return _info(await session.outlets.recordings.start(body.scope))


@router.post("/recording/stop", responses=responses(404))
async def stop_recording(session: TheSession) -> RecordingInfo:
    """End the recording. Harmless where it has ended by itself."""
    session.touch()
    return _info(await session.outlets.recordings.stop())


@router.get("/recording", responses=responses(404))
async def get_recording(session: TheSession) -> RecordingInfo:
    """How the recording stands."""
    await session.outlets.recordings.written()
    current = session.outlets.recordings.current
    if current is None:
        raise UnknownNameError("recording: none was started")
    return _info(current)


@router.get(
    "/recording.mp4",
    response_class=FileResponse,
    responses={
        200: {"content": {"video/mp4": {}}, "description": "H.264 and AAC, of one length"},
        **responses(400, 404, 409, 416),
    },
)
async def get_recording_file(session: TheSession) -> FileResponse:
    """The finished recording: the very pictures that were shown, not encoded again.

    Where the disk was full it is what could be kept; `GET recording` says so in `error`.
    """
    session.touch()
    await session.outlets.recordings.written()
    current = session.outlets.recordings.current
    if current is None:
        raise UnknownNameError("recording: none was started")
    if current.phase is not RecordingPhase.DONE:
        raise OutOfOrderError("recording: it is still running; stop it first")
    if current.empty:
        reason = current.error or "it ended before there was anything to record"
        raise UnknownNameError(f"recording: {reason}")
    session.outlets.recordings.fetched()
    return _Film(current.path, media_type="video/mp4", filename="visavis.mp4")
