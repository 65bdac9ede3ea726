"""Settings of the face service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from visavis.bundles.engine_settings import EngineSettings


class FaceSettings(EngineSettings):
    """The face: voice or mel in, video or blendshapes out; and the avatars.

    Every flag can also be set in the environment (VISAVIS_FACE_PORT=50051)
    or in the section [face] of the file that --config names.
    """

    section: ClassVar[str] = "face"

    engine: Literal["warp", "wav2lip", "tha3"] = Field(
        "warp",
        description="What draws: warp bends a photo and needs no weights; wav2lip has a network "
        "paint the mouth from the voice; tha3 has networks pose a drawn character",
    )
    engine_bundle: str = Field(
        "",
        description="Weights of wav2lip or tha3: a bundle that `visavis bundle list` shows",
    )
    avatar: str = Field("", description="Avatar where a client names none; empty: the built-in one")
    avatar_dir: Path | None = Field(
        None, description="Where avatars made by users are kept; empty: the user's data folder"
    )
    max_avatars: int = Field(
        100, ge=1, le=10_000, description="Most avatars made by users that are kept"
    )
    head_size: Annotated[Literal[256, 512, 768, 1024], BeforeValidator(int)] = Field(
        512, description="Width and height of the pictures of heads, pixels"
    )
    decode_limit_s: float = Field(
        10.0, ge=1, le=60, description="Longest work that reading a photo or a head may be, seconds"
    )
    lanes: int = Field(2, ge=1, le=64, description="Threads that draw and encode for all sessions")
    lead_s: float = Field(
        0.8, ge=0.2, le=1.0, description="How far pictures may be made ahead of the voice played"
    )
    bitrate_kbps: int = Field(1500, ge=100, le=20_000, description="Of each video stream")
    idle_life_s: int = Field(
        60,
        ge=6,
        le=600,
        description="Seconds of idle life that are drawn once for all who watch an avatar in "
        "silence, and then come in ever new orders; a shorter one is ready sooner",
    )

    loop_disk_mb: int = Field(
        300,
        ge=0,
        le=100_000,
        description="Disk space for that idle life, in the folder of the avatars, so that it is "
        "not drawn anew at every start: 10 to 40 an avatar; 0: none",
    )

    @property
    def own_bundles(self) -> Sequence[str]:
        return [self.engine_bundle] if self.engine_bundle and self.engine != "warp" else []
