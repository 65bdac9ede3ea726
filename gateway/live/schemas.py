"""What the API says of broadcasts."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from gateway.live.push.target import Target


class BroadcastRequest(BaseModel):
    """A target to push a session to: what a platform shows as its server and its stream key."""

    model_config = ConfigDict(extra="forbid")

    url: SecretStr = Field(
        min_length=1,
        max_length=2000,
        description="rtmp://, rtmps://, or an http(s):// address of a WHIP endpoint. Where there "
        "is no key beside it, the last part of an RTMP path is the key",
        examples=["rtmps://live.example/app"],
    )
    key: SecretStr = Field(
        default=SecretStr(""),
        max_length=2000,
        description="RTMP: the stream key; WHIP: the bearer token",
    )


class BroadcastInfo(BaseModel):
    """One broadcast as it is now. The key is told to nobody."""

    id: str
    protocol: Literal["rtmp", "whip"]
    target: str = Field(description="Host of the target; what lies behind it may be secret")
    state: Literal["connecting", "live", "waiting", "stopped", "failed"] = Field(
        description="waiting: it is lost, or does not answer, and is tried again; failed: not "
        "any more"
    )
    error: str = Field(description="Why it is not live, or was not the last time")
    live_s: float = Field(description="For how long this connection has been live")
    sent_bytes: int
    sent_pictures: int
    dropped_pictures: int = Field(description="Left out, because the network was too slow")
    reconnects: int
    lag_s: float = Field(description="Media that waits for the network; RTMP alone")


class BroadcastList(BaseModel):
    """All broadcasts of a session, those that ended last included."""

    broadcasts: list[BroadcastInfo]


def info_of(target: Target) -> BroadcastInfo:
    figures = target.figures
    return BroadcastInfo(
        id=target.name,
        protocol=target.address.kind,
        target=target.address.shown,
        state=target.phase.value,
        error=target.error,
        live_s=round(target.live_s, 1),
        sent_bytes=figures.sent_bytes,
        sent_pictures=figures.sent_pictures,
        dropped_pictures=figures.dropped_pictures,
        reconnects=figures.reconnects,
        lag_s=round(figures.lag_s, 3),
    )
