"""llama.cpp inside this process: the embedded default backend.

xllamacpp runs llama.cpp's server loop on a thread of its own; it batches the
sequences of all slots together. A request is one blocking call that gives its
pieces to a callback, on a worker thread; the callback's answer True drops the
request, which frees the slot after the step that is being computed. Prompts
are read in batches of `_BATCH_TOKENS` and each is reported, so that this holds
while a long prompt is being read, too.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
import secrets
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from services.llm.backends.base import BackendRequest, ChatMessage, Delta, Role, Tool, Tools
from services.llm.backends.calls_in_text import (
    CallReader,
    has_calls,
    schema_of,
    told_in_words,
)
from visavis.serving.errors import EngineError, EngineLoadError, InvalidInputError

log = logging.getLogger(__name__)

# Tokens of a prompt that are read at once: more are hardly faster on a CPU (50 tokens of Qwen in
# 0.72 s with 64, 0.77 with 32, 0.84 with 16), and delay a cancel and other slots, whose voices
# break off meanwhile (nothing is written for 0.75, 0.49 and 0.30 s).
_BATCH_TOKENS = 32
_MOST_SLOTS = 256
"""Sequences that llama.cpp holds in one cache."""
# A conversation that outgrows its context is cut (`services/llm/prompt.py`), and of an answer that
# is given again the newest is told alone. What is kept is moved to where it now belongs, in
# stretches of at least so many tokens, instead of being read anew: ten seconds for a thousand,
# while the visitor waits. It still is what was said behind the words that are gone. Behind one
# that is shorter nothing is moved at all, and that may be a question or two. Nothing is moved of
# another's conversation: it was read behind what is private to that one.
_MOVED_TOKENS = 16
_GGUF_MAGIC = b"GGUF"
_NO_THINKING: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
# With several threads: how long one spins before it sleeps where it waits for the others, hundreds
# of times for each token. By default for milliseconds: where another process holds the core that
# the awaited thread needs, both cores then stand still (two cores, two busy neighbours: a first
# token after 2.1 s instead of 0.1 s).
_SPIN_COUNT = "10000"
_TOKENIZE_TIMEOUT_S = 10.0
# The history of a session is counted again on every turn.
_COUNTS_KEPT = 512
_COUNTED_TEXT_CHARS = 2_000
# Of an answer that may call nothing any more. A small model that has just read a call writes it
# again, whatever it is told; kept from the first mark of one, it says what it has learned.
_IN_WORDS = r"""root ::= ([^{}<>`"',;:[\] \t\r\n] | "[" [A-Za-z]) .*"""
_PROBE = "a_name_that_no_template_has"

_Templated = Callable[[tuple[ChatMessage, ...]], str]
_TemplatedWith = Callable[[tuple[ChatMessage, ...], Tools | None], str]


class LlamaCppBackend:
    """One GGUF model in this process, with `slots * context_tokens` tokens of cached keys and
    values.
    """

    name = "llamacpp"
    keeps_prefix = True
    resumes = True

    def __init__(
        self,
        model_file: Path,
        *,
        model: str,
        file: str = "",
        slots: int,
        context_tokens: int,
        threads: int = 1,
        device: str = "cpu",
        choose_file: Callable[[Path], Awaitable[Path]] | None = None,
    ) -> None:
        """file: what its makers call it; choose_file: asked, as the model is loaded, which file to
        take for `model_file`."""
        self.model = model
        self.file = file or model_file.name
        self.slots = slots
        self.context_tokens = context_tokens
        self._file = model_file
        self._choose_file = choose_file
        self._threads = threads
        self.device = device
        # On a GPU reading a prompt hardly holds up a step.
        self.in_turn = device == "cpu"
        self._api_key = secrets.token_urlsafe(24)
        self._server: Any = None
        self._tokenizer: httpx.Client | None = None
        self._template_knows_tools: bool | None = None
        self._workers = ThreadPoolExecutor(slots, thread_name_prefix="llamacpp")
        # One call at a time: llama.cpp would begin every call that waits for its slot, and only
        # then notice that it was cancelled.
        self._slot_free = [asyncio.Lock() for _ in range(slots)]
        self._read_last = [""] * slots
        """Whose conversation each slot holds; "": nobody's, or it is not certain."""
        self._calls: set[_Call] = set()
        self._count_again = functools.lru_cache(_COUNTS_KEPT)(self._count)
        self._frame = functools.lru_cache(2 * slots)(self._frame_of)

    async def load(self) -> None:
        _check_file(self._file)
        if self._choose_file is not None:
            self._file = await self._choose_file(self._file)
        self._server = await asyncio.to_thread(self._open_server)
        self._tokenizer = httpx.Client(
            base_url=self._server.listening_address,
            headers={"Authorization": f"Bearer {self._api_key}"},
            timeout=_TOKENIZE_TIMEOUT_S,
            # The server has one thread, which stays for seconds with a connection on which nothing
            # more comes. So each request has one of its own, and closes it.
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
        )

    async def stream(self, request: BackendRequest) -> AsyncGenerator[Delta, None]:
        """Raises EngineError before `load`, after `close`, and where the server fails."""
        if self._server is None:
            raise EngineError("llamacpp: not loaded, or closed")
        slot_free = self._slot_free[request.slot]
        await slot_free.acquire()  # cancelled here, a request costs nothing
        moved_tokens = _MOVED_TOKENS
        if not request.session or self._read_last[request.slot] != request.session:
            self._read_last[request.slot], moved_tokens = "", 0
        loop = asyncio.get_running_loop()
        call = _Call(loop, request, moved_tokens, lambda: self._let_go(call))
        self._calls.add(call)
        try:
            self._workers.submit(call.run, self._server, self._templated, self._templated_with)
        except RuntimeError:
            self._let_go(call)
            raise EngineError("llamacpp: closed") from None
        try:
            while (item := await call.deltas.get()) is not None:
                yield item
            if call.error is not None:
                raise call.error
        finally:
            call.cancelled.set()
            self._calls.discard(call)

    def _let_go(self, call: _Call) -> None:
        """Of the call's slot, in which another may begin now."""
        slot = call.request.slot
        if call.taken_up:
            self._read_last[slot] = call.request.session
        self._slot_free[slot].release()

    def _templated(self, messages: tuple[ChatMessage, ...]) -> str:
        """The conversation in the model's own form, up to where its answer begins. May block.

        While a question is spoken its conversation is asked for again and again with more words at
        the end: what stands around these is kept.
        """
        *before, last = messages
        frame = self._frame(tuple(before), last.role)
        if frame is None or last.content != last.content.strip():
            return self._apply_template({"messages": _plain(messages)})
        return last.content.join(frame)

    def _frame_of(self, before: tuple[ChatMessage, ...], role: Role) -> tuple[str, str] | None:
        """What the template puts before and behind the text of the last message.

        None: another text has another frame.
        """
        head, *tails = self._framed(before, role, _PROBE).split(_PROBE)
        if len(tails) != 1 or self._framed(before, role, "?") != f"{head}?{tails[0]}":
            return None
        return head, tails[0]

    def _framed(self, before: tuple[ChatMessage, ...], role: Role, text: str) -> str:
        return self._apply_template({"messages": _plain((*before, ChatMessage(role, text)))})

    def _templated_with(self, messages: tuple[ChatMessage, ...], tools: Tools | None) -> str:
        """The same for a conversation with calls. tools: that may be called now. May block."""
        if self._template_knows_tools is None:
            probe = Tools((Tool(_PROBE, "", "{}"),)).as_openai()["tools"]
            asked = {"messages": _plain((ChatMessage("user", "."),)), "tools": probe}
            self._template_knows_tools = _PROBE in self._apply_template(asked)
        if not self._template_knows_tools:
            return self._templated(told_in_words(messages, tools))
        known = {} if tools is None else {"tools": tools.as_openai()["tools"]}
        return self._apply_template({"messages": _plain(messages), **known})

    def _apply_template(self, wanted: dict[str, Any]) -> str:
        return str(self._told("/apply-template", {**wanted, **_NO_THINKING}, "prompt"))

    def count_tokens(self, text: str) -> int:
        count = self._count_again if len(text) <= _COUNTED_TEXT_CHARS else self._count
        return count(text)

    def _count(self, text: str) -> int:
        return len(self._told("/tokenize", {"content": text}, "tokens"))

    def _told(self, path: str, wanted: dict[str, Any], name: str) -> Any:
        """What the server's own port answers. Blocks. Raises EngineError."""
        if self._tokenizer is None:
            raise EngineError("llamacpp: not loaded, or closed")
        try:
            return self._tokenizer.post(path, json=wanted).raise_for_status().json()[name]
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise EngineError(f"llamacpp: {path} has no answer: {error}") from error

    async def close(self) -> None:
        for call in self._calls:
            call.cancelled.set()
        await asyncio.to_thread(self._release)

    def _release(self) -> None:
        self._workers.shutdown(wait=True, cancel_futures=True)
        if self._tokenizer is not None:
            self._tokenizer.close()
        # The last reference: the destructor ends the server's loop and joins its threads.
        self._tokenizer = self._server = None

    def _open_server(self) -> Any:
        # Read by the OpenMP runtime as it is loaded, with the next line.
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)
        try:
            import xllamacpp
        except ImportError as error:  # of a library of the system, mostly
            raise EngineLoadError(
                f"llama.cpp cannot be loaded: {error}; `visavis doctor` says what to install"
            ) from error

        if self.slots > _MOST_SLOTS:
            raise EngineLoadError(
                f"slots: {self.slots}: llama.cpp has {_MOST_SLOTS} at most; start another replica "
                "of llm for more sessions"
            )
        params = xllamacpp.CommonParams()
        params.model.path = str(self._file)
        # Weights are repacked for the CPU at load: a mapped file would be held a second time.
        params.load_mode = xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_NONE
        params.n_gpu_layers = _gpu_layers(xllamacpp, self.device)
        params.n_parallel = self.slots
        params.n_ctx = self.slots * self.context_tokens
        # One token of each slot has to fit into a step, or llama.cpp ends the process.
        params.n_batch = params.n_ubatch = max(_BATCH_TOKENS, self.slots)
        if self.device == "cpu":
            # Else it takes the tokens of a conversation one by one: behind 1,600 of them a prompt
            # takes half as long again. What is read at once and what is read token by token are
            # rounded otherwise for it.
            disabled = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
            params.flash_attn_type = disabled
            # Else a build that finds a GPU, as each for a Mac does, has weights carried there for
            # every 32 tokens of a prompt.
            params.no_op_offload = True
        for cpu in (params.cpuparams, params.cpuparams_batch):
            cpu.n_threads = self._threads
            cpu.poll = 0  # Sleep, not spin, between two steps.
        params.verbosity = -1
        # Nothing beside the slots: no prompts kept in memory, no sizes changed to fit.
        params.cache_ram_mib = 0
        params.cache_idle_slots = False
        params.fit_params = False
        # llama.cpp always listens on a loopback port; we need it to count
        # tokens, and nobody else needs it.
        params.api_keys = [self._api_key]
        params.n_threads_http = 1
        params.ui = False
        params.endpoint_slots = False
        params.sse_ping_interval = -1
        try:
            return xllamacpp.Server(params)
        except RuntimeError as error:
            raise EngineLoadError(
                f"llama.cpp cannot load {self._file}: the file is damaged or of a kind that it "
                f"does not know, or memory is short; run `visavis models verify {self.model}`"
            ) from error


class _Call:
    """One request: runs on a worker thread, hands its deltas to the event loop.

    moved_tokens: stretches of so many are moved of what its slot holds; 0: none are. on_end: called
    there once llama.cpp has let go of it; a cancelled call lives a step longer.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        request: BackendRequest,
        moved_tokens: int,
        on_end: Callable[[], None],
    ) -> None:
        self.cancelled = threading.Event()
        self.error: Exception | None = None
        self.request = request
        self.taken_up = False
        """Its slot holds of its prompt what is read of it, and nothing else."""
        self._loop = loop
        self._moved_tokens = moved_tokens
        self._on_end = on_end
        # Bounded by what one request can make: the beginning, a delta per token,
        # the finish, the usage, the rest of what was no call, and the end mark.
        most = request.sampling.max_tokens + 6
        self.deltas: asyncio.Queue[Delta | None] = asyncio.Queue(most)
        self._reader: CallReader | None = None
        self._held_to_call = False
        self._prompt_tokens = self._cached_tokens = self._pieces = 0

    def run(self, server: Any, templated: _Templated, with_tools: _TemplatedWith) -> None:
        """templated: gives a conversation in the model's own form, up to where it answers;
        with_tools: one with calls.
        """
        try:
            if not self.cancelled.is_set():
                self._put(Delta())  # here the work begins; the first report comes after some of it
                if has_calls(self.request):
                    self._ask_with_tools(server, with_tools)
                else:
                    self._ask(server, templated)
        except Exception as error:
            log.exception("llama.cpp failed")
            self.error = EngineError(f"llama.cpp failed: {error}")
        self._put(None)
        self._call_soon(self._on_end)

    def _ask_with_tools(self, server: Any, templated: _TemplatedWith) -> None:
        request, tools = self.request, self.request.tools
        body = _body(request, self._moved_tokens)
        if tools is not None and tools.calling == "none":
            tools = None
        body["prompt"] = templated(request.messages, tools) + request.written
        if not request.sampling.max_tokens:
            body["prompt"], tools = _up_to_last(body["prompt"], request), None
        elif request.in_words and not request.written:
            body["grammar"] = _IN_WORDS
        if tools is not None:
            if (schema := schema_of(tools)) is not None:
                body["json_schema"] = schema
                self._held_to_call = True
            self._reader = CallReader([t.name for t in tools.known], at_once=tools.at_once)
            self._reader.feed(request.written)
        server.handle_completions(json.dumps(body).encode(), self._on_event)
        if self.error is None and not self.cancelled.is_set():
            self._end_calls()

    def _end_calls(self) -> None:
        if self._reader is None:
            return
        if rest := self._reader.finish():
            self._put(Delta(rest))
        if self._reader.done:
            # Dropped behind the call: the counts are those of what was seen.
            counts = (self._prompt_tokens, self._pieces, self._cached_tokens)
            self._put(Delta("", "tool_calls", *counts))

    def _ask(self, server: Any, templated: _Templated) -> None:
        request, body = self.request, _body(self.request, self._moved_tokens)
        prompt = templated(request.messages) + request.written
        body["prompt"] = prompt if request.sampling.max_tokens else _up_to_last(prompt, request)
        server.handle_completions(json.dumps(body).encode(), self._on_event)

    def _on_event(self, payload: bytes) -> bool:
        """True drops the request. Nothing may be raised into the native caller."""
        if self.cancelled.is_set():
            return True
        try:
            delta = self._read(json.loads(payload))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.error = EngineError(f"llama.cpp sent what cannot be read: {error}")
        if self.error is not None:
            return True
        self.taken_up = True
        if delta is not None and self._reader is not None:
            self._pieces += bool(delta.text)
            text, calls = self._reader.feed(delta.text)
            delta = replace(delta, text=text, tool_calls=tuple(calls))
            if self._held_to_call and self._reader.in_text:
                self.error = InvalidInputError(
                    "tools: the call that was required could not be made; is `parameters` a JSON "
                    "Schema that a grammar can be made of?"
                )
                return True
        if delta is not None:
            self._put(delta)
        return self._reader is not None and self._reader.done

    def _read(self, event: dict[str, Any]) -> Delta | None:
        if "error" in event:
            self.error = _error_of(event["error"])
            return None
        choices = event.get("choices") or [{}]
        text = choices[0].get("text") or ""
        if progress := event.get("prompt_progress"):
            self._prompt_tokens, self._cached_tokens = progress["total"], progress["cache"]
        finish_reason = choices[0].get("finish_reason") or ""
        usage = event.get("usage")
        if usage:  # with the reason
            read, made = usage["prompt_tokens"], usage["completion_tokens"]
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            return Delta(text, finish_reason, read, made, cached)
        return Delta(text, finish_reason) if text or finish_reason else None

    def _put(self, delta: Delta | None) -> None:
        self._call_soon(self.deltas.put_nowait, delta)

    def _call_soon(self, work: Callable[..., None], *arguments: Delta | None) -> None:
        try:
            self._loop.call_soon_threadsafe(work, *arguments)
        except RuntimeError:
            # The event loop has ended, and with it whoever waited for this.
            self.cancelled.set()


def _plain(messages: tuple[ChatMessage, ...]) -> list[dict[str, Any]]:
    return [message.as_openai() for message in messages]


def _body(request: BackendRequest, moved_tokens: int) -> dict[str, Any]:
    """All but the conversation."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "cache_prompt": True,
        "n_cache_reuse": moved_tokens,
        "id_slot": request.slot,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "repeat_penalty": sampling.repeat_penalty,
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    return body


def _up_to_last(prompt: str, request: BackendRequest) -> str:
    """The last message is not complete: what the template puts behind it would be read for nothing,
    each time.
    """
    last = request.messages[-1].content
    return prompt[: prompt.rindex(last) + len(last)] if last in prompt else prompt


def _error_of(error: dict[str, Any]) -> Exception:
    message = f"llama.cpp: {error.get('message', 'unknown error')}"
    if error.get("code") == 400:
        return InvalidInputError(message)
    return EngineError(message)


def _check_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_GGUF_MAGIC))
    except OSError as error:
        raise EngineLoadError(
            f"cannot read the model file {path}: {error.strerror}; "
            "run `visavis models pull <bundle>`, or set `model` to a bundle that is there"
        ) from error
    if magic != _GGUF_MAGIC:
        raise EngineLoadError(f"{path} is not a GGUF file: it begins with {magic!r}")


def _gpu_layers(xllamacpp: Any, device: str) -> int:
    """Layers that go to the GPU: none or all."""
    if device == "cpu":
        return 0
    kinds = {info["type"].name for info in xllamacpp.get_device_info()}
    if not any("GPU" in kind for kind in kinds):
        raise EngineLoadError(
            f"device: {device} is set, but the installed xllamacpp sees no GPU; "
            "install its CUDA build, or set device to cpu"
        )
    return -1
