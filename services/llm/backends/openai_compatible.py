"""Any server that speaks OpenAI's chat completions: by URL, streamed.

Tried against llama.cpp's server. vLLM, SGLang and TensorRT-LLM's trtllm-serve differ in their
errors, finish reasons and model lists (docs/language-models.md); what is known of that is read
here, and tested against its recorded shapes.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import logging
import math
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

import httpx

from services.llm.backends.base import BackendRequest, Delta
from services.llm.tools import calls_in
from visavis.serving.errors import (
    AtCapacityError,
    EngineError,
    EngineLoadError,
    InvalidInputError,
    SettingsError,
    VisavisError,
)
from visavis.serving.way_out import (
    UNPACKED,
    beginning_of,
    by_proxy,
    json_in,
    way_to,
    whole,
    why_not,
)

log = logging.getLogger(__name__)

_DONE = "[DONE]"
_WAIT_BEHIND_END_S = 1.0
_MAX_ERROR_BYTES = 64 * 1024
_MAX_ERROR_CHARS = 300
_MAX_LINE_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
# Said by servers when an answer did not come to its end. All others are a stop.
_BROKEN_OFF = frozenset({"abort", "aborted", "cancelled", "error", "timeout"})
# Ours to set: an answer could not be read otherwise.
_OWN_FIELDS = frozenset({"model", "messages", "stream", "stream_options", "n"})
# What an answer can do without where its model does not know it, as OpenAI's newer ones do not;
# for `max_tokens` they have another name.
_DISPENSABLE = ("max_tokens", "temperature", "top_p", "seed", "stream_options")
# With an assistant's message at the end: it is not over, and no other one is begun. llama.cpp's
# server needs neither, vLLM both, SGLang the first; others refuse what they do not know.
_GOES_ON = {"continue_final_message": True, "add_generation_prompt": False}
_UNSUPPORTED = re.compile(r"unsupported|not support", re.IGNORECASE)
# No tokenizer at hand. English takes about four letters a token; a digit, the blank before it and a
# line's end are mostly one each, and so are two marks side by side. Chinese takes up to one and a
# half tokens a character with models that know it, and all else no more than it has bytes.
# Estimates from above only shorten old history.
_LETTERS = re.compile(r"[A-Za-z]+")
_LETTERS_PER_TOKEN = 3
_MARKS = re.compile(r"[!-/:-@\[-`{-~]+")
_MARKS_PER_TOKEN = 2
_DIGIT = re.compile(r" ?[0-9]")
_GAP = re.compile(r"\n| {2,}")
_CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef]")
_TOKENS_PER_CJK_CHAR = 1.5
_OTHER = re.compile(rf"(?!{_CJK.pattern})[^\x00-\x7f]")


class OpenAiCompatibleBackend:
    """Asks a server elsewhere for its answers.

    `url` is the API's base, for example http://127.0.0.1:8000/v1. `model` empty: the first that
    the server lists. `extra`: fields that every request carries beside ours, for what only some
    servers know. `goes_on`: the server writes on behind an assistant's message that comes last.
    """

    name = "openai"
    # Whether the server keeps prefixes is its own affair, and reading one ahead may cost money.
    device = "remote"
    keeps_prefix = False
    resumes = False
    in_turn = False  # its engine sees to that

    def __init__(
        self,
        url: str,
        *,
        model: str = "",
        api_key: str = "",
        slots: int,
        context_tokens: int,
        connect_timeout_s: float = 5.0,
        read_timeout_s: float = 30.0,
        extra: Mapping[str, Any] | None = None,
        goes_on: bool = True,
    ) -> None:
        self.model = model
        self.file = ""
        self.slots = slots
        self.context_tokens = context_tokens
        self._url = _base_url(url)
        self._read_timeout_s = read_timeout_s
        self._extra = _checked_extra(extra or {})
        self._goes_on = goes_on
        self._not_taken: set[str] = set()
        """Fields that the server has refused, and is not sent any more."""
        self._client = httpx.AsyncClient(
            headers=UNPACKED
            | ({"Authorization": f"Bearer {key}"} if (key := _checked_key(api_key)) else {}),
            timeout=httpx.Timeout(read_timeout_s, connect=connect_timeout_s),
            limits=httpx.Limits(max_connections=2 * slots, max_keepalive_connections=slots),
            **way_to(self._url),
        )

    async def load(self) -> None:
        """Asks the server for its models, so that a wrong address or key is known at once.

        Raises EngineLoadError.
        """
        try:
            async with self._client.stream("GET", f"{self._url}/models") as answer:
                told = await whole(answer)
            if answer.status_code in (404, 405):
                models: list[dict[str, Any]] = []  # Not every server has a list.
            elif answer.is_success:
                models = [{**entry, "id": entry["id"]} for entry in json_in(told)["data"] or []]
            else:
                raise self._status_error(answer.status_code, told.decode(errors="replace"))
        except httpx.HTTPError as error:
            raise EngineLoadError(f"{self._explain(error)}; check `url`") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EngineLoadError(
                f"{self._url}/models did not answer with a list of models; "
                "is `url` the base of an OpenAI-compatible API (it mostly ends in /v1)?"
            ) from error
        except VisavisError as error:
            raise EngineLoadError(str(error)) from error
        if not self.model:
            if not models:
                raise EngineLoadError(f"{self._url} lists no models: set `model`")
            self.model = str(models[0]["id"])
        self._heed(models)

    def _heed(self, models: list[dict[str, Any]]) -> None:
        """What the list says of our model: whether it is there, and how much it reads."""
        ours = next((entry for entry in models if entry["id"] == self.model), None)
        if ours is None:
            if models:
                listed = ", ".join(str(entry["id"]) for entry in models[:10])
                log.warning("%s lists %s, not the model %r", self._url, listed, self.model)
            return
        longest = ours.get("max_model_len")  # vLLM and SGLang say it.
        if isinstance(longest, int) and 0 < longest < self.context_tokens:
            log.warning(
                "context_tokens: %d, but %s reads %d at most: history is cut to that",
                self.context_tokens,
                self.model,
                longest,
            )
            self.context_tokens = longest

    async def stream(self, request: BackendRequest) -> AsyncGenerator[Delta, None]:
        """Raises as `TextBackend.stream`: the server's status says which."""
        if request.written and not self._goes_on:
            raise EngineError(f"{self._url} does not go on behind what is written (`goes_on`)")
        try:
            while True:
                body = self._body(request)
                async with self._client.stream(
                    "POST", f"{self._url}/chat/completions", json=body
                ) as answer:
                    if answer.is_success:
                        yield Delta()
                        # Closing the generator closes the connection: the server stops then.
                        async with contextlib.aclosing(_deltas(answer)) as deltas:
                            async for delta in deltas:
                                yield delta
                        return
                    text = (await beginning_of(answer, _MAX_ERROR_BYTES)).decode(errors="replace")
                refused = _refused_field(text) if answer.status_code in (400, 422) else ""
                if refused not in body or refused in self._extra:
                    error = self._status_error(answer.status_code, text)
                    if request.written and isinstance(error, InvalidInputError):
                        raise EngineError(f"the answer cannot go on: {error}")
                    raise error
                log.warning("%s takes no %s for %s", self._url, refused, self.model)
                self._not_taken.add(refused)
        except httpx.HTTPError as error:
            raise EngineError(self._explain(error)) from error

    def count_tokens(self, text: str) -> int:
        return (
            sum(math.ceil(len(word) / _LETTERS_PER_TOKEN) for word in _LETTERS.findall(text))
            + sum(math.ceil(len(marks) / _MARKS_PER_TOKEN) for marks in _MARKS.findall(text))
            + sum(len(digit) for digit in _DIGIT.findall(text))
            + len(_GAP.findall(text))
            + math.ceil(len(_CJK.findall(text)) * _TOKENS_PER_CJK_CHAR)
            + len("".join(_OTHER.findall(text)).encode())
        )

    async def close(self) -> None:
        await self._client.aclose()

    def _body(self, request: BackendRequest) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [message.as_openai() for message in request.told_to_answer()],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": max(1, sampling.max_tokens),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if "max_tokens" in self._not_taken or "max_completion_tokens" in self._extra:
            body["max_completion_tokens"] = body.pop("max_tokens")
        for refused in self._not_taken:
            body.pop(refused, None)
        if request.tools is not None:
            body |= request.tools.as_openai()
        if request.written:
            body["messages"].append({"role": "assistant", "content": request.written})
            body |= _GOES_ON
        return body | self._extra

    def _explain(self, error: httpx.HTTPError) -> str:
        if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
            return f"no language model server answers at {self._url}: {why_not(self._url, error)}"
        if isinstance(error, httpx.PoolTimeout):
            return f"every connection to {self._url} is busy"
        if isinstance(error, httpx.TimeoutException):
            return f"{self._url} sent nothing for {self._read_timeout_s:g} s"
        return f"the connection to {self._url} broke: {why_not(self._url, error)}"

    def _status_error(self, status: int, text: str) -> VisavisError:
        """Our error for an answer of the server with a status that is no success."""
        reason = f"{self._url} answered {status}: {_message_in(text)}"
        if status == 407:
            return EngineError(reason + by_proxy(self._url))
        if status in (401, 403):
            return EngineError(f"{reason}; check `api_key`")
        if status == 404:
            return EngineError(f"{reason}; check `url` and `model` ({self.model!r})")
        return _by_status(status, reason)


def _checked_extra(extra: Mapping[str, Any]) -> dict[str, Any]:
    if taken := sorted(_OWN_FIELDS & extra.keys()):
        raise SettingsError(f"extra: {', '.join(taken)} cannot be set here")
    return dict(extra)


def _checked_key(key: str) -> str:
    """As a header can hold it: a file or a secret that it comes from may end in a newline."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise SettingsError("api_key: it holds what no key does, such as a line's end or an accent")
    return key


def _base_url(url: str) -> str:
    base = url.rstrip("/").removesuffix("/chat/completions")
    try:
        parsed = httpx.URL(base) if base.startswith(("http://", "https://")) else None
    except httpx.InvalidURL:
        parsed = None
    if parsed is None or not parsed.host:
        raise SettingsError(
            f"url: {url!r} is not an address such as http://127.0.0.1:8000/v1 "
            "(needed by the openai backend)"
        )
    return base


async def _deltas(answer: httpx.Response) -> AsyncGenerator[Delta, None]:
    """Behind the answer's end its usage and the end of the stream may come; or nothing, and then
    they are not waited for long.
    """
    parser, characters = SseParser(), _WholeCharacters()
    finished, pieces = False, answer.aiter_raw()
    while True:
        try:
            async with asyncio.timeout(_WAIT_BEHIND_END_S if finished else None):
                piece = await anext(pieces, b"")
        except (TimeoutError, httpx.HTTPError):
            if finished:
                return
            raise
        if not piece:
            break
        for event in parser.feed(piece):
            if event.strip() == _DONE:
                return
            delta = characters.of(_delta_of(event))
            finished = finished or bool(delta.finish_reason)
            yield delta
    if not finished:
        raise EngineError("the language model server ended in the middle of the answer")


class _WholeCharacters:
    """Joins characters that come in halves: a server may cut its text in UTF-16, inside an emoji,
    and write both parts as JSON. A half whose other one never comes is no text of ours.
    """

    def __init__(self) -> None:
        self._decoders: defaultdict[int, codecs.IncrementalDecoder] = defaultdict(
            lambda: codecs.getincrementaldecoder("utf-16-le")("replace")
        )
        """By the call's index; -1: of the text."""

    def of(self, delta: Delta) -> Delta:
        """The same, without halves."""
        calls = tuple(
            replace(call, arguments=self._whole(call.index, call.arguments))
            for call in delta.tool_calls
        )
        return replace(delta, text=self._whole(-1, delta.text), tool_calls=calls)

    def _whole(self, of: int, text: str) -> str:
        return self._decoders[of].decode(text.encode("utf-16-le", "surrogatepass"))


def _delta_of(event: str) -> Delta:
    try:
        content = json.loads(event)
        _raise_event_error(content)
        choice = (content.get("choices") or [{}])[0]
        usage = content.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        said = choice.get("delta") or {}
        text = said.get("content") or ""
        if not isinstance(text, str):
            raise TypeError(f"content is {type(text).__name__}")
        return Delta(
            text,
            _finish_reason(choice.get("finish_reason")),
            int(usage.get("prompt_tokens") or 0),
            int(usage.get("completion_tokens") or 0),
            int(cached),
            calls_in(said),
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise EngineError(
            f"the language model server sent what is no chat completion: {event[:80]!r}"
        ) from error


def _finish_reason(reason: str | None) -> str:
    """Ours are "stop", "length", "tool_calls"; whatever else ends an answer well is a stop."""
    if reason is None or reason in ("length", "tool_calls"):
        return reason or ""
    if reason in _BROKEN_OFF:
        raise EngineError(f"the language model server broke the answer off: {reason}")
    return "stop"


class SseParser:
    """Server-sent events out of bytes cut anywhere, as the HTML standard (9.2.6) reads them.

    Comments and fields other than `data` are skipped.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._first_line = True
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """The data of each event that `piece` completes.

        Raises EngineError if a line never ends or is not UTF-8.
        """
        events: list[str] = []
        # A line ends with CR, LF or CRLF; the LF of a CRLF may come in the next piece.
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        self._rest += piece
        while (end := _line_end(self._rest)) >= 0:
            line, ending = self._rest[:end], self._rest[end : end + 2]
            size = 2 if ending == b"\r\n" else 1
            self._after_cr = ending == b"\r"
            self._rest = self._rest[end + size :]
            event = self._take_line(line)
            if event is not None:
                events.append(event)
        if len(self._rest) > _MAX_LINE_BYTES:
            raise EngineError("the language model server sent a line of more than 1 MB")
        return events

    def _take_line(self, line: bytes) -> str | None:
        if self._first_line:
            line = line.removeprefix(_BOM)
            self._first_line = False
        if not line:
            event, self._data = "\n".join(self._data) if self._data else None, []
            return event
        field, _, value = line.partition(b":")
        if field == b"data":
            try:
                self._data.append(value.removeprefix(b" ").decode())
            except UnicodeDecodeError as error:
                raise EngineError(
                    "the language model server sent text that is not UTF-8"
                ) from error
        return None


def _line_end(text: bytes) -> int:
    ends = [place for mark in (b"\n", b"\r") if (place := text.find(mark)) >= 0]
    return min(ends, default=-1)


def _raise_event_error(content: Any) -> None:
    """Raises our error if an event of a stream that began well is an error, with its status, if
    any, as its `code`.
    """
    error = content.get("error")
    if not error and content.get("object") == "error":
        error = content
    if not error:
        return
    code = error.get("code") if isinstance(error, dict) else None
    reason = f"the language model server failed: {_message_in(json.dumps(content))}"
    raise _by_status(code if isinstance(code, int) else 500, reason)


def _refused_field(text: str) -> str:
    """Which of the fields that can be left out an error says to be unknown; "": none.

    OpenAI names it as `param`; who stands between may hand on the message alone.
    """
    message = _message_in(text)
    if not _UNSUPPORTED.search(message):
        return ""
    try:
        param = json.loads(text)["error"].get("param")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        param = None
    named = [param, *re.findall(r"['`\"](\w+)['`\"]", message)]
    return next((name for name in named if name in _DISPENSABLE), "")


def _message_in(text: str) -> str:
    """The message in an error body, on one short line, in whichever shape it comes.

    {"error": {"message": ...}} (OpenAI, newer vLLM, llama.cpp), {"object": "error", "message": ...}
    (SGLang, trtllm-serve, older vLLM), or {"detail": [...]} where FastAPI refuses a field.
    """
    try:
        content = json.loads(text)
        error = content.get("error", content)
        message = _message_of(error) if isinstance(error, dict) else error
    except (ValueError, AttributeError, RecursionError):
        message = text
    return " ".join(str(message).split())[:_MAX_ERROR_CHARS] or "(no message)"


def _message_of(error: dict[str, Any]) -> Any:
    if "message" in error:
        return error["message"]
    detail = error.get("detail", error)
    if not isinstance(detail, list):
        return detail
    return "; ".join(
        f"{'.'.join(map(str, part.get('loc', ())))}: {part.get('msg')}"
        if isinstance(part, dict)
        else str(part)
        for part in detail
    )


def _by_status(status: int, reason: str) -> VisavisError:
    # SGLang answers 503 where its queue is full; with others 503 is "still loading".
    if status == 429 or (status == 503 and "queue is full" in reason):
        return AtCapacityError(reason)
    if status in (400, 413, 422):
        return InvalidInputError(reason)
    return EngineError(reason)
