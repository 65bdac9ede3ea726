"""What we use of the package tensorrt_llm, checked against the one that is installed.

The package changes its interface between releases. Whatever we call is listed
here once, and compared with the real signatures before anything is started:
a wrong version is told by name at the start, not found in the middle of an answer.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from visavis.serving.errors import EngineLoadError

WRITTEN_FOR = "1.2.1"
ADVICE = (
    "use the image of deploy/llm-tensorrt, or run trtllm-serve beside this service "
    "and set `backend` to openai"
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call that we make: `path` in the package, and the names of what we pass.

    `positional` arguments come first; for a method `self` is one of them.
    """

    path: str
    keywords: tuple[str, ...] = ()
    positional: int = 0


CALLS = (
    Call(
        "LLM",
        (
            "model",
            "tensor_parallel_size",
            "trust_remote_code",
            "max_batch_size",
            "max_input_len",
            "max_seq_len",
            "enable_chunked_prefill",
            "enable_iter_perf_stats",
            "kv_cache_config",
            "scheduler_config",
        ),
    ),
    Call("LLM.generate_async", ("sampling_params", "streaming"), positional=2),
    Call("LLM.get_stats", ("timeout",), positional=1),
    Call("LLM.shutdown", positional=1),
    Call("RequestOutput.abort", positional=1),
    Call(
        "SamplingParams",
        ("max_tokens", "temperature", "top_p", "top_k", "repetition_penalty", "seed"),
    ),
    Call(
        "KvCacheConfig",
        ("enable_block_reuse", "free_gpu_memory_fraction", "max_tokens", "host_cache_size"),
    ),
    Call("SchedulerConfig", ("capacity_scheduler_policy",)),
)
# What we read. `outputs` of a RequestOutput stands on the instance only.
ATTRIBUTES = {
    "LLM": ("tokenizer",),
    "RequestOutput": ("finished", "__aiter__", "__anext__"),
    "CompletionOutput": ("text_diff", "token_ids", "finish_reason"),
    "CapacitySchedulerPolicy": ("GUARANTEED_NO_EVICT", "MAX_UTILIZATION"),
}
_TOP_LEVEL = ("LLM", "SamplingParams")
_CLASSES = (
    *_TOP_LEVEL,
    "KvCacheConfig",
    "SchedulerConfig",
    "CapacitySchedulerPolicy",
    "RequestOutput",
    "CompletionOutput",
    "RequestError",
)
# Declares the options of LLM, which itself takes them as **kwargs.
_OPTIONS = "TorchLlmArgs"


@dataclass(frozen=True, slots=True)
class Api:
    """The classes of the installed package."""

    version: str
    LLM: Any
    SamplingParams: Any
    KvCacheConfig: Any
    SchedulerConfig: Any
    CapacitySchedulerPolicy: Any
    RequestError: type[Exception]


def load_api() -> Api:
    """Import tensorrt_llm and check it; takes seconds, so call it off the event loop.

    Raises EngineLoadError if it is missing, cannot be imported, or differs.
    """
    try:
        top = importlib.import_module("tensorrt_llm")
        api = importlib.import_module("tensorrt_llm.llmapi")
    except ModuleNotFoundError as error:
        raise EngineLoadError(f"{error.name} is not installed here: {ADVICE}") from error
    except Exception as error:  # Its import loads CUDA and MPI libraries, which fail in many ways.
        raise EngineLoadError(
            f"tensorrt_llm cannot be imported: {type(error).__name__}: {error}; "
            f"is there a GPU with its driver, CUDA and MPI? {ADVICE}"
        ) from error
    version = str(getattr(top, "__version__", "of unknown version"))
    classes = {name: getattr(top if name in _TOP_LEVEL else api, name, None) for name in _CLASSES}
    differences = find_differences(classes, getattr(api, _OPTIONS, None))
    if differences:
        raise EngineLoadError(
            f"tensorrt_llm {version} is not as this backend knows it (written for {WRITTEN_FOR}): "
            f"{'; '.join(differences)}; {ADVICE}"
        )
    used: dict[str, Any] = {name: classes[name] for name in _CLASSES if not name.endswith("Output")}
    return Api(version, **used)


def find_differences(classes: dict[str, Any], options: Any) -> list[str]:
    """What is missing or differs, each with its name. Empty: all of our calls fit.

    `options`: the class that declares what LLM takes as **kwargs, or None.
    """
    found = [f"{name} is missing" for name, value in classes.items() if value is None]
    present = {name: value for name, value in classes.items() if value is not None}
    for call in CALLS:
        owner, _, method = call.path.partition(".")
        if owner not in present:
            continue
        target = getattr(present[owner], method, None) if method else present[owner]
        found += [f"{call.path}: {what}" for what in _misfits(target, call, options)]
    for owner, names in ATTRIBUTES.items():
        if owner in present:
            fields = getattr(present[owner], "__dataclass_fields__", {})
            found += [
                f"{owner}.{name} is missing"
                for name in names
                if not hasattr(present[owner], name) and name not in fields
            ]
    return found


def _misfits(target: Any, call: Call, options: Any) -> list[str]:
    if not callable(target):
        return ["is missing"]
    if inspect.iscoroutinefunction(target):
        return ["is a coroutine function, and was none"]
    misfits = _unbound(target, call.positional, call.keywords)
    if call.path == "LLM" and options is not None and not misfits:
        misfits = _unbound(options, 0, call.keywords)
    return misfits


def _unbound(target: Callable[..., Any], positional: int, keywords: tuple[str, ...]) -> list[str]:
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError) as error:
        return [f"has no signature: {error}"]
    try:
        signature.bind(*range(positional), **dict.fromkeys(keywords))
    except TypeError as error:
        return [f"{error}, has {signature}"]
    return []
