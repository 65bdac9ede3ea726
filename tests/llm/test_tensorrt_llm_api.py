"""Whether another tensorrt_llm than the one that we know is told apart, by name."""

import sys
from dataclasses import dataclass
from typing import Any

import pytest

from services.llm.backends.tensorrt_llm_api import CALLS, load_api
from tests.llm import recorded_tensorrt_llm as recorded
from visavis.serving.errors import EngineLoadError


def test_the_recorded_signatures_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded.install(monkeypatch)
    api = load_api()
    assert api.version == "1.2.1"
    assert api.SamplingParams is recorded.SamplingParams


def test_every_option_of_the_engine_is_recorded() -> None:
    """LLM takes them as **kwargs, so that its signature alone says nothing of them."""
    named = {"model", "tensor_parallel_size", "trust_remote_code"}
    assert set(CALLS[0].keywords) - named <= recorded.OPTIONS


class NoStreaming(recorded.LLM):
    def generate_async(self, inputs: Any, sampling_params: Any = None) -> Any:  # type: ignore[override]
        return None


class Coroutine(recorded.LLM):
    async def generate_async(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return None


class OtherStop(recorded.LLM):
    def shutdown(self, grace_s: float) -> None:  # type: ignore[override]
        return None


class NoAbort:
    finished = False

    def __aiter__(self) -> Any: ...

    async def __anext__(self) -> Any: ...


@dataclass
class NoDiff:
    token_ids: list[int]
    finish_reason: str | None = None


@dataclass(kw_only=True)
class Renamed:
    enable_block_reuse: bool = True
    gpu_memory_fraction: float = 0.9
    max_tokens: int | None = None
    host_cache_size: int | None = None


@dataclass(kw_only=True)
class FewOptions:
    model: Any
    max_batch_size: int = 1


@pytest.mark.parametrize(
    ("replaced", "complaint"),
    [
        ({"LLM": NoStreaming}, r"LLM\.generate_async: got an unexpected keyword.*'streaming'"),
        ({"LLM": Coroutine}, r"LLM\.generate_async: is a coroutine function"),
        ({"LLM": OtherStop}, r"LLM\.shutdown: missing a required argument: 'grace_s'"),
        ({"RequestOutput": NoAbort}, r"RequestOutput\.abort: is missing"),
        ({"CompletionOutput": NoDiff}, r"CompletionOutput\.text_diff is missing"),
        ({"KvCacheConfig": Renamed}, r"KvCacheConfig: .*'free_gpu_memory_fraction'"),
        ({"SchedulerConfig": None}, r"SchedulerConfig is missing"),
        ({"TorchLlmArgs": FewOptions}, r"LLM: got an unexpected keyword argument"),
    ],
)
def test_what_differs_is_named(
    monkeypatch: pytest.MonkeyPatch, replaced: dict[str, Any], complaint: str
) -> None:
    recorded.install(monkeypatch, **replaced)
    with pytest.raises(EngineLoadError, match=rf"tensorrt_llm 1\.2\.1 is not as .*{complaint}"):
        load_api()


def test_a_missing_package_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_llm", None)
    with pytest.raises(EngineLoadError, match=r"tensorrt_llm is not installed .*deploy/llm-tens"):
        load_api()


def test_a_package_that_cannot_be_imported_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "tensorrt_llm.py").write_text("raise OSError('libcuda.so.1: cannot open')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tensorrt_llm", raising=False)
    with pytest.raises(EngineLoadError, match=r"cannot be imported: OSError: libcuda\.so\.1"):
        load_api()
