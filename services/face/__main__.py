"""`python -m services.face`: the face service."""

from services.face.servicer import FaceService
from services.face.settings import FaceSettings
from visavis.serving.runtime import main

if __name__ == "__main__":
    main(FaceService, FaceSettings)
