"""TensorRT-LLM inside this process: a checkpoint's directory, on a GPU.

Every request goes to the engine at once; its executor batches those in flight step by step. A
prompt's beginning that was read before, by whichever session, is taken from the key-value cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from services.llm.backends.base import BackendRequest, ChatMessage, Delta, Sampling
from services.llm.backends.calls_in_text import (
    has_calls,
    opening_of,
    told_in_words,
    with_calls,
)
from services.llm.backends.tensorrt_llm_answer import (
    TensorRtLlmAnswer,
    explain,
    one_line,
    out_of_memory,
)
from services.llm.backends.tensorrt_llm_api import WRITTEN_FOR, Api, load_api
from visavis.serving import metrics
from visavis.serving.errors import EngineError, EngineLoadError, InvalidInputError
from visavis.serving.lifetime.supervision import end_tasks

log = logging.getLogger(__name__)

# How long one look waits for the next entry. Some releases of TensorRT-LLM go on
# reading until nothing comes for this long: it must be shorter than one step.
_LOOK_S = 0.001

Scheduler = Literal["guaranteed_no_evict", "max_utilization"]


@dataclass(frozen=True, slots=True)
class KvCacheLimits:
    """How much memory the engine's cache of keys and values takes.

    `memory_fraction` is of the GPU memory that is free once the weights are loaded. `max_tokens` 0:
    only the fraction limits. `host_bytes`: main memory that takes blocks which no longer fit on the
    GPU. `reuse`: keep what was read for the next prompt.
    """

    memory_fraction: float
    max_tokens: int = 0
    host_bytes: int = 0
    reuse: bool = True


class TensorRtLlmBackend:
    """One checkpoint (Hugging Face layout, with its tokenizer and chat template)."""

    name = "tensorrt_llm"
    device = "cuda:0"  # the first one that the process sees
    resumes = False

    def __init__(
        self,
        model_dir: Path,
        *,
        slots: int,
        context_tokens: int,
        kv_cache: KvCacheLimits,
        scheduler: Scheduler = "guaranteed_no_evict",
        tensor_parallel: int = 1,
        silence_s: float = 30.0,
        statistics_interval_s: float = 1.0,
    ) -> None:
        self.model = self.file = model_dir.name
        self.slots = slots
        self.context_tokens = context_tokens
        self.keeps_prefix = kv_cache.reuse
        self.in_turn = False  # its scheduler mixes reading and writing
        self._dir = model_dir
        self._kv_cache = kv_cache
        self._scheduler = scheduler
        self._tensor_parallel = tensor_parallel
        self._silence_s = silence_s
        self._statistics_interval_s = statistics_interval_s
        self._api: Api | None = None
        self._llm: Any = None
        self._tokenizer: Any = None
        # A fast tokenizer must not be used by two threads at once.
        self._tokenizing = threading.Lock()
        self._answers: set[TensorRtLlmAnswer] = set()
        self._statistics: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Raises EngineLoadError, also for a model without a chat template."""
        _check_directory(self._dir)
        self._api = await asyncio.to_thread(load_api)
        if self._api.version != WRITTEN_FOR:
            log.warning(
                "tensorrt_llm %s: its signatures fit, but only %s was looked into",
                self._api.version,
                WRITTEN_FOR,
            )
        self._llm = await asyncio.to_thread(self._open_engine, self._api)
        self._tokenizer = self._llm.tokenizer
        try:
            await asyncio.to_thread(self._prompt_ids, (ChatMessage("user", "."),))
        except EngineError as error:
            await self.close()
            raise EngineLoadError(
                f"{self._dir}: {error}; a model without a chat template cannot hold a conversation"
            ) from error
        reader = StatisticsReader(
            lambda timeout_s: self._llm.get_stats(timeout=timeout_s),
            lambda: bool(self._answers),
            interval_s=self._statistics_interval_s,
        )
        self._statistics = asyncio.create_task(reader.keep_looking())

    async def stream(self, request: BackendRequest) -> AsyncGenerator[Delta, None]:
        messages, tools = request.told_to_answer(), request.tools
        if tools is not None and tools.calling == "none":
            tools = None
        if has_calls(request):
            messages = told_in_words(messages, tools)
        opening = opening_of(tools) if tools is not None else ""
        begun = request.written + opening
        prompt_ids = await asyncio.to_thread(self._prompt_ids, messages, begun)
        answer = self._submit(prompt_ids, request.sampling)
        self._answers.add(answer)
        try:
            made = answer.deltas()
            counted = len(prompt_ids)
            read = made if tools is None else with_calls(made, tools, counted, request.written)
            async with contextlib.aclosing(made), contextlib.aclosing(read) as deltas:
                async for delta in deltas:
                    yield delta
        finally:
            answer.abort()
            self._answers.discard(answer)

    def count_tokens(self, text: str) -> int:
        """Raises EngineError before `load` and after `close`."""
        if self._tokenizer is None:
            raise EngineError("tensorrt_llm: not loaded, or closed")
        with self._tokenizing:
            return len(self._tokenizer.encode(text, add_special_tokens=False))

    async def close(self) -> None:
        if self._statistics is not None:
            await end_tasks([self._statistics])
        for answer in tuple(self._answers):
            answer.give_up()
        llm, self._llm, self._tokenizer, self._statistics = self._llm, None, None, None
        if llm is not None:
            try:
                await asyncio.to_thread(llm.shutdown)
            except Exception:
                log.exception("tensorrt_llm did not shut down cleanly")

    def _open_engine(self, api: Api) -> Any:
        policy = getattr(api.CapacitySchedulerPolicy, self._scheduler.upper())
        cache = self._kv_cache
        try:
            return api.LLM(
                model=str(self._dir),
                tensor_parallel_size=self._tensor_parallel,
                trust_remote_code=False,
                max_batch_size=self.slots,
                # Its default would refuse long prompts that our context has room for.
                max_input_len=self.context_tokens,
                max_seq_len=self.context_tokens,
                # A long prompt is read between the steps of others, not before them.
                enable_chunked_prefill=True,
                enable_iter_perf_stats=True,
                kv_cache_config=api.KvCacheConfig(
                    enable_block_reuse=cache.reuse,
                    free_gpu_memory_fraction=cache.memory_fraction,
                    max_tokens=cache.max_tokens or None,
                    host_cache_size=cache.host_bytes or None,
                ),
                scheduler_config=api.SchedulerConfig(capacity_scheduler_policy=policy),
            )
        except Exception as error:  # Whatever is wrong with GPU, weights, MPI or memory comes here.
            raise EngineLoadError(self._why_not_started(error)) from error

    def _why_not_started(self, error: Exception) -> str:
        reason = f"TensorRT-LLM cannot start {self._dir}: {one_line(error)}"
        if out_of_memory(error):
            return (
                f"{reason}; the GPU has not enough free memory: take a smaller or quantised "
                "model, end what else runs there, or lower `kv_cache_fraction`, `context_tokens` "
                "or `slots`"
            )
        return (
            f"{reason}; is it a checkpoint of a model that this release supports, with its weights "
            "complete, and does `nvidia-smi` show the GPU?"
        )

    def _prompt_ids(self, messages: tuple[ChatMessage, ...], begun: str = "") -> list[int]:
        """The conversation as the model's own chat template writes it. Blocks.

        begun: how the answer begins.
        """
        if self._tokenizer is None:
            raise EngineError("tensorrt_llm: not loaded, or closed")
        conversation = [{"role": m.role, "content": m.content} for m in messages]
        try:
            with self._tokenizing:
                ids = list(
                    self._tokenizer.apply_chat_template(
                        conversation,
                        tokenize=True,
                        add_generation_prompt=True,
                        return_dict=False,
                        # For the template; those that do not know it leave it alone.
                        enable_thinking=False,
                    )
                )
                if begun:
                    ids += self._tokenizer.encode(begun, add_special_tokens=False)
                return ids
        except Exception as error:  # Templates raise what they like.
            raise EngineError(f"the model's chat template failed: {one_line(error)}") from error

    def _submit(self, prompt_ids: list[int], sampling: Sampling) -> TensorRtLlmAnswer:
        if self._llm is None or self._api is None:
            raise EngineError("tensorrt_llm: not loaded, or closed")
        room = self.context_tokens - len(prompt_ids)
        if room < 1:
            raise InvalidInputError(
                f"messages: {len(prompt_ids)} tokens leave no room for an answer in "
                f"`context_tokens` {self.context_tokens}"
            )
        params = self._api.SamplingParams(**sampling_arguments(sampling, room))
        try:
            # On the event loop, not on a thread: the answer's queue belongs to the running loop.
            output = self._llm.generate_async(prompt_ids, sampling_params=params, streaming=True)
        except Exception as error:
            raise explain(error, self._api.RequestError) from error
        return TensorRtLlmAnswer(
            output, len(prompt_ids), self._api.RequestError, silence_s=self._silence_s
        )


def sampling_arguments(sampling: Sampling, room_tokens: int) -> dict[str, Any]:
    """Keywords of SamplingParams. Its own default would end every answer after 32 tokens."""
    arguments: dict[str, Any] = {"max_tokens": max(1, min(sampling.max_tokens, room_tokens))}
    if sampling.temperature == 0:
        arguments["top_k"] = 1
    else:
        arguments |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
    if sampling.repeat_penalty != 1.0:
        arguments["repetition_penalty"] = sampling.repeat_penalty
    if sampling.seed is not None:
        arguments["seed"] = sampling.seed
    return arguments


def _check_directory(model_dir: Path) -> None:
    if not (model_dir / "config.json").is_file():
        raise EngineLoadError(
            f"model: {model_dir} is no directory with a checkpoint (there is no config.json in "
            "it); download one in Hugging Face's layout and give its directory"
        )


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What the engine was busy with in one step. None: it did not say.

    `running` requests are computed in this step, `waiting` ones are taken up but
    not in this step, `queued` ones are not taken up yet.
    """

    running: int = 0
    waiting: int = 0
    queued: int = 0
    kv_cache_used: float | None = None
    kv_cache_hits: float | None = None

    def show_as_metrics(self) -> None:
        """What the engine did not say keeps its last value."""
        metrics.llm_engine_requests.labels("running").set(self.running)
        metrics.llm_engine_requests.labels("waiting").set(self.waiting)
        metrics.llm_engine_requests.labels("queued").set(self.queued)
        if self.kv_cache_used is not None:
            metrics.llm_kv_cache_used_ratio.set(self.kv_cache_used)
        if self.kv_cache_hits is not None:
            metrics.llm_kv_cache_hit_ratio.set(self.kv_cache_hits)


def read_iteration(entry: Mapping[str, Any]) -> EngineLoad:
    """One entry of TensorRT-LLM's iteration statistics, whichever of its keys are there.

    Raises ValueError or TypeError for what is no number.
    """
    active = int(entry.get("numActiveRequests") or 0)
    batch = entry.get("inflightBatchingStats") or {}
    scheduled = batch.get("numScheduledRequests")
    running = active if scheduled is None else int(scheduled)
    cache = entry.get("kvCacheStats") or {}
    blocks = int(cache.get("maxNumBlocks") or 0)
    hits = cache.get("cacheHitRate")
    return EngineLoad(
        running=running,
        waiting=max(active - running, 0),
        queued=int(entry.get("numQueuedRequests") or 0),
        kv_cache_used=int(cache.get("usedNumBlocks") or 0) / blocks if blocks else None,
        kv_cache_hits=None if hits is None else float(hits),
    )


class StatisticsReader:
    """Looks at the engine's statistics every `interval_s` and shows the newest.

    `read` gives the entries since the last look, oldest first; it may block, and
    runs on a thread. `busy` says whether any request is at work: an idle engine
    makes no steps and so no entries, and its last one would stand for ever.
    """

    def __init__(
        self,
        read: Callable[[float], Sequence[Mapping[str, Any]]],
        busy: Callable[[], bool],
        *,
        interval_s: float = 1.0,
    ) -> None:
        self._read = read
        self._busy = busy
        self._interval_s = interval_s

    async def keep_looking(self) -> None:
        """For ever, or until the statistics fail: answers go on without them."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(self._interval_s)
        except Exception:
            log.warning("no more statistics of the language model engine", exc_info=True)
            for gauge in (metrics.llm_kv_cache_used_ratio, metrics.llm_kv_cache_hit_ratio):
                gauge.set(math.nan)
            metrics.llm_engine_requests.clear()

    async def look(self) -> None:
        """Show the newest entry once. Raises what `read` raises."""
        entries = await asyncio.to_thread(self._read, _LOOK_S)
        if entries:
            read_iteration(entries[-1]).show_as_metrics()
        elif not self._busy():
            EngineLoad().show_as_metrics()
