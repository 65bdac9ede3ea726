"""Settings from flags, environment and a TOML file, in that order of precedence.

Flag `--free-port 1`, environment `VISAVIS_TTS_FREE_PORT=1` and file
    [tts]
    free_port = 1
mean the same. An unknown or bad key is an error that names it, wherever it stands.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from visavis.serving.authentication.access import Access, Certificates
from visavis.serving.errors import SettingsError
from visavis.wire.permissions import Login, User

SERVICES = ("asr", "llm", "tts", "face")
SECTIONS = (*SERVICES, "gateway")
ENV_PREFIX = "VISAVIS_"

S = TypeVar("S", bound="Settings")


def env_prefix(section: str) -> str:
    """How the environment's variables of a section begin."""
    return f"{ENV_PREFIX}{section.upper()}_"


class Settings(BaseSettings):
    """Base of every process's settings. Subclasses set `section` and add fields."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", cli_kebab_case=True, cli_hide_none_type=True
    )
    section: ClassVar[str]

    config: Path | None = Field(None, description="TOML file; the process's own section is read")
    label: str = Field(
        "",
        pattern=r"^[A-Za-z0-9_-]{0,40}$",
        description="What this process is called among others of its kind, such as face-2; its "
        "instance name begins with it; empty: the service's name",
    )
    host: str = Field("127.0.0.1", description="Address to listen on")
    nats_url: str = Field("", description="NATS server, e.g. nats://127.0.0.1:4222; empty: no bus")
    nats_password: SecretStr = Field(
        SecretStr(""),
        description="This service's password on the bus, where that lets in only those whom it "
        "knows; better in a file: every user of the machine can read a command line",
    )
    nats_password_file: Path | None = Field(
        None, description="File that holds the nats_password on one line"
    )
    stack_secret: SecretStr = Field(
        SecretStr(""),
        description="What calls between gateway and services are proven by, the same in all of "
        "them; empty: nothing is asked. Better in a file, as above",
    )
    stack_secret_file: Path | None = Field(
        None, description="File that holds the stack_secret on one line"
    )
    stack_tls_cert: Path | None = Field(
        None,
        description="Certificate (PEM) made out to the service's name: gateway and services speak "
        "TLS, and each wants to see the other's",
    )
    stack_tls_key: Path | None = Field(None, description="Key (PEM) of the stack_tls_cert")
    stack_tls_ca: Path | None = Field(
        None,
        description="Who signs the stack's certificates (PEM); alone, that of a bus at tls://",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least serious log line that is written"
    )

    def secret(self, name: str) -> str:
        """One that can be given as `name` or in a file, `name`_file; "": there is none.

        Raises SettingsError where the file cannot be read.
        """
        given, path = getattr(self, name), getattr(self, f"{name}_file")
        if given.get_secret_value() or path is None:
            return str(given.get_secret_value())
        return secret_in(path, f"{name}_file")

    def login(self) -> Login | None:
        """With what the process comes to the bus; None: as anybody. Raises SettingsError."""
        password = self.secret("nats_password")
        return Login(User(self.section), password) if password else None

    def certificates(self) -> Certificates:
        """Of TLS inside the stack. Raises SettingsError."""
        found = Certificates(self.stack_tls_cert, self.stack_tls_key, self.stack_tls_ca)
        found.check()
        return found

    def access(self) -> Access:
        """By what calls inside the stack are proven. Raises SettingsError."""
        return Access(self.secret("stack_secret"), self.certificates())

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The file's values come as arguments of the constructor: they weigh least.
        return env_settings, init_settings


class ServiceSettings(Settings):
    """What all four services can be told."""

    port: int = Field(0, ge=0, le=65535, description="gRPC port; 0: any free one")
    metrics_port: int = Field(
        0, ge=-1, le=65535, description="Prometheus port; 0: any free one, -1: none"
    )
    takes_over: bool = Field(
        False,
        description="It takes the place of a process that still listens on port and metrics_port: "
        "it opens them beside that one or, where the system does not share them, once they are "
        "free, and is found at ports of its own",
    )
    advertise: str = Field(
        "",
        description="Address that others reach this one by; empty: host, or the machine's own "
        "where host is every address, such as 0.0.0.0",
    )
    client_key: SecretStr = Field(
        SecretStr(""),
        description="What programs written for other servers (Riva, Audio2Face-3D) send as "
        "authorization: Bearer …; empty: with a stack_secret they are refused, without one nothing "
        "is asked. Better in a file",
    )
    client_key_file: Path | None = Field(
        None, description="File that holds the client_key on one line"
    )
    slots: int = Field(8, ge=1, le=1024, description="Sessions served at once at most")
    admission: Literal["predicted", "slots"] = Field(
        "predicted",
        description="Who is let in: predicted, as many of these as deadlines are predicted to hold "
        "for; slots, all of them",
    )
    first_unit_budget_s: float = Field(
        0.0,
        ge=0,
        description="P95 that the first of an answer may take here; 0: twice what it takes alone, "
        "or 0.2 s more",
    )
    device: str = Field("cpu", description="cpu, cuda:N or cuda:GPU-uuid")
    threads: int = Field(1, ge=1, le=256, description="Compute threads of each engine")
    profile: str = Field(
        "default",
        description="Set of weights: edge, tiny, default or better; see `visavis models list`",
    )
    model_dir: Path | None = Field(
        None, description="Where the bundles are; empty: the user's cache"
    )
    drain_limit_s: float = Field(
        30.0,
        ge=0,
        le=3600,
        description="When told to stop (SIGTERM): longest wait for sessions to finish their turns "
        "and go to other replicas; told again, or by SIGINT, it ends at once",
    )
    grace_s: float = Field(5.0, ge=0, description="Time to finish calls when it ends")

    @property
    def own_bundles(self) -> Sequence[str]:
        """Bundles beside those of the profile that it is to use, as other settings name them."""
        return ()


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Lays the class's docstring out; says no default where there is none worth saying."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return super()._fill_text(inspect.cleandoc(text), width, indent)

    def _expand_help(self, action: argparse.Action) -> str:
        text = super()._expand_help(action)
        for nothing in (" (default: )", " (default: null)", " (default factory: list)"):
            text = text.removesuffix(nothing)
        return text


def load_settings(settings_class: type[S], argv: Sequence[str], *, prog: str) -> S:
    """Settings of one process. Raises SettingsError naming the key; `--help` exits."""
    section = settings_class.section
    prefix = env_prefix(section)
    _refuse_unknown_variables(settings_class, prefix)
    try:
        sources: dict[str, Any] = {
            "_env_prefix": prefix,
            "_cli_settings_source": CliSettingsSource(
                settings_class,
                cli_parse_args=list(argv),
                cli_prog_name=prog,
                formatter_class=_HelpFormatter,
            ),
        }
        return settings_class(
            **sources, **_file_section(argv, os.environ.get(f"{prefix}CONFIG"), section)
        )
    except ValidationError as error:
        raise SettingsError(_explain(error, settings_class, prefix)) from None


def secret_in(path: Path, setting: str) -> str:
    """What stands in a file that holds one secret. Raises SettingsError naming `setting`."""
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{setting}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{setting}: {path} is not a text file") from None
    if not secret or not secret.isprintable():
        raise SettingsError(f"{setting}: {path} has to hold one line that is not empty")
    return secret


def _refuse_unknown_variables(settings_class: type[Settings], prefix: str) -> None:
    for variable in os.environ:
        if variable.startswith(prefix):
            key = variable.removeprefix(prefix).lower()
            if key not in settings_class.model_fields:
                meant = _meant(key, settings_class)
                raise SettingsError(f"environment: unknown setting {variable}{meant}")
        elif variable.startswith(ENV_PREFIX):
            name, _, key = variable.removeprefix(ENV_PREFIX).partition("_")
            near = difflib.get_close_matches(name.lower(), SECTIONS, 1)
            if key and near and name.lower() not in SECTIONS:
                raise SettingsError(
                    f"environment: unknown setting {variable}; do you mean "
                    f"{env_prefix(near[0])}{key}?"
                )


def _meant(key: str, settings_class: type[Settings]) -> str:
    near = difflib.get_close_matches(key, settings_class.model_fields, 1)
    return f"; do you mean {near[0]}?" if near else "; --help tells the known ones"


def _file_section(argv: Sequence[str], from_env: str | None, section: str) -> dict[str, Any]:
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", default=from_env)
    path = finder.parse_known_args(list(argv))[0].config
    return sections_in(path).get(section, {}) if path else {}


def sections_in(path: str | Path) -> dict[str, dict[str, Any]]:
    """What a stack's file tells its processes, by section. Raises SettingsError."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"config: cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"config: {path} is not TOML: {error}") from None
    for name, value in content.items():
        if name not in SECTIONS or not isinstance(value, dict):
            known = ", ".join(SECTIONS)
            raise SettingsError(f"{path}: unknown section {name!r}; known are {known}")
    return content


def _explain(error: ValidationError, settings_class: type[Settings], prefix: str) -> str:
    section = settings_class.section
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            meant = _meant(key, settings_class)
            lines.append(f"{key}: unknown setting in section [{section}]{meant}")
        else:
            flag = "--" + key.replace("_", "-")
            field = settings_class.model_fields.get(key.partition(".")[0])
            # The message goes into a log.
            secret = field is not None and (field.annotation is SecretStr or not field.repr)
            got = "" if secret else f", got {problem['input']!r}"
            lines.append(
                f"{key}: {problem['msg']}{got} "
                f"(set by {flag}, {prefix}{key.upper()} or [{section}] {key})"
            )
    return "; ".join(lines)
