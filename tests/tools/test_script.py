"""`visavis script --url`: what a gateway has said of a script is written, however that ended."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from visavis.client import GatewayError
from visavis.tools.cli import script
from visavis.tools.cli.main import main


class Gateway:
    """A client and its session in one, whose third text is cut off."""

    id = "lecture"

    def __init__(self, *, gone: bool = False) -> None:
        self.gone = gone
        """Whether the session is, with its recording, from then on."""
        self.said: list[str] = []

    @contextlib.asynccontextmanager
    async def at(self, *address: Any) -> AsyncIterator[Gateway]:
        yield self

    @contextlib.asynccontextmanager
    async def session(self, **options: Any) -> AsyncIterator[Gateway]:
        yield self

    async def call(self, method: str, path: str) -> httpx.Response:
        return httpx.Response(200, json={"error": ""})

    async def hear_out(self, text: str) -> None:
        self.said.append(text)
        if len(self.said) == 3:
            raise GatewayError("failed", "it was cut off: tts went away")

    async def start_recording(self) -> None:
        pass

    async def stop_recording(self) -> None:
        if self.gone:
            raise GatewayError("not_found", "there is no such session")

    async def recording(self) -> bytes:
        return " ".join(self.said).encode()


@pytest.mark.parametrize("gone", [False, True])
def test_what_was_said_until_a_part_failed_is_written(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    gone: bool,
) -> None:
    gateway = Gateway(gone=gone)
    monkeypatch.setattr(script, "gateway_at", gateway.at)
    text, film = tmp_path / "script.txt", tmp_path / "film.mp4"
    text.write_text("\n\n".join(["One.", "Two.", "Three.", "Four."]))
    monkeypatch.setattr("sys.argv", ["visavis", "script", str(text), "-o", str(film), "--url", "x"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "part 3 of 4: it was cut off: tts went away" in told
    assert gateway.said == ["One.", "Two.", "Three."]
    if gone:
        assert not film.exists() and "cannot be had: there is no such session" in told
    else:
        assert film.read_bytes() == b"One. Two. Three."
