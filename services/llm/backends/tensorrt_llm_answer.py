"""One answer of TensorRT-LLM: its steps to deltas, its errors to ours."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator
from typing import Any

from services.llm.backends.base import Delta
from visavis.serving.errors import EngineError, InvalidInputError, VisavisError

log = logging.getLogger(__name__)

_MAX_ERROR_CHARS = 300
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OUT_OF_MEMORY|cudaErrorMemoryAllocation|bad_alloc|insufficient.{0,20}memory",
    re.IGNORECASE,
)
# A request's own fault and a step that failed come as the same class: the text tells them apart.
_TOO_LONG = re.compile(
    r"(prompt|input|sequence).{0,40}(too long|exceed)|max_(seq|input)_len|max_num_tokens",
    re.IGNORECASE,
)


class TensorRtLlmAnswer:
    """One answer at work, as deltas.

    `output` is what generate_async gave: one object that changes with every step. Silence of
    `silence_s` is an error: an engine whose worker process died says nothing.
    """

    def __init__(
        self,
        output: Any,
        prompt_tokens: int,
        request_error: type[Exception],
        *,
        silence_s: float,
    ) -> None:
        self._output = output
        self._prompt_tokens = prompt_tokens
        self._request_error = request_error
        self._silence_s = silence_s
        self._waiting: asyncio.Timeout | None = None
        self._given_up = False
        self._aborted = False

    async def deltas(self) -> AsyncGenerator[Delta, None]:
        """Raises EngineError, or InvalidInputError where the engine refuses the request."""
        steps = aiter(self._output)
        while await self._step(steps):
            completion = self._output.outputs[0]
            if self._output.finished:
                yield self._last(completion)
                return
            # Read before the next step, which replaces it.
            if text := completion.text_diff:
                yield Delta(text)
        raise EngineError("TensorRT-LLM ended the answer without finishing it")

    def abort(self) -> None:
        """Stop the work, if there is any left. Leaving its loop alone would not."""
        if self._output.finished or self._aborted:
            return
        self._aborted = True
        try:
            self._output.abort()
        except Exception:
            log.exception("TensorRT-LLM could not abort a request")

    def give_up(self) -> None:
        """The engine is about to end: stop the work, and wake who waits for it."""
        self._given_up = True
        self.abort()
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def _step(self, steps: Any) -> bool:
        try:
            if self._given_up:
                raise TimeoutError
            async with asyncio.timeout(self._silence_s) as self._waiting:
                return await anext(steps, None) is not None
        except TimeoutError as error:
            if self._given_up:
                raise EngineError("the language model is shutting down") from error
            raise EngineError(f"TensorRT-LLM gave nothing for {self._silence_s:g} s") from error
        except Exception as error:  # The engine hands on whatever went wrong in its worker.
            raise explain(error, self._request_error) from error
        finally:
            self._waiting = None

    def _last(self, completion: Any) -> Delta:
        reason = completion.finish_reason or "stop"
        if reason not in ("stop", "length"):
            raise EngineError(f"TensorRT-LLM ended the answer early: {reason}")
        return Delta(
            completion.text_diff,
            reason,
            self._prompt_tokens,
            len(completion.token_ids),
            # Not every release says how much of the prompt was in the cache.
            int(getattr(self._output, "cached_tokens", 0) or 0),
        )


def explain(error: Exception, request_error: type[Exception]) -> VisavisError:
    """Our error for one that TensorRT-LLM raised while working."""
    if out_of_memory(error):
        return EngineError(
            f"TensorRT-LLM: the GPU is out of memory: {one_line(error)}; lower "
            "`kv_cache_fraction`, `slots` or `context_tokens`, or end what else runs on it"
        )
    if isinstance(error, request_error | ValueError) and _TOO_LONG.search(str(error)):
        return InvalidInputError(f"TensorRT-LLM refuses the request: {one_line(error)}")
    log.error("TensorRT-LLM failed", exc_info=error)
    return EngineError(f"TensorRT-LLM failed: {one_line(error)}")


def out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or bool(_OUT_OF_MEMORY.search(str(error)))


def one_line(error: Exception) -> str:
    """The error's text on one short line, or its class where it has none."""
    return " ".join(str(error).split())[:_MAX_ERROR_CHARS] or type(error).__name__
