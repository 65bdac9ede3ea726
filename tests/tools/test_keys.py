"""The secrets inside a stack, as files and as settings."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from pathlib import Path

import pytest

from services.llm.settings import LlmSettings
from visavis.serving.errors import SettingsError, VisavisError
from visavis.serving.settings import load_settings
from visavis.tools.cli.main import main
from visavis.tools.stack.keys import (
    STACK_FILE,
    TOKENS_FILE,
    USERS_FILE,
    Keys,
    leave_for_owner,
    private_folder,
    stack_secret,
    write_keys,
)
from visavis.wire.permissions import Login, User, users_config


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_keys_are_kept_until_they_are_deleted_and_the_users_follow(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "keys"
    write_keys(folder)
    first = files(folder)
    assert set(first) == {*User, STACK_FILE, TOKENS_FILE, USERS_FILE}
    assert len(set(first.values())) == len(first)
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / USERS_FILE).write_text("of an older version")
    write_keys(folder)
    assert files(folder) == first
    (folder / User.ASR).write_text("")  # as a full disk leaves it
    write_keys(folder)
    assert len(files(folder)[User.ASR].strip()) == len(first[User.ASR].strip())
    (folder / User.ASR).unlink()
    write_keys(folder)
    second = files(folder)
    assert {name for name in first if first[name] != second[name]} == {User.ASR, USERS_FILE}
    assert all(second[user].strip() in second[USERS_FILE] for user in User)


@pytest.mark.parametrize("bad", ["short", "sixteen or more, but a sign", 'quoted"quoted"quoted'])
def test_a_password_that_would_not_do_is_no_part_of_a_configuration(
    tmp_path: Path, bad: str
) -> None:
    passwords = {user: "0123456789abcdef" for user in User}
    assert users_config(passwords)
    with pytest.raises(ValueError, match="tts"):
        users_config(passwords | {User.TTS: bad})
    (tmp_path / User.TTS).write_text(bad)
    with pytest.raises(VisavisError, match=r"keys: .*tts"):
        write_keys(tmp_path)


def test_a_service_takes_its_secrets_from_files_or_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_keys(tmp_path)
    file, stack = tmp_path / User.LLM, tmp_path / STACK_FILE
    flags = ["--nats-password-file", str(file), "--stack-secret-file", str(stack)]
    settings = load_settings(LlmSettings, flags, prog="llm")
    assert settings.login() == Login(User.LLM, file.read_text().strip())
    assert settings.access().secret == stack.read_text().strip()
    monkeypatch.setenv("VISAVIS_LLM_NATS_PASSWORD", "given")
    given = load_settings(LlmSettings, flags, prog="llm")
    assert given.login() == Login(User.LLM, "given")
    assert "given" not in f"{given!r} {given.login()!r} {given.access()!r}"
    monkeypatch.delenv("VISAVIS_LLM_NATS_PASSWORD")
    nothing = load_settings(LlmSettings, [], prog="llm")
    assert nothing.login() is None and nothing.access().secret == ""
    file.unlink()
    with pytest.raises(SettingsError, match="nats_password_file: cannot read"):
        load_settings(LlmSettings, flags, prog="llm").login()


def test_tools_find_the_secret_of_a_stack_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_keys(tmp_path)
    elsewhere = "https://visavis.example"
    assert stack_secret(elsewhere) == ""
    monkeypatch.setenv("VISAVIS_STACK_SECRET_FILE", str(tmp_path / STACK_FILE))
    assert stack_secret(elsewhere) == (tmp_path / STACK_FILE).read_text().strip()
    monkeypatch.setenv("VISAVIS_STACK_SECRET", "given")
    assert stack_secret(elsewhere) == "given"


def test_tools_find_the_secret_of_a_stack_here_whatever_more_it_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    keys = Keys.draw()
    folder = private_folder(tmp_path)
    leave_for_owner(folder, 8080, keys, "nats://127.0.0.1:4222")
    (told,) = folder.iterdir()
    told.write_text(json.dumps({**json.loads(told.read_text()), "of a newer version": 1}))
    assert stack_secret("http://127.0.0.1:8080") == keys.stack


def test_drawn_keys_are_told_to_nobody_by_accident() -> None:
    keys = Keys.draw()
    secrets = {keys.stack, *keys.passwords.values()}
    assert len(secrets) == len(User) + 1
    assert not [secret for secret in secrets if secret in repr(keys)]
    told = set(keys.environ("face").values())
    assert told == {keys.passwords[User.FACE], keys.stack}


def test_what_a_terminal_cannot_show_is_shown_by_its_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="latin-1"))
    monkeypatch.setattr(sys, "argv", ["visavis", "keys", str(tmp_path / "\u94a5")])
    with pytest.raises(SystemExit) as ended:
        main()
    sys.stdout.flush()
    assert not ended.value.code and b"\\u94a5" in shown.getvalue()
