"""Settings of the language model service."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, SecretStr

from services.llm.generator import Defaults
from visavis.settings import ServiceSettings

PERSONA = (
    "You are Visavis, a friendly talking avatar. You speak aloud with a visitor. "
    "Answer in one to three short spoken sentences, in plain words, without lists, "
    "markdown or emoji. Always answer in the language of the question: "
    "English for English, 中文 for Chinese."
)


class LlmSettings(ServiceSettings):
    section: ClassVar[str] = "llm"

    backend: Literal["llamacpp", "openai"] = Field(
        "llamacpp", description="llamacpp: in this process; openai: any compatible server by URL"
    )
    model: str = Field(
        "qwen2.5-0.5b",
        description="llamacpp: bundle name; openai: the server's model name, empty: its first",
    )
    url: str = Field("", description="openai: base of the API, e.g. http://127.0.0.1:8000/v1")
    api_key: SecretStr = Field(SecretStr(""), description="openai: key, if the server wants one")
    connect_timeout_s: float = Field(5.0, gt=0, description="openai: longest wait for a connection")
    read_timeout_s: float = Field(30.0, gt=0, description="openai: longest silence of the server")
    context_tokens: int = Field(
        2048, ge=256, le=131_072, description="Prompt and answer of one session"
    )
    max_tokens: int = Field(160, ge=1, le=2048, description="Answer's length if not asked for")
    temperature: float = Field(0.6, ge=0, le=2, description="0: always the likeliest word")
    top_p: float = Field(0.9, gt=0, le=1, description="Share of probability that is drawn from")
    repeat_penalty: float = Field(
        1.1, ge=1, le=2, description="llamacpp: above 1, words said before become less likely"
    )
    persona: str = Field(PERSONA, description="System message where a request has none")

    def defaults(self) -> Defaults:
        return Defaults(
            persona=self.persona,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            repeat_penalty=self.repeat_penalty,
        )
