"""Laying out weights as the llm service starts: beside the event loop, told, stopped."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from services.llm.backends import registry
from services.llm.backends.base import TextBackend
from services.llm.backends.llamacpp import LlamaCppBackend
from services.llm.backends.registry import lay_out, open_backend
from services.llm.settings import LlmSettings
from visavis.serving.errors import PlanCancelledError
from visavis.serving.settings import load_settings

SOURCE = Path("published.gguf")


async def test_progress_is_told_while_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    go_on = threading.Event()

    def slowly(source: Path, bundle: str, *, on_fraction: Callable[[float], None], **_: object):  # type: ignore[no-untyped-def]
        on_fraction(0.37)
        assert go_on.wait(10), "the event loop stood still"
        return source.with_name(f"{bundle}.gguf")

    def tell(text: str) -> None:
        told.append(text)
        loop.call_soon_threadsafe(go_on.set)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(registry, "laid_out_file", slowly)
    monkeypatch.setattr(registry, "busy_with", tell)
    assert await lay_out(SOURCE, "tiny") == Path("tiny.gguf")
    assert told == ["laying out the weights of tiny for this processor (once): 37 %"]


async def test_a_cancel_waits_until_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()
    gone: list[bool] = []

    def until_cancelled(*_: object, cancelled: Callable[[], bool], **more: object) -> Path:
        begun.set()
        while not cancelled():
            ended.wait(0.001)
        gone.append(True)
        raise PlanCancelledError("cancelled")

    monkeypatch.setattr(registry, "laid_out_file", until_cancelled)
    task = asyncio.create_task(lay_out(SOURCE, "tiny"))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone


def backend_with(bundle: Callable[[str], Path], *argv: str) -> TextBackend:
    bundle("smollm2-135m")
    return open_backend(load_settings(LlmSettings, ("--profile", "tiny", *argv), prog="llm"))


@pytest.mark.parametrize(
    ("argv", "laid_out"),
    [
        ((), True),
        (("--weights-layout", "published"), False),
        (("--device", "cuda:0"), False),
    ],
)
async def test_the_setting_and_the_device_decide(
    bundle: Callable[[str], Path], argv: tuple[str, ...], laid_out: bool
) -> None:
    backend = backend_with(bundle, *argv)
    assert isinstance(backend, LlamaCppBackend)
    assert (backend._choose_file is not None) == laid_out
    await backend.close()


async def test_the_chosen_file_is_the_one_that_is_loaded(bundle: Callable[[str], Path]) -> None:
    published = bundle("smollm2-135m") / "model.gguf"
    asked: list[Path] = []

    async def choose(path: Path) -> Path:
        asked.append(path)
        return path.with_name("not-there.gguf")

    backend = LlamaCppBackend(published, model="m", slots=1, context_tokens=256, choose_file=choose)
    try:
        with pytest.raises(Exception, match=r"cannot load .*not-there\.gguf"):
            await backend.load()
    finally:
        await backend.close()
    assert asked == [published]
