"""Connects a session's face with an output of the operator's, and hands out the poses of a turn."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel

from gateway.api.problems import responses
from gateway.api.state import Gateway, TheGateway, TheSession
from gateway.faces.live_link import table
from visavis.serving.errors import AlreadyExistsError, UnknownNameError

router = APIRouter(tags=["faces for other engines"])

Name = Annotated[str, Path(max_length=40)]


class FaceOutput(BaseModel):
    """A destination of poses. session: the one that has it here; "": none has."""

    name: str
    kind: str
    session: str


class FaceOutputList(BaseModel):
    """All that the operator has named."""

    outputs: list[FaceOutput]


@router.get("/v1/face-outputs")
async def list_face_outputs(gateway: TheGateway) -> FaceOutputList:
    """Where faces may be sent, and which session is."""
    found = gateway.settings.destinations.values()
    return FaceOutputList(
        outputs=[
            FaceOutput(name=d.name, kind=d.kind, session=_holder(gateway, d.name)) for d in found
        ]
    )


@router.put(
    "/v1/sessions/{session_id}/face-outputs/{name}",
    status_code=204,
    responses=responses(404, 409, 503),
)
async def connect_face_output(session: TheSession, gateway: TheGateway, name: Name) -> Response:
    """Send the session's face there from now on: by VMC or as Live Link Face, as the operator has
    said. It holds the session as a viewer does: that does not expire until it is disconnected. 409:
    another session has it.
    """
    destination = gateway.settings.destinations.get(name)
    if destination is None:
        raise UnknownNameError(f"face output: there is no {name!r}; the operator names them")
    await session.wake()
    if _holder(gateway, name) not in ("", session.id):
        raise AlreadyExistsError(f"face output: another session has {name!r}")
    await session.outlets.face_outputs.connect(destination)
    return Response(status_code=204)


@router.delete(
    "/v1/sessions/{session_id}/face-outputs/{name}", status_code=204, responses=responses(404)
)
async def disconnect_face_output(session: TheSession, name: Name) -> Response:
    """Have the face rest there, and send no more."""
    session.touch()
    session.outlets.face_outputs.disconnect(name)
    return Response(status_code=204)


@router.get(
    "/v1/sessions/{session_id}/turns/{turn}/livelink.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}}, **responses(404)},
)
async def get_live_link_take(session: TheSession, turn: int) -> Response:
    """The poses of an answer as Live Link Face writes a take, for import into Unreal or Blender.

    Of the last three turns, as far as their poses were made: where a client draws the face, or a
    face output has it.
    """
    poses = session.outlets.face_outputs.take(turn)
    text = await asyncio.to_thread(lambda: "".join(table(poses)))
    return Response(
        text,
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="turn-{turn}.csv"'},
    )


def _holder(gateway: Gateway, name: str) -> str:
    sessions = gateway.sessions.all()
    return next((s.id for s in sessions if s.outlets.face_outputs.has(name)), "")
