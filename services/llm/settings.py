"""Settings of the language model service."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, SecretStr

from services.llm.generator import Defaults
from visavis.settings import ServiceSettings

PERSONA = (
    "You are Visavis, a friendly talking avatar made by the Visavis team. You chat aloud with a "
    "visitor. Answer in one to three short spoken sentences, warm, correct and helpful, in the "
    "language of the question. Never use lists, markdown or emoji."
)
# Small models fall back to the language of their persona unless told in the visitor's own.
CHINESE_NOTE = "请只用中文回答。你叫Visavis，是一个友好的数字人。"


class LlmSettings(ServiceSettings):
    """The language model: a conversation in, the answer out as it is made.

    Every flag can also be set in the environment (VISAVIS_LLM_PORT=50051)
    or in the section [llm] of the file that --config names.
    """

    section: ClassVar[str] = "llm"

    backend: Literal["llamacpp", "openai"] = Field(
        "llamacpp", description="llamacpp: in this process; openai: any compatible server by URL"
    )
    model: str = Field(
        "",
        description="llamacpp: bundle name, empty: the profile's; "
        "openai: the server's model name, empty: its first",
    )
    url: str = Field("", description="openai: base of the API, e.g. http://127.0.0.1:8000/v1")
    api_key: SecretStr = Field(SecretStr(""), description="openai: key, if the server wants one")
    connect_timeout_s: float = Field(5.0, gt=0, description="openai: longest wait for a connection")
    read_timeout_s: float = Field(30.0, gt=0, description="openai: longest silence of the server")
    context_tokens: int = Field(
        2048, ge=256, le=131_072, description="Prompt and answer of one session"
    )
    max_tokens: int = Field(160, ge=1, le=2048, description="Answer's length if not asked for")
    temperature: float = Field(0.3, ge=0, le=2, description="0: always the likeliest word")
    top_p: float = Field(0.9, gt=0, le=1, description="Share of probability that is drawn from")
    repeat_penalty: float = Field(
        1.0, ge=1, le=2, description="llamacpp: above 1, words said before become less likely"
    )
    persona: str = Field(PERSONA, description="System message where a request has none")
    chinese_note: str = Field(
        CHINESE_NOTE, description="Follows the persona where the question is in Chinese"
    )

    def defaults(self) -> Defaults:
        return Defaults(
            persona=self.persona,
            chinese_note=self.chinese_note,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            repeat_penalty=self.repeat_penalty,
        )
