"""The tensorrt_llm backend over a recorded-signature double: our calls, not the real engine."""

import asyncio
import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.llm.backends.base import (
    BackendRequest,
    ChatMessage,
    Delta,
    Sampling,
    Tool,
    ToolCall,
    Tools,
)
from services.llm.backends.tensorrt_llm import (
    EngineLoad,
    KvCacheLimits,
    TensorRtLlmBackend,
    sampling_arguments,
)
from services.llm.backends.tensorrt_llm_api import CALLS
from tests.llm import recorded_tensorrt_llm as recorded
from tests.llm.recorded_tensorrt_llm import LLM, RequestOutput
from visavis.serving.errors import EngineError, EngineLoadError, InvalidInputError, VisavisError


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "small-model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def backend_at(checkpoint: Path, **options: Any) -> TensorRtLlmBackend:
    options = {
        "slots": 2,
        "context_tokens": 50,
        "kv_cache": KvCacheLimits(0.5, 4000, 1 << 20),
        **options,
    }
    return TensorRtLlmBackend(checkpoint, **options)


def asking(text: str = "hello there", max_tokens: int = 20) -> BackendRequest:
    return BackendRequest((ChatMessage("user", text),), Sampling(max_tokens, 0.5, 0.9), 0)


class Reading:
    """A stream being read, delta by delta."""

    def __init__(self, backend: TensorRtLlmBackend, request: BackendRequest) -> None:
        self.deltas: list[Delta] = []
        self.told = asyncio.Event()
        self.task = asyncio.create_task(self._read(backend, request))

    async def _read(self, backend: TensorRtLlmBackend, request: BackendRequest) -> None:
        async for delta in backend.stream(request):
            self.deltas.append(delta)
            self.told.set()

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)


@pytest.fixture
async def loaded(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = recorded.install(monkeypatch)
    backend = backend_at(checkpoint)
    await backend.load()
    yield backend, made()
    await backend.close()


async def test_the_engine_gets_our_limits(loaded: tuple[TensorRtLlmBackend, LLM]) -> None:
    backend, llm = loaded
    cache = llm.options["kv_cache_config"]
    assert (cache.free_gpu_memory_fraction, cache.max_tokens, cache.host_cache_size) == (
        0.5,
        4000,
        1 << 20,
    )
    assert cache.enable_block_reuse and backend.keeps_prefix
    assert llm.options["max_batch_size"] == 2
    assert llm.options["max_seq_len"] == llm.options["max_input_len"] == 50
    assert llm.trust_remote_code is False
    policy = llm.options["scheduler_config"].capacity_scheduler_policy
    assert policy is recorded.CapacitySchedulerPolicy.GUARANTEED_NO_EVICT
    assert backend.model == "small-model"


async def test_an_answer_streams_what_each_step_added(
    loaded: tuple[TensorRtLlmBackend, LLM],
) -> None:
    backend, llm = loaded
    reading = Reading(backend, asking())
    request = await llm.submitted.get()
    for text in ("Good", "", " mor", "ning"):
        request.step(text)
    request.step(".", "length")
    await reading.task
    assert [delta.text for delta in reading.deltas] == ["Good", " mor", "ning", "."]
    assert reading.deltas[-1] == Delta(".", "length", prompt_tokens=5, completion_tokens=5)
    assert request.prompt_token_ids[0] == 1 and request.prompt_token_ids[-1] == 3
    assert request.params.max_tokens == 20
    assert not request.aborted()


async def test_requests_are_in_flight_together(loaded: tuple[TensorRtLlmBackend, LLM]) -> None:
    backend, llm = loaded
    first, second = Reading(backend, asking("one")), Reading(backend, asking("two"))
    at_work = [await llm.submitted.get(), await llm.submitted.get()]
    for text in "ab":
        for request in at_work:
            request.step(f"{request.prompt_token_ids[2]}{text}")
    for request in at_work:
        request.step("", "stop")
    await asyncio.gather(first.task, second.task)
    told = {first.text, second.text}
    assert told == {"{0}a{0}b".format(request.prompt_token_ids[2]) for request in at_work}


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_an_answer_that_is_left_is_aborted(
    loaded: tuple[TensorRtLlmBackend, LLM], how: str
) -> None:
    backend, llm = loaded
    if how == "cancel":
        reading = Reading(backend, asking())
        request = await llm.submitted.get()
        request.step("Well")
        await reading.told.wait()
        reading.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading.task
    else:
        stream = backend.stream(asking())
        first = asyncio.ensure_future(anext(stream))
        request = await llm.submitted.get()
        request.step("Well")
        assert (await first).text == "Well"
        await stream.aclose()
    assert request.aborted()


@pytest.mark.parametrize(
    ("error", "ours", "complaint", "when"),
    [
        (
            recorded.RequestError("CUDA out of memory. Tried to allocate 2 GiB"),
            EngineError,
            "GPU is out of memory.*kv_cache_fraction",
            "working",
        ),
        (MemoryError(), EngineError, "out of memory: MemoryError", "working"),
        (
            recorded.RequestError("prompt length 90 exceeds max_seq_len 50"),
            InvalidInputError,
            "refuses the request: prompt length 90",
            "submitting",
        ),
        (
            recorded.RequestError("forward\nfailed"),
            EngineError,
            "TensorRT-LLM failed: forward f",
            "working",
        ),
        (
            RuntimeError("prompt length exceeds it"),
            EngineError,
            "TensorRT-LLM failed",
            "submitting",
        ),
    ],
)
async def test_errors_of_the_engine_become_ours(
    loaded: tuple[TensorRtLlmBackend, LLM],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    ours: type[VisavisError],
    complaint: str,
    when: str,
) -> None:
    backend, llm = loaded
    if when == "submitting":

        def refuse(*args: Any, **kwargs: Any) -> RequestOutput:
            raise error

        monkeypatch.setattr(llm, "generate_async", refuse)
    reading = Reading(backend, asking())
    if when == "working":
        (await llm.submitted.get()).fail(error)
    with pytest.raises(ours, match=complaint) as raised:
        await reading.task
    assert type(raised.value) is ours


@pytest.mark.parametrize("reason", ["cancelled", "timeout"])
async def test_an_answer_that_the_engine_broke_off_is_no_end(
    loaded: tuple[TensorRtLlmBackend, LLM], reason: str
) -> None:
    backend, llm = loaded
    reading = Reading(backend, asking())
    (await llm.submitted.get()).step("Wel", reason)
    with pytest.raises(EngineError, match=f"ended the answer early: {reason}"):
        await reading.task


async def test_a_silent_engine_is_given_up_on(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recorded.install(monkeypatch)
    backend = backend_at(checkpoint, silence_s=0.01)
    await backend.load()
    with pytest.raises(EngineError, match=r"gave nothing for 0\.01 s"):
        await Reading(backend, asking()).task
    assert made().requests[0].aborted()
    await backend.close()


async def test_closing_ends_what_is_at_work_and_the_engine(
    loaded: tuple[TensorRtLlmBackend, LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, llm = loaded
    reading = Reading(backend, asking())
    request = await llm.submitted.get()
    request.step("Well")
    await reading.told.wait()
    # An engine that ends need not answer what was at work.
    monkeypatch.setattr(request, "abort", lambda: setattr(request, "_aborted", True))
    await backend.close()
    with pytest.raises(EngineError, match="shutting down"):
        await reading.task
    assert request.aborted() and llm.ended
    with pytest.raises(EngineError, match="not loaded, or closed"):
        await Reading(backend, asking()).task
    with pytest.raises(EngineError, match="not loaded, or closed"):
        backend.count_tokens("hello")
    await backend.close()


async def test_the_prompt_and_its_answer_stay_within_the_context(
    loaded: tuple[TensorRtLlmBackend, LLM],
) -> None:
    backend, llm = loaded
    reading = Reading(backend, asking("word " * 42))
    request = await llm.submitted.get()
    assert len(request.prompt_token_ids) + request.params.max_tokens == 50
    request.step("", "stop")
    await reading.task
    with pytest.raises(InvalidInputError, match=r"53 tokens leave no room .* 50"):
        await Reading(backend, asking("word " * 50)).task


async def test_the_engines_statistics_are_shown(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: asyncio.Queue[EngineLoad] = asyncio.Queue()
    monkeypatch.setattr(EngineLoad, "show_as_metrics", lambda load: shown.put_nowait(load))
    made = recorded.install(monkeypatch)
    backend = backend_at(checkpoint, statistics_interval_s=0.001)
    await backend.load()
    assert await shown.get() == EngineLoad(), "idle"
    made().statistics.put({"numActiveRequests": 3})
    while (load := await shown.get()) == EngineLoad():
        pass
    assert load.running == 3
    assert made().options["enable_iter_perf_stats"]
    await backend.close()


async def test_tokens_are_counted_without_the_beginning_mark(
    loaded: tuple[TensorRtLlmBackend, LLM],
) -> None:
    assert loaded[0].count_tokens("three short words") == 3


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(20, 0.0, 0.9), {"max_tokens": 20, "top_k": 1}),
        (Sampling(200, 0.5, 0.9), {"max_tokens": 30, "temperature": 0.5, "top_p": 0.9}),
        (
            Sampling(20, 1.0, 1.0, 1.2, 7),
            {
                "max_tokens": 20,
                "temperature": 1.0,
                "top_p": 1.0,
                "repetition_penalty": 1.2,
                "seed": 7,
            },
        ),
    ],
)
def test_how_tokens_are_drawn(sampling: Sampling, expected: dict[str, Any]) -> None:
    assert sampling_arguments(sampling, 30) == expected
    recorded.SamplingParams(**expected)


async def test_a_folder_without_a_checkpoint_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineLoadError, match=r"no directory with a checkpoint .*config\.json"):
        await backend_at(tmp_path / "nothing").load()


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (RuntimeError("CUDA out of memory"), "not enough free memory.*kv_cache_fraction"),
        (ValueError("unknown architecture"), "unknown architecture; is it a checkpoint"),
    ],
)
async def test_an_engine_that_does_not_start_says_what_to_do(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, complaint: str
) -> None:
    class Broken(LLM):
        def __init__(self, model: Any, **kwargs: Any) -> None:
            raise error

    recorded.install(monkeypatch, LLM=Broken)
    with pytest.raises(EngineLoadError, match=f"cannot start .*small-model: .*{complaint}"):
        await backend_at(checkpoint).load()


async def test_a_model_without_a_chat_template_is_not_offered(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_template(*args: Any, **kwargs: Any) -> list[int]:
        raise ValueError("tokenizer.chat_template is not set")

    made = recorded.install(monkeypatch)
    monkeypatch.setattr(recorded.Tokenizer, "apply_chat_template", no_template)
    with pytest.raises(EngineLoadError, match=r"chat_template is not set.*without a chat"):
        await backend_at(checkpoint).load()
    assert made().ended


async def test_what_is_checked_at_the_start_is_all_that_is_called(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CALLS is a list beside the calls: this holds the two together."""
    passed: dict[str, set[str]] = {}

    def watch(path: str, target: Any) -> Any:
        @functools.wraps(target)
        def call(*args: Any, **kwargs: Any) -> Any:
            passed.setdefault(path, set()).update(kwargs)
            return target(*args, **kwargs)

        return call

    for method in ("generate_async", "get_stats", "shutdown"):
        monkeypatch.setattr(LLM, method, watch(f"LLM.{method}", getattr(LLM, method)))
    names = ("SamplingParams", "KvCacheConfig", "SchedulerConfig")
    made = recorded.install(
        monkeypatch, **{name: watch(name, getattr(recorded, name)) for name in names}
    )
    backend = backend_at(checkpoint)
    await backend.load()
    for sampling in (Sampling(9, 0.0), Sampling(9, 0.5, 0.9, 1.1, 7)):
        stream = backend.stream(BackendRequest((ChatMessage("user", "hi"),), sampling, 0))
        first = asyncio.ensure_future(anext(stream))
        (await made().submitted.get()).step("Hello")
        await first
        await stream.aclose()
    passed["LLM"] = {"model", "tensor_parallel_size", "trust_remote_code", *made().options}
    await backend.close()
    checked = {call.path: set(call.keywords) for call in CALLS}
    assert passed.pop("LLM.get_stats", {"timeout"}) == checked.pop("LLM.get_stats")
    assert checked.pop("RequestOutput.abort") == set()
    assert passed == checked


LOOK = Tools((Tool("look", "Look at a thing.", '{"type": "object", "properties": {}}'),))


async def test_calls_are_read_out_of_what_the_model_writes(
    loaded: tuple[TensorRtLlmBackend, LLM],
) -> None:
    backend, llm = loaded
    backend.context_tokens = 500
    plain = Reading(backend, asking())
    request = await llm.submitted.get()
    request.step("Hi.", "stop")
    offered = Reading(backend, replace(asking(max_tokens=5), tools=LOOK))
    called = await llm.submitted.get()
    for piece in ("One moment.\n<tool_", 'call>{"name": "look", ', '"arguments": {"at": 1}}'):
        called.step(piece)
    called.step("</tool_call>", "stop")
    await asyncio.gather(plain.task, offered.task)
    begun = replace(asking(max_tokens=5), tools=LOOK, written="One")
    reading = Reading(backend, begun)
    rest = await llm.submitted.get()
    rest.step(' {"name": "look"} moment.', "stop")
    await reading.task
    written = backend._tokenizer.encode("One", add_special_tokens=False)
    assert rest.prompt_token_ids == called.prompt_token_ids + written
    assert reading.text == ' {"name": "look"} moment.', "behind words it is none"
    # The definitions are in the prompt, and the calls are none of the text.
    assert len(called.prompt_token_ids) > len(request.prompt_token_ids)
    assert offered.text == "One moment.\n"
    calls = [call for delta in offered.deltas for call in delta.tool_calls]
    assert calls[0].name == "look" and "".join(c.arguments for c in calls) == '{"at": 1}'
    assert offered.deltas[-1].finish_reason == "stop"


async def test_a_call_that_is_required_is_put_into_the_models_mouth(
    loaded: tuple[TensorRtLlmBackend, LLM],
) -> None:
    backend, llm = loaded
    backend.context_tokens = 500
    wanted = replace(asking(max_tokens=5), tools=replace(LOOK, calling="required", at_once=False))
    free = Reading(backend, replace(wanted, tools=LOOK))
    first = await llm.submitted.get()
    first.step("", "stop")
    reading = Reading(backend, wanted)
    request = await llm.submitted.get()
    opened = request.prompt_token_ids[len(first.prompt_token_ids) :]
    assert opened == backend._tokenizer.encode(
        '{"name": "look", "arguments": ', add_special_tokens=False
    )
    request.step('{"at": ')
    request.step("1}}")
    await asyncio.gather(free.task, reading.task)
    calls = [call for delta in reading.deltas for call in delta.tool_calls]
    assert calls[0].name == "look" and "".join(c.arguments for c in calls) == '{"at": 1}'
    assert reading.deltas[-1].finish_reason == "tool_calls" and request.aborted()
    result = ChatMessage("tool", "a cat", (), "c1")
    made = ChatMessage("assistant", "", (ToolCall("c1", "look", "{}"),))
    again = replace(wanted, messages=(*wanted.messages, made, result))
    reading = Reading(backend, again)
    request = await llm.submitted.get()
    request.step("No, thanks.")
    with pytest.raises(InvalidInputError, match="did not make the call"):
        await reading.task
    assert request.aborted()
