"""Settings of the language model service."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Literal

from pydantic import Field, SecretStr, field_validator

from services.llm.generator import Defaults
from visavis.serving.settings import ServiceSettings

PERSONA = (
    "You are Visavis, a friendly talking avatar made by the Visavis team. You chat aloud with a "
    'visitor. Speak of yourself as "I", never by name. '
    "Answer in one to three short spoken sentences, warm, correct and helpful, in the "
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

    backend: Literal["llamacpp", "openai", "tensorrt_llm"] = Field(
        "llamacpp",
        description="llamacpp: in this process; openai: any compatible server by URL; "
        "tensorrt_llm: in this process on a GPU, needs its own image",
    )
    model: str = Field(
        "",
        description="llamacpp: bundle name, empty: the profile's; "
        "openai: the server's model name, empty: its first; "
        "tensorrt_llm: directory of a checkpoint",
    )
    weights_layout: Literal["cpu", "published"] = Field(
        "cpu",
        description="llamacpp on a CPU: weights laid out once for its fast kernels, kept in the "
        "cache; published: used as they were pulled",
    )
    url: str = Field("", description="openai: base of the API, e.g. http://127.0.0.1:8000/v1")
    api_key: SecretStr = Field(SecretStr(""), description="openai: key, if the server wants one")
    connect_timeout_s: float = Field(5.0, gt=0, description="openai: longest wait for a connection")
    read_timeout_s: float = Field(
        30.0, gt=0, description="openai, tensorrt_llm: longest silence in an answer"
    )
    extra: str = Field(
        "",
        description="openai: more fields of every request, as JSON, e.g. "
        '{"chat_template_kwargs": {"enable_thinking": false}}',
    )
    goes_on: bool = Field(
        True,
        description="openai: the server writes on behind an assistant's message that comes last; "
        "false: it begins anew, so an answer whose replica is lost fails",
    )
    kv_cache_fraction: float = Field(
        0.6,
        gt=0,
        le=0.95,
        description="tensorrt_llm: share of the GPU memory left by the weights that the "
        "key-value cache takes; lower it where other engines share the GPU",
    )
    kv_cache_tokens: int = Field(
        0, ge=0, description="tensorrt_llm: most tokens in the key-value cache; 0: no such limit"
    )
    kv_cache_host_mb: int = Field(
        0, ge=0, description="tensorrt_llm: main memory for blocks that left the GPU"
    )
    kv_cache_reuse: bool = Field(
        True, description="tensorrt_llm: a prompt's beginning that was read before is not read anew"
    )
    scheduler: Literal["guaranteed_no_evict", "max_utilization"] = Field(
        "guaranteed_no_evict",
        description="tensorrt_llm: begin a request only if it can be finished, or fill the batch "
        "and pause some when the cache is full",
    )
    tensor_parallel: int = Field(
        1, ge=1, le=64, description="tensorrt_llm: GPUs that share every layer of the model"
    )
    context_tokens: int = Field(
        2048, ge=256, le=131_072, description="Prompt and answer of one session"
    )
    max_tokens: int = Field(
        160,
        ge=1,
        le=2048,
        description="Answer's length if not asked for; a spoken one may end its sentence",
    )
    temperature: float = Field(0.3, ge=0, le=2, description="0: always the likeliest word")
    top_p: float = Field(0.9, gt=0, le=1, description="Share of probability that is drawn from")
    repeat_penalty: float = Field(
        1.0,
        ge=1,
        le=2,
        description="llamacpp, tensorrt_llm: above 1, words said before become less likely",
    )
    persona: str = Field(PERSONA, description="System message where a request has none")
    chinese_note: str = Field(
        CHINESE_NOTE, description="Follows the persona where the question is in Chinese"
    )

    @field_validator("extra")
    @classmethod
    def _is_an_object(cls, text: str) -> str:
        if text and not isinstance(json.loads(text), dict):
            raise ValueError('not a JSON object such as {"top_k": 40}')
        return text

    def extra_fields(self) -> dict[str, Any]:
        """`extra` read."""
        return dict(json.loads(self.extra or "{}"))

    def defaults(self) -> Defaults:
        """What the generator needs of these settings."""
        return Defaults(
            persona=self.persona,
            chinese_note=self.chinese_note,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            repeat_penalty=self.repeat_penalty,
        )
