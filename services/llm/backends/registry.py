"""The backends by name, each imported only when it is chosen; weights laid out as one starts."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from services.llm.backends.base import TextBackend
from services.llm.settings import LlmSettings
from visavis.bundles.gguf.prepared import laid_out_file
from visavis.serving.errors import SettingsError
from visavis.serving.lifetime.starting import busy_with

log = logging.getLogger(__name__)

_LOGGED_PERCENT = 25


def open_backend(settings: LlmSettings) -> TextBackend:
    """The backend that `settings.backend` names, not loaded yet.

    Raises SettingsError for an unknown name, ModelStoreError if the bundle is not pulled.
    """
    factory = _FACTORIES.get(settings.backend)
    if factory is None:
        raise SettingsError(f"backend: {settings.backend!r} is none of {', '.join(_FACTORIES)}")
    return factory(settings)


def _llamacpp(settings: LlmSettings) -> TextBackend:
    from services.llm.backends.llamacpp import LlamaCppBackend
    from visavis.bundles.store import bundle_path, load_manifest, profile

    model = settings.model or profile(settings.profile, settings.model_dir)["llm"][0]
    path = bundle_path(model, settings.model_dir) / "model.gguf"
    files = load_manifest(model, settings.model_dir).files
    laid_out = settings.weights_layout == "cpu" and settings.device == "cpu"
    return LlamaCppBackend(
        path,
        model=model,
        file=next((file.published_name for file in files if file.path == path.name), ""),
        slots=settings.slots,
        context_tokens=settings.context_tokens,
        threads=settings.threads,
        device=settings.device,
        choose_file=functools.partial(lay_out, bundle=model) if laid_out else None,
    )


def _openai(settings: LlmSettings) -> TextBackend:
    from services.llm.backends.openai_compatible import OpenAiCompatibleBackend

    return OpenAiCompatibleBackend(
        settings.url,
        model=settings.model,
        api_key=settings.api_key.get_secret_value(),
        slots=settings.slots,
        context_tokens=settings.context_tokens,
        connect_timeout_s=settings.connect_timeout_s,
        read_timeout_s=settings.read_timeout_s,
        extra=settings.extra_fields(),
        goes_on=settings.goes_on,
    )


def _tensorrt_llm(settings: LlmSettings) -> TextBackend:
    from services.llm.backends.tensorrt_llm import KvCacheLimits, TensorRtLlmBackend

    if settings.device not in ("cuda", "cuda:0"):
        # The engine's worker processes take the first GPU that they see.
        raise SettingsError(
            f"device: {settings.device!r} is not for tensorrt_llm: set cuda:0, and choose the GPU "
            "with the variable CUDA_VISIBLE_DEVICES"
        )
    if not settings.model:
        raise SettingsError("model: the tensorrt_llm backend needs the directory of a checkpoint")
    return TensorRtLlmBackend(
        Path(settings.model).expanduser(),
        slots=settings.slots,
        context_tokens=settings.context_tokens,
        kv_cache=KvCacheLimits(
            memory_fraction=settings.kv_cache_fraction,
            max_tokens=settings.kv_cache_tokens,
            host_bytes=settings.kv_cache_host_mb * 1024 * 1024,
            reuse=settings.kv_cache_reuse,
        ),
        scheduler=settings.scheduler,
        tensor_parallel=settings.tensor_parallel,
        silence_s=settings.read_timeout_s,
    )


_FACTORIES: Mapping[str, Callable[[LlmSettings], TextBackend]] = {
    "llamacpp": _llamacpp,
    "openai": _openai,
    "tensorrt_llm": _tensorrt_llm,
}


async def lay_out(source: Path, bundle: str) -> Path:
    """The file to load in place of `source`, made now if it must be; see `laid_out_file`.

    The event loop goes on meanwhile; that the start is busy with it is told (`serving.starting`).
    Cancelled, it returns once the work has stopped and what was written of it is gone.
    """
    logged = -_LOGGED_PERCENT
    given_up = threading.Event()

    def note(fraction: float) -> None:
        nonlocal logged
        percent = int(100 * fraction)
        text = f"laying out the weights of {bundle} for this processor (once): {percent} %"
        busy_with(text)
        if percent >= logged + _LOGGED_PERCENT:
            logged = percent
            log.info("%s", text)

    work = asyncio.ensure_future(
        asyncio.to_thread(
            functools.partial(laid_out_file, on_fraction=note, cancelled=given_up.is_set),
            source,
            bundle,
        )
    )
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        given_up.set()
        await asyncio.gather(work, return_exceptions=True)
        raise
