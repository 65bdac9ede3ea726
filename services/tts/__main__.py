"""`python -m services.tts`: the speech synthesis service."""

from services.tts.servicer import TtsService
from services.tts.settings import TtsSettings
from visavis.serving.runtime import main

if __name__ == "__main__":
    main(TtsService, TtsSettings)
