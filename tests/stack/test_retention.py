"""What is left of a conversation once its session has ended: nothing that nobody has kept."""

from __future__ import annotations

import tempfile
from pathlib import Path

import av
import pytest

from tests.running_stack import RunningStack
from tests.stack.test_conversation import answer_of, until_turn
from visavis.client import GatewayClient, GatewayError
from visavis.synthetic import MARK_UUID, SYNTHETIC

QUESTION = "Tell me, why does marzipan taste of almonds?"


def files_with(folder: Path, words: str) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if words.encode() in path.read_bytes()]


def recordings_of(session: str) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"visavis-recording@*@{session}-*"))


async def test_a_conversation_ends_with_its_session(
    gateway: GatewayClient, stack: RunningStack, tmp_path: Path
) -> None:
    async with gateway.session() as session:
        assert not recordings_of(session.id), "nothing is recorded unasked"
        await session.record_turn()
        await session.ask(QUESTION)
        answer = answer_of(await until_turn(session, "finished"))
        film = tmp_path / "answer.mp4"
        film.write_bytes(await session.recording())
        assert recordings_of(session.id)
        path = f"/v1/sessions/{session.id}"
        assert "marzipan" in (await gateway.call("GET", f"{path}/turns")).text
    assert not recordings_of(session.id)
    for of_it in ("", "/turns", "/turns/1", "/turns/1/timeline", "/recording.mp4"):
        with pytest.raises(GatewayError, match="there is no"):
            await gateway.call("GET", f"{path}{of_it}")
    for words in ("marzipan", answer):
        assert not files_with(stack.log_dir, words), "logs name sessions and turns, not words"
    with av.open(str(film)) as file:
        assert file.metadata["comment"] == SYNTHETIC
    marks = film.read_bytes().count(MARK_UUID.bytes)
    assert marks >= 1, "what leaves the stack says what it is, picture by picture"
