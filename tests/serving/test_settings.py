from pathlib import Path
from typing import ClassVar

import pytest

from visavis.serving.errors import SettingsError
from visavis.serving.settings import ServiceSettings, load_settings


class TtsSettings(ServiceSettings):
    section: ClassVar[str] = "tts"


def load(*argv: str) -> TtsSettings:
    return load_settings(TtsSettings, argv, prog="tts")


def test_flags_weigh_more_than_environment_and_that_more_than_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "visavis.toml"
    file.write_text("[tts]\nthreads = 2\nslots = 2\nport = 2\n[asr]\nslots = 9\n")
    monkeypatch.setenv("VISAVIS_TTS_SLOTS", "3")
    monkeypatch.setenv("VISAVIS_TTS_PORT", "3")
    settings = load("--config", str(file), "--port", "4")
    assert (settings.threads, settings.slots, settings.port) == (2, 3, 4)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--threads", "many"], r"threads.*'many'.*--threads.*VISAVIS_TTS_THREADS"),
        (["--port", "70000"], "port"),
        (["--log-level", "loud"], "log_level"),
        (["--config", "/nonexistent/x.toml"], "cannot read"),
    ],
)
def test_bad_value_names_the_key(argv: list[str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        load(*argv)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("[tts]\nthreds = 2\n", "threds: unknown setting.*do you mean threads"),
        ("[ttts]\nthreads = 2\n", "'ttts'; known are asr, llm, tts, face, gateway"),
        ("threads = 2\n", "threads"),
        ("not toml", "not TOML"),
    ],
)
def test_unknown_key_in_the_file_is_named(tmp_path: Path, content: str, named: str) -> None:
    file = tmp_path / "visavis.toml"
    file.write_text(content)
    with pytest.raises(SettingsError, match=named):
        load("--config", str(file))


def test_unknown_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISAVIS_ASR_THREDS", "2")  # another process's business
    load()
    monkeypatch.setenv("VISAVIS_TSS_THREADS", "2")
    with pytest.raises(SettingsError, match="TSS_THREADS; do you mean VISAVIS_TTS_THREADS"):
        load()
    monkeypatch.delenv("VISAVIS_TSS_THREADS")
    monkeypatch.setenv("VISAVIS_TTS_THREDS", "2")
    with pytest.raises(SettingsError, match="VISAVIS_TTS_THREDS; do you mean threads"):
        load()


def test_unknown_flag_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        load("--threds", "2")
    assert exit_info.value.code == 2
    assert "--threds" in capsys.readouterr().err
