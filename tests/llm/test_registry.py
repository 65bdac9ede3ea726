"""Choosing a backend by settings, and the settings themselves."""

import subprocess
import sys
from pathlib import Path

import pytest

from services.llm.backends.registry import open_backend
from services.llm.settings import LlmSettings
from visavis.serving.errors import ModelStoreError, SettingsError
from visavis.serving.settings import load_settings


def settings(*argv: str) -> LlmSettings:
    return load_settings(LlmSettings, argv, prog="llm")


def test_a_bundle_that_is_not_pulled_is_named_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(ModelStoreError, match=r"smollm2-135m .*visavis models pull smollm2-135m"):
        open_backend(settings("--profile", "tiny", "--model-dir", str(tmp_path)))


def test_the_profile_names_the_model_unless_it_is_set(tmp_path: Path) -> None:
    general = "qwen2.5-1.5b-instruct"
    for argv, bundle in (((), "qwen2.5-coder-0.5b-instruct"), (("--model", general), general)):
        with pytest.raises(ModelStoreError, match=bundle):
            open_backend(settings("--model-dir", str(tmp_path), *argv))


async def test_the_openai_backend_takes_its_address_and_slots() -> None:
    backend = open_backend(
        settings("--backend", "openai", "--url", "http://127.0.0.1:9/v1", "--slots", "7")
    )
    assert (backend.name, backend.slots) == ("openai", 7)
    await backend.close()


def test_the_openai_backend_needs_an_address() -> None:
    with pytest.raises(SettingsError, match="url"):
        open_backend(settings("--backend", "openai"))


def test_the_tensorrt_llm_backend_takes_its_settings_without_the_package() -> None:
    backend = open_backend(
        settings(
            *("--backend", "tensorrt_llm", "--model", "/models/some-model", "--device", "cuda:0"),
            *("--slots", "6", "--kv-cache-reuse", "false"),
        )
    )
    assert (backend.name, backend.model, backend.slots) == ("tensorrt_llm", "some-model", 6)
    assert not backend.keeps_prefix


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (("--model", "/models/m"), "device: 'cpu' is not for tensorrt_llm: set cuda:0"),
        (("--model", "/m", "--device", "cuda:1"), "CUDA_VISIBLE_DEVICES"),
        (("--device", "cuda:0"), "model: the tensorrt_llm backend needs the directory"),
    ],
)
def test_what_the_tensorrt_llm_backend_needs(argv: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        open_backend(settings("--backend", "tensorrt_llm", *argv))


@pytest.mark.parametrize(
    ("argv", "key"),
    [
        (("--backend", "magic"), "backend"),
        (("--extra", "no json"), "extra"),
        (("--extra", "[1]"), "extra: .*not a JSON object"),
    ],
)
def test_bad_settings_are_named(argv: tuple[str, ...], key: str) -> None:
    with pytest.raises(SettingsError, match=key):
        settings(*argv)


def test_more_request_fields_are_json() -> None:
    given = settings("--extra", '{"chat_template_kwargs": {"x": false}}')
    assert given.extra_fields() == {"chat_template_kwargs": {"x": False}}
    assert settings().extra_fields() == {}


def test_the_key_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISAVIS_LLM_API_KEY", "very-secret")
    given = settings()
    assert "very-secret" not in repr(given)
    assert given.api_key.get_secret_value() == "very-secret"


def test_only_the_chosen_backend_is_imported() -> None:
    code = (
        "import sys; import services.llm.servicer; "
        "sys.exit(any(m in sys.modules for m in ('xllamacpp', 'services.llm.backends.llamacpp')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
