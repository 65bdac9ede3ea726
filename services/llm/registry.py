"""The backends by name. Each is imported only when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from services.llm.backend import TextBackend
from services.llm.settings import LlmSettings
from visavis.errors import SettingsError


def _llamacpp(settings: LlmSettings) -> TextBackend:
    from services.llm.llamacpp import LlamaCppBackend
    from visavis.models import bundle_path, profile

    model = settings.model or profile(settings.profile)["llm"][0]
    return LlamaCppBackend(
        bundle_path(model, settings.model_dir) / "model.gguf",
        model=model,
        slots=settings.slots,
        context_tokens=settings.context_tokens,
        threads=settings.threads,
        device=settings.device,
    )


def _openai(settings: LlmSettings) -> TextBackend:
    from services.llm.openai_compatible import OpenAiCompatibleBackend

    return OpenAiCompatibleBackend(
        settings.url,
        model=settings.model,
        api_key=settings.api_key.get_secret_value(),
        slots=settings.slots,
        context_tokens=settings.context_tokens,
        connect_timeout_s=settings.connect_timeout_s,
        read_timeout_s=settings.read_timeout_s,
    )


_FACTORIES: Mapping[str, Callable[[LlmSettings], TextBackend]] = {
    "llamacpp": _llamacpp,
    "openai": _openai,
}


def open_backend(settings: LlmSettings) -> TextBackend:
    """The backend that `settings.backend` names, not loaded yet.

    Raises SettingsError for an unknown name, ModelStoreError if the bundle is not pulled.
    """
    factory = _FACTORIES.get(settings.backend)
    if factory is None:
        raise SettingsError(f"backend: {settings.backend!r} is none of {', '.join(_FACTORIES)}")
    return factory(settings)
