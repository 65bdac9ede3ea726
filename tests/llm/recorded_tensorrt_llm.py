"""A recorded-signature double of the package tensorrt_llm (1.2).

It has the signatures that were recorded from the package's published interface, and
the behaviour that was written down beside them: `text` grows and `text_diff` is what
the last step added, every step gives the same object, generate_async needs a running
loop, nothing stops a request but its end or abort(), options of LLM are refused by
name. It shows that our calls fit that record. It is no evidence about the real thing.
"""

from __future__ import annotations

import asyncio
import enum
import inspect
import queue
import sys
import types
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import pytest

__version__ = "1.2.1"

OPTIONS = frozenset(
    "pipeline_parallel_size max_batch_size max_input_len max_seq_len max_beam_width max_num_tokens "
    "enable_chunked_prefill kv_cache_config stream_interval guided_decoding_backend "
    "speculative_config lora_config scheduler_config cuda_graph_config disable_overlap_scheduler "
    "attn_backend enable_iter_perf_stats enable_iter_req_stats iter_stats_max_iterations "
    "num_postprocess_workers backend load_format".split()
)


class RequestError(RuntimeError):
    pass


class CapacitySchedulerPolicy(enum.StrEnum):
    GUARANTEED_NO_EVICT = "GUARANTEED_NO_EVICT"
    MAX_UTILIZATION = "MAX_UTILIZATION"
    STATIC_BATCH = "STATIC_BATCH"


@dataclass
class SamplingParams:
    _: KW_ONLY
    max_tokens: int = 32
    n: int = 1
    best_of: int | None = None
    use_beam_search: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    detokenize: bool = True
    add_special_tokens: bool = True
    skip_special_tokens: bool = True
    guided_decoding: Any = None
    logprobs: int | None = None
    return_perf_metrics: bool = False
    end_id: int | None = None
    pad_id: int | None = None


@dataclass
class KvCacheConfig:
    _: KW_ONLY
    enable_block_reuse: bool = True
    max_tokens: int | None = None
    max_attention_window: list[int] | None = None
    free_gpu_memory_fraction: float | None = 0.9
    host_cache_size: int | None = None
    event_buffer_max_size: int = 0
    enable_partial_reuse: bool = True
    copy_on_partial_reuse: bool = True
    dtype: str = "auto"
    tokens_per_block: int = 32


@dataclass
class SchedulerConfig:
    _: KW_ONLY
    capacity_scheduler_policy: CapacitySchedulerPolicy = CapacitySchedulerPolicy.GUARANTEED_NO_EVICT
    context_chunking_policy: Any = None


@dataclass
class CompletionOutput:
    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    _last_text_len: int = 0

    @property
    def text_diff(self) -> str:
        return self.text[self._last_text_len :]


# A step: text and its end, or an error out of the engine.
Step = tuple[str, str | None] | Exception


class RequestOutput:
    """A request at work. A test moves it on with `step`."""

    def __init__(self, request_id: int, inputs: list[int], params: SamplingParams) -> None:
        self.request_id = request_id
        self.prompt_token_ids = inputs
        self.params = params
        self.outputs = [CompletionOutput(0)]
        self._done = False
        self._aborted = False
        self._steps: asyncio.Queue[Step] | None
        try:
            asyncio.get_running_loop()
            self._steps = asyncio.Queue()
        except RuntimeError:
            self._steps = None

    @property
    def finished(self) -> bool:
        return self._done

    def step(self, text: str = "", end: str | None = None) -> None:
        assert self._steps is not None
        self._steps.put_nowait((text, end))

    def fail(self, error: Exception) -> None:
        assert self._steps is not None
        self._steps.put_nowait(error)

    def abort(self) -> None:
        self._aborted = True
        self.step("", "cancelled")

    def aborted(self) -> bool:
        return self._aborted

    def __aiter__(self) -> RequestOutput:
        return self

    async def __anext__(self) -> RequestOutput:
        if self._done:
            raise StopAsyncIteration
        assert self._steps is not None, "there was no event loop at construction"
        step = await self._steps.get()
        if isinstance(step, Exception):
            raise step
        text, end = step
        output = self.outputs[0]
        output._last_text_len = len(output.text)
        output.text += text
        output.token_ids.append(len(output.token_ids))
        output.finish_reason = end
        self._done = end is not None
        return self


class Tokenizer:
    """A word is a token; the template writes each message's role before it."""

    def encode(self, text: str, *args: Any, **kwargs: Any) -> list[int]:
        begin = [1] if kwargs.get("add_special_tokens", True) else []
        return begin + [hash(word) % 1000 for word in text.split()]

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *args: Any, **kwargs: Any
    ) -> list[int]:
        assert kwargs["tokenize"] and kwargs["add_generation_prompt"]
        ids = [1]
        for message in conversation:
            ids += [2, *self.encode(message["content"], add_special_tokens=False)]
        return [*ids, 3]


class LLM:
    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        tokenizer_mode: str = "auto",
        skip_tokenizer_init: bool = False,
        trust_remote_code: bool = False,
        tensor_parallel_size: int = 1,
        dtype: str = "auto",
        revision: str | None = None,
        tokenizer_revision: str | None = None,
        **kwargs: Any,
    ) -> None:
        if unknown := kwargs.keys() - OPTIONS:
            raise ValueError(f"LLM got invalid argument: {', '.join(unknown)}")
        self.model = model
        self.tensor_parallel_size = tensor_parallel_size
        self.trust_remote_code = trust_remote_code
        self.options = kwargs
        self.requests: list[RequestOutput] = []
        self.submitted: asyncio.Queue[RequestOutput] = asyncio.Queue()
        self.statistics: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.ended = False
        self._tokenizer = tokenizer or Tokenizer()

    @property
    def tokenizer(self) -> Any:
        return self._tokenizer

    def generate_async(
        self,
        inputs: Any,
        sampling_params: SamplingParams | None = None,
        lora_request: Any = None,
        prompt_adapter_request: Any = None,
        streaming: bool = False,
        kv_cache_retention_config: Any = None,
        disaggregated_params: Any = None,
    ) -> RequestOutput:
        if self.ended:
            raise RuntimeError("LLM is shutting down")
        assert streaming, "without it there is one step only"
        output = RequestOutput(len(self.requests), inputs, sampling_params or SamplingParams())
        self.requests.append(output)
        self.submitted.put_nowait(output)
        return output

    def get_stats(self, timeout: float | None = 2) -> list[dict[str, Any]]:
        entries = []
        while not self.statistics.empty():
            entries.append(self.statistics.get(timeout=timeout))
        return entries

    def shutdown(self) -> None:
        self.ended = True


def install(monkeypatch: pytest.MonkeyPatch, **replaced: Any) -> Callable[[], LLM]:
    """Put the double in the place of the package, with some names replaced.

    Returns what gives the LLM that was made last.
    """
    made: list[LLM] = []
    chosen = replaced.pop("LLM", LLM)

    class Remembered(chosen):  # type: ignore[misc, valid-type]  # the class is a value here
        def __init__(self, model: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(model, *args, **kwargs)
            made.append(self)

    signature = inspect.signature(chosen.__init__)
    Remembered.__init__.__signature__ = signature  # type: ignore[attr-defined]
    top, api = types.ModuleType("tensorrt_llm"), types.ModuleType("tensorrt_llm.llmapi")
    top.__dict__.update(__version__=__version__, LLM=Remembered, SamplingParams=SamplingParams)
    names = (
        KvCacheConfig,
        SchedulerConfig,
        CapacitySchedulerPolicy,
        RequestOutput,
        CompletionOutput,
        RequestError,
    )
    api.__dict__.update({cls.__name__: cls for cls in names})
    for name, value in replaced.items():
        owner = top if hasattr(top, name) else api
        setattr(owner, name, value)
    monkeypatch.setitem(sys.modules, "tensorrt_llm", top)
    monkeypatch.setitem(sys.modules, "tensorrt_llm.llmapi", api)
    return lambda: made[-1]
