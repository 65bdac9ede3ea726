"""Compiles what draws, for all processes of a run of the tests: `python -m tests.face.compiled`.

It takes half a minute of a processor where it is not on disk yet, and each of those that need it
at once would do it for itself.
"""

from services.face.draw.encoder import VideoEncoder
from services.face.draw.pose import FacePose
from services.face.draw.renderer import Renderer
from services.face.engines.head.bundle import read_bundle
from services.face.engines.head.model import model_of
from services.face.engines.head.renderer import HeadRenderer
from tests.face.made_head import bundle_files
from tests.face.portraits import astronaut

if __name__ == "__main__":
    picture = Renderer(astronaut()).draw(FacePose())
    VideoEncoder("h264", picture.shape[1], picture.shape[0], fps=25).encode(picture)
    HeadRenderer(model_of(read_bundle(bundle_files()), 256)).draw(FacePose())
