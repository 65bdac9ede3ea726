"""Files and folders that a command cannot use are told in a line that names them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from visavis.serving.errors import VisavisError
from visavis.tools.cli.main import app


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["doctor", "--model-dir", "file"], "file is a file, where the folder of the bundles"),
        (["plan", "--gpus", "folder"], "folder: cannot be read: Is a directory"),
        (["plan", "--gpus", "file"], "file: not UTF-8 text"),
        (["avatar", "add", "folder"], "folder: neither a head bundle's folder nor a zip of it"),
        (["avatar", "add", "eve.vrm"], "eve: --licence: say under which it may be used"),
        (
            ["bundle", "unshare", "x", "--nats", "tls://127.0.0.1:1", "--nats-ca", "file"],
            "certificates (file) cannot be used: ",
        ),
    ],
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").write_bytes(b"\xff\xfe\x00")
    Path("eve.vrm").write_bytes(b"glTF")
    result = CliRunner().invoke(app, command)
    told = str(result.exception) if isinstance(result.exception, VisavisError) else result.output
    assert told.strip().removeprefix("visavis: ").startswith(said)
