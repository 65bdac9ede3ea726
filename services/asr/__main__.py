"""Entry point: python -m services.asr --help"""

from services.asr.servicer import AsrService
from services.asr.settings import AsrSettings
from visavis.serving.runtime import main

if __name__ == "__main__":
    main(AsrService, AsrSettings)
