"""`python -m services.llm`: the language model service."""

from services.llm.servicer import LlmService
from services.llm.settings import LlmSettings
from visavis.serving.runtime import main

if __name__ == "__main__":
    main(LlmService, LlmSettings)
