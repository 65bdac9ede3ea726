"""The embedded backend: streaming, slots, cancel, load failures.

Real weights are read where it counts what is written; else the first layers of the same model.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio
import xllamacpp

from services.llm.backends.base import BackendRequest, ChatMessage, Delta, Sampling, TextBackend
from services.llm.backends.llamacpp import LlamaCppBackend
from services.llm.backends.openai_compatible import OpenAiCompatibleBackend
from services.llm.generator import AnswerRequest, Generator
from services.llm.servicer import LlmService
from services.llm.settings import LlmSettings
from tests.fakes import MetricGrowth
from tests.serving.grpc_server import served
from visavis.serving.errors import EngineError, EngineLoadError, InvalidInputError
from visavis.v1 import llm_pb2, llm_pb2_grpc
from visavis.wire.clock import MonotonicClock

# One loop, so that one loaded model serves most of the tests.
pytestmark = pytest.mark.asyncio(loop_scope="module")

SYSTEM = ChatMessage("system", "You are a helpful assistant.")
STORY = "Write a long story about a dragon."


def backend_of(model_file: Path, *, slots: int = 1, context_tokens: int = 1024) -> LlamaCppBackend:
    return LlamaCppBackend(
        model_file, model="smollm2-135m", slots=slots, context_tokens=context_tokens
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real(model_file: Path) -> AsyncIterator[LlamaCppBackend]:
    """Three slots; a test finds in them what the tests before it left."""
    backend = backend_of(model_file, slots=3)
    await backend.load()
    yield backend
    await backend.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(shallow_file: Path) -> AsyncIterator[LlamaCppBackend]:
    """As many slots, of a model whose words have no sense."""
    backend = backend_of(shallow_file, slots=3)
    await backend.load()
    yield backend
    await backend.close()


def question(
    text: str, *, max_tokens: int = 24, slot: int = 0, temperature: float = 0.0
) -> BackendRequest:
    return BackendRequest(
        (SYSTEM, ChatMessage("user", text)), Sampling(max_tokens, temperature, seed=1), slot
    )


async def answer(backend: TextBackend, request: BackendRequest) -> list[Delta]:
    return [delta async for delta in backend.stream(request)]


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


async def test_on_the_cpu_a_gpu_is_left_alone(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds for Macs always find one."""
    given = []

    def refuse(params: xllamacpp.CommonParams) -> None:
        given.append((params.n_gpu_layers, params.no_op_offload))
        raise RuntimeError("seen")

    monkeypatch.setattr(xllamacpp, "Server", refuse)
    backend = backend_of(model_file)
    with pytest.raises(EngineLoadError):
        await backend.load()
    await backend.close()
    assert given == [(0, True)]


async def test_an_answer_streams_and_is_the_same_where_the_same_is_cached(
    real: LlamaCppBackend,
) -> None:
    first = await answer(real, question("What is the capital of France?"))
    again = await answer(real, question("What is the capital of France?"))
    # What is read at once and what is read token by token are rounded otherwise.
    once_more = await answer(real, question("What is the capital of France?"))
    assert text_of(again) == text_of(once_more) != ""
    assert sum(bool(delta.text) for delta in first) > 3
    usage = again[-1]
    assert 0 < usage.completion_tokens <= 24
    # The prompt was read before in this slot; the last token is always read again.
    assert usage.cached_tokens >= usage.prompt_tokens - 1 > 10


async def test_the_length_limit_holds(backend: LlamaCppBackend) -> None:
    deltas = await answer(backend, question("Tell me a long story.", max_tokens=5))
    assert [d.finish_reason for d in deltas if d.finish_reason] == ["length"]
    assert deltas[-1].completion_tokens == 5


async def test_sequences_at_once_give_what_each_gives_alone(real: LlamaCppBackend) -> None:
    asked = ["Name three colours.", "Who wrote Hamlet?", "What do cats eat?"]
    requests = [question(text, max_tokens=6, slot=slot) for slot, text in enumerate(asked)]
    together = await asyncio.gather(*(answer(real, request) for request in requests))
    alone = [await answer(real, request) for request in requests]
    assert [text_of(deltas)[:20] for deltas in together] == [text_of(d)[:20] for d in alone]
    assert len({text_of(deltas) for deltas in together}) == 3


async def test_each_slot_keeps_its_own_prefix(backend: LlamaCppBackend) -> None:
    story = "Once upon a time there was a small grey donkey. " * 5
    await answer(backend, question(story, max_tokens=1, slot=0))
    await answer(backend, question("Something else entirely.", max_tokens=1, slot=1))
    again = await answer(backend, question(story + "What was it?", max_tokens=1, slot=0))
    assert again[-1].cached_tokens > 50


async def test_of_what_is_read_ahead_nothing_is_read_again(backend: LlamaCppBackend) -> None:
    await answer(backend, question("Something else.", max_tokens=1, slot=2))
    (read,) = (
        delta
        for delta in await answer(backend, question("Where do penguins", max_tokens=0, slot=2))
        if delta.prompt_tokens
    )
    asked = (await answer(backend, question("Where do penguins live?", max_tokens=1, slot=2)))[-1]
    assert asked.cached_tokens == read.prompt_tokens < asked.prompt_tokens


async def test_an_answer_goes_on_from_what_is_written(real: LlamaCppBackend) -> None:
    asked = question(STORY, max_tokens=24)
    whole = await answer(real, asked)
    texts = [delta.text for delta in whole if delta.text]
    half = next(at for at in range(10, 24) if texts[at].startswith(" "))
    rest = await answer(real, replace(asked, written="".join(texts[:half])))
    assert text_of(rest).startswith("".join(texts[half:20]))
    assert [delta.finish_reason for delta in rest if delta.finish_reason] == ["length"]
    # All but the last word's token is still in the slot.
    assert rest[-1].prompt_tokens - rest[-1].cached_tokens <= 2


async def test_a_cancel_frees_the_slot_at_once(backend: LlamaCppBackend) -> None:
    await answer(backend, question("Hi", max_tokens=2))
    long = backend.stream(question(STORY, max_tokens=900))
    async for delta in long:
        if delta.text:
            break
    # The model computes in this process, whose own time is the same on a busy machine.
    started = time.process_time()
    await long.aclose()
    assert time.process_time() - started < 0.05
    # The rest of the story would take seconds; one more step takes milliseconds.
    async for delta in backend.stream(question("Hi", max_tokens=8)):
        if delta.text:
            break
    assert time.process_time() - started < 1.0


async def test_a_cancel_while_a_long_prompt_is_read_frees_the_slot(
    backend: LlamaCppBackend,
) -> None:
    started = time.process_time()
    await answer(backend, question("word apple tree house " * 180, max_tokens=1))
    whole_s = time.process_time() - started
    long = backend.stream(question("apple word house tree " * 180, max_tokens=1))
    started = time.process_time()
    await anext(long)  # taken up: the slot reads now
    await long.aclose()
    await answer(backend, question("Hi", max_tokens=1))
    assert time.process_time() - started < whole_s / 2


async def test_cancelling_the_task_frees_the_slot_too(backend: LlamaCppBackend) -> None:
    for _ in range(5):  # more often than there are worker threads
        begun = asyncio.Event()

        async def tell(begun: asyncio.Event = begun) -> None:
            async for _ in backend.stream(question(STORY, max_tokens=900)):
                begun.set()

        task = asyncio.create_task(tell())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert text_of(await answer(backend, question("Hi", max_tokens=4)))


async def test_a_call_that_waits_for_its_slot_is_not_begun(backend: LlamaCppBackend) -> None:
    """So that one that is cancelled meanwhile costs the slot nothing."""
    at_work = backend.stream(question(STORY))
    await anext(at_work)
    waiting = asyncio.ensure_future(anext(backend.stream(question("Hi"))))
    begun = [waiting.done() async for _ in at_work]
    assert len(begun) > 20 and not any(begun)
    assert await waiting


async def test_signals_still_reach_the_process_and_closing_ends_what_is_at_work(
    shallow_file: Path,
) -> None:
    got, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, got.set)
    backend = backend_of(shallow_file)
    try:
        await backend.load()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(got.wait(), 30)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
    story = backend.stream(question(STORY, max_tokens=900))
    await anext(story)
    started = time.process_time()
    await backend.close()
    assert time.process_time() - started < 2.0
    assert sum([1 async for _ in story]) < 100
    with pytest.raises(EngineError, match="not loaded"):
        await answer(backend, question("Hi"))
    await backend.close()


async def test_a_prompt_beyond_the_context_is_refused_and_the_slot_lives(
    backend: LlamaCppBackend,
) -> None:
    with pytest.raises(InvalidInputError, match="context size"):
        await answer(backend, question("word " * 1500))
    assert text_of(await answer(backend, question("Hi", max_tokens=4)))


async def test_a_conversation_of_any_length_fits(shallow_file: Path) -> None:
    backend = backend_of(shallow_file, context_tokens=160)
    await backend.load()
    generator = Generator(backend, LlmSettings.model_validate({}).defaults(), MonotonicClock())
    history = [ChatMessage("user", "你好😀 " * 30), ChatMessage("assistant", "Ok. " * 60)] * 6
    request = AnswerRequest((*history, ChatMessage("user", "x" * 3_000)), max_tokens=4)
    made = generator.answer(request, 0)
    assert "".join([piece async for piece in made.pieces])
    await backend.close()
    assert 100 < made.ledger.prompt_tokens <= 160 - 4


async def test_a_conversation_that_is_cut_is_not_read_anew(shallow_file: Path) -> None:
    backend = backend_of(shallow_file, context_tokens=560)
    await backend.load()
    generator = Generator(backend, LlmSettings.model_validate({}).defaults(), MonotonicClock())
    history: list[ChatMessage] = []
    prompts, read = [], []
    for number in range(4):  # the last is cut, and what is left is moved
        question = ChatMessage("user", f"What of number {number}? " + "Tell me more of it. " * 10)
        asked = AnswerRequest((*history, question), max_tokens=1, session="s1")
        made = generator.answer(asked, 0)
        async for _ in made.pieces:
            pass
        history += [question, ChatMessage("assistant", f"It is {number}, which is a number. " * 10)]
        prompts.append(made.ledger.prompt_tokens)
        read.append(made.ledger.prompt_tokens - made.ledger.cached_tokens)
    await backend.close()
    assert any(after < before for before, after in pairwise(prompts)), "it was never cut"
    assert max(read[1:]) == read[1], read  # an answer and a question, each time


async def test_where_answers_are_left_out_nothing_is_read_anew(shallow_file: Path) -> None:
    backend = backend_of(shallow_file, context_tokens=1024)
    await backend.load()
    said = [f"I like the number {n}." for n in range(40)]
    left_out = [*said[:2], f"{said[2].rstrip('.')}\n{said[4]}", f"{said[5]}"]
    left_out += [f"{said[6].rstrip('.')}\n{said[8]}", *said[9:]]
    unread = []
    for contents in (said, left_out):
        spoken = [ChatMessage(("user", "assistant")[n % 2], t) for n, t in enumerate(contents)]
        told = (*spoken, ChatMessage("user", "And now?"))
        asked = BackendRequest(told, Sampling(1, 0.0), 0, session="s1")
        usage = (await answer(backend, asked))[-1]
        unread.append(usage.prompt_tokens - usage.cached_tokens)
    await backend.close()
    assert unread[0] > 300 and unread[1] < 60, unread  # the newest answer, and what is behind it


async def test_of_anothers_conversation_counts_only_what_ones_own_begins_with(
    shallow_file: Path,
) -> None:
    notes = "Open from nine to five. Tickets are sold at the desk in the hall. " * 3
    first = ("My PIN is 4711. Can you keep it?", "I will keep it.", f"{notes}When do you open?")
    second = f"{notes}When do you close?"
    alone, alone_read = await generated(shallow_file, [second])
    behind, behind_read = await generated(shallow_file, first, [second])
    assert behind == alone
    # Of a fresh one's prompt the persona was read, as in every slot.
    assert behind_read == alone_read > 40


async def generated(model_file: Path, *conversations: Sequence[str]) -> tuple[str, float]:
    """The answer to the last of these, over gRPC and in one slot, and tokens read for it."""
    settings = LlmSettings.model_validate({"persona": "Be brief.", "admission": "slots"})
    service = LlmService(settings, None, "llm-test", backend=backend_of(model_file))
    async with served(service, "visavis.v1.LanguageModel") as channel:
        for said in conversations:
            read, text = MetricGrowth("llm_tokens_total", direction="read"), ""
            messages = [
                llm_pb2.Message(role=("USER", "ASSISTANT")[at % 2], content=content)
                for at, content in enumerate(said)
            ]
            wanted = llm_pb2.GenerateRequest(messages=messages, max_tokens=12, temperature=0.0)
            async for piece in llm_pb2_grpc.LanguageModelStub(channel).Generate(wanted):
                text += piece.text
    return text, read.value


async def test_unusual_characters_survive_the_way_through(real: LlamaCppBackend) -> None:
    settings = LlmSettings.model_validate({"persona": "Be brief."})
    generator = Generator(real, settings.defaults(), MonotonicClock())
    request = AnswerRequest(
        (ChatMessage("user", "Repeat: 你好 😀👩\u200d👧 é"),),
        max_tokens=24,
        temperature=1.5,
        seed=2,
    )
    pieces = [piece async for piece in generator.answer(request, 0).pieces]
    assert pieces
    assert all(piece.encode() and "\ufffd" not in piece for piece in pieces)


async def test_tokens_are_counted_by_the_models_own_tokenizer(backend: LlamaCppBackend) -> None:
    counts = [
        await asyncio.to_thread(backend.count_tokens, text)
        for text in ("", "Hello", "Hello there, how are you?", "你好")
    ]
    assert counts[:3] == [0, 1, 7]
    assert counts[3] > 1


async def test_what_is_counted_at_once_does_not_wait_for_idle_connections(
    backend: LlamaCppBackend,
) -> None:
    """Its server has one thread, and stays five seconds with a connection that is kept."""
    texts = [f"Sentence number {number}." for number in range(8)]
    async with asyncio.timeout(4):
        counts = await asyncio.gather(*(asyncio.to_thread(backend.count_tokens, t) for t in texts))
    assert min(counts) > 3


async def test_its_own_port_is_closed_to_others_and_speaks_openai(backend: LlamaCppBackend) -> None:
    url = f"{backend._server.listening_address}/v1"
    stranger = OpenAiCompatibleBackend(url, model="m", slots=1, context_tokens=1024)
    with pytest.raises(EngineError, match="check `api_key`"):
        await answer(stranger, question("Hi"))
    friend = OpenAiCompatibleBackend(url, api_key=backend._api_key, slots=1, context_tokens=1024)
    await friend.load()
    asked = question("What is the capital of France?", max_tokens=8)
    await answer(backend, asked)  # read before, it is rounded alike for both
    theirs = await answer(friend, asked)
    ours = await answer(backend, asked)
    begun = replace(asked, written=text_of(theirs)[:15])
    rest = await answer(friend, begun)
    await stranger.close()
    await friend.close()
    assert text_of(theirs) == text_of(ours)
    assert theirs[-1].prompt_tokens == ours[-1].prompt_tokens
    assert text_of(rest) == text_of(await answer(backend, begun))
    assert theirs[-1].completion_tokens > 0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot read the model file .*models pull"),
        (b"not a model", "not a GGUF file"),
        (b"GGUF" + bytes(range(256)) * 100, "cannot load .*models verify"),
    ],
)
async def test_what_is_not_a_model_is_refused(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    model_file = tmp_path / "model.gguf"
    if content is not None:
        model_file.write_bytes(content)
    backend = backend_of(model_file)
    with pytest.raises(EngineLoadError, match=complaint):
        await backend.load()
    await backend.close()


async def test_a_library_that_the_system_lacks_is_named(
    model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    backend = backend_of(model_file)
    with pytest.raises(EngineLoadError, match=r"libgomp\.so\.1.*visavis doctor"):
        await backend.load()
    await backend.close()


async def test_there_may_be_more_slots_than_a_step_has_tokens(shallow_file: Path) -> None:
    backend = backend_of(shallow_file, slots=40, context_tokens=64)
    try:
        await backend.load()
        last = question("Hi!", max_tokens=2, slot=39)
        assert text_of(await answer(backend, last))
    finally:
        await backend.close()


async def test_more_slots_than_llama_has_are_refused(model_file: Path) -> None:
    backend = backend_of(model_file, slots=300, context_tokens=64)
    try:
        with pytest.raises(EngineLoadError, match=r"slots: 300.*another replica"):
            await backend.load()
    finally:
        await backend.close()


async def test_a_gpu_that_is_not_there_is_named(model_file: Path) -> None:
    backend = LlamaCppBackend(model_file, model="m", slots=1, context_tokens=256, device="cuda:0")
    try:
        with pytest.raises(EngineLoadError, match="device: cuda:0"):
            await backend.load()
    finally:
        await backend.close()


async def test_a_gpu_is_known_by_what_the_build_says_of_it(
    shallow_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real library's own word for it; there is none here, so the model loads on the CPU."""
    gpu = xllamacpp.ggml_backend_dev_type.GGML_BACKEND_DEVICE_TYPE_GPU
    monkeypatch.setattr(xllamacpp, "get_device_info", lambda: [{"name": "CUDA0", "type": gpu}])
    backend = LlamaCppBackend(
        shallow_file, model="smollm2-135m", slots=1, context_tokens=256, device="cuda:0"
    )
    await backend.load()
    assert backend.device == "cuda:0"
    await backend.close()
