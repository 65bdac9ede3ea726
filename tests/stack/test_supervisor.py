"""What `visavis up` says when it cannot start."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import psutil
import pytest

from tests.gateway.conftest import until
from visavis.serving.errors import VisavisError
from visavis.tools.stack.supervisor import Stack, StackOptions


async def test_port_that_is_taken_is_named_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(VisavisError, match=f"port {port}.*--port"):
            async with Stack(StackOptions(log_dir=tmp_path, port=port)):
                pass
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240  # nobody else runs on this loop


async def test_service_that_keeps_dying_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    options = StackOptions(log_dir=tmp_path, arguments={"llm": ["--profile", "nonsense"]})
    with pytest.raises(VisavisError, match=r"llm cannot be started(.|\n)*nonsense"):
        async with Stack(options) as stack:
            pytest.fail(f"started {stack.children}")


async def test_wrong_settings_are_told_at_once_and_not_tried_again(tmp_path: Path) -> None:
    log = tmp_path / "gateway.log"
    log.write_text("gateway: an older trouble\n")
    options = StackOptions(log_dir=tmp_path, host="0.0.0.0")
    with pytest.raises(VisavisError, match="gateway cannot be started") as told:
        async with Stack(options) as stack:
            pytest.fail(f"started {stack.children}")
    assert str(told.value).count("API key is needed") == 1
    assert "older trouble" not in str(told.value)
    logs = list(tmp_path.glob("*.log"))  # noqa: ASYNC240  # nobody else runs on this loop
    modes = {log.name: log.stat().st_mode & 0o777 for log in logs}
    assert set(modes.values()) == {0o600}, f"others may read what visitors did: {modes}"


async def test_the_key_stands_in_no_command_line(tmp_path: Path) -> None:
    options = StackOptions(log_dir=tmp_path, host="0.0.0.0", api_key="open sesame")
    starting = asyncio.create_task(Stack(options).__aenter__())
    try:
        gateway = await until(lambda: [c for c in children() if "gateway" in c.cmdline()], 10)
        assert not [child for child in children() if "sesame" in " ".join(child.cmdline())]
        assert gateway[0].environ()["VISAVIS_GATEWAY_API_KEY"] == "open sesame"
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)
