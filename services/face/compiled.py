"""Compiles what draws, ahead of the service: `python -m services.face.compiled`.

That takes half a minute of a processor, once for a user: until then the first start would wait for
it, or each of several processes that start together would do it for itself.
"""

import os
from pathlib import Path

from services.face.avatar.avatar import load_avatar
from services.face.draw.encoder import VideoEncoder
from services.face.draw.pose import FacePose
from services.face.draw.renderer import Renderer
from services.face.engines.head.engine import rehearse


def main() -> None:
    """Draws a photograph, encodes it, and draws a head: a service that starts begins with heads."""
    os.nice(10)  # whatever starts meanwhile goes first
    photograph = load_avatar(Path(__file__).parent / "avatars" / "default")
    picture = Renderer(photograph).draw(FacePose())
    VideoEncoder("h264", picture.shape[1], picture.shape[0], fps=25).encode(picture)
    rehearse()


if __name__ == "__main__":
    main()
