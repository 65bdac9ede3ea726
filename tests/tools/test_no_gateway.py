"""Commands that talk to a gateway which is not there say so, and what to do."""

from __future__ import annotations

import pytest

from visavis.tools.cli.main import main
from visavis.tools.stack.nats_server import free_port


@pytest.mark.parametrize(
    "command", [["timeline"], ["cache", "list"], ["cache", "warm"], ["live", "start", "rtmp://x/y"]]
)
def test_who_is_not_there_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setattr("sys.argv", ["visavis", *command, "--url", url])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert f"no gateway answers at {url}; start one with `visavis up`" in told and "--url" in told
