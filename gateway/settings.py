"""Settings of the gateway."""

from __future__ import annotations

import ipaddress
import re
import secrets
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from gateway.api.choices import Persona
from gateway.faces.destinations import Destination, destination
from gateway.playout.sinks.ice import IceServers, NamedServer, is_ice_url
from gateway.talk.speculation import SpeculationLimits
from gateway.tools.rounds import ToolLimits
from visavis.serving.addresses import is_loopback
from visavis.serving.errors import SettingsError
from visavis.serving.settings import Settings

_BETS = SpeculationLimits()
_FILLERS = {"en": "One moment, please.", "zh": "请稍等。"}
# Nothing in it may end a header's value, or begin another policy, which knows no IPv6 addresses.
_ORIGIN = re.compile(r"https?://(\*\.)?[A-Za-z0-9.-]+(:\d{1,5})?")
_ORIGIN_BY_IPV6 = re.compile(r"https?://\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_USUAL_PORT = re.compile(r"https://.*:443|http://.*:80")
# Of a host, or an IPv6 address, which a port behind a name is not.
_NAME = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*")
# HMAC-SHA256 is as strong as its key, up to 256 bits.
_KEY_CHARACTERS = 32


class GatewaySettings(Settings):
    """The gateway: sessions over HTTP, media over WebRTC and WebSocket, and the page.

    Every flag can also be set in the environment (VISAVIS_GATEWAY_PORT=8080)
    or in the section [gateway] of the file that --config names.
    """

    section: ClassVar[str] = "gateway"

    port: int = Field(8080, ge=0, le=65535, description="HTTP port; 0: any free one")
    share_port: bool = Field(
        False,
        description="Several gateways of this machine listen on the port, and the system spreads "
        "connections over them (Linux alone); each has a second port of its own for the others and "
        "for metrics",
    )
    advertise: str = Field(
        "",
        description="Address by which other gateways reach this one, such as its pod's; empty: "
        "host, or this machine alone where that is every address",
    )
    nats_url: str = Field(
        "nats://127.0.0.1:4222", description="NATS server, e.g. nats://127.0.0.1:4222"
    )
    tls_cert: Path | None = Field(
        None,
        description="Certificate (PEM, with those of who vouches for it behind it): the gateway "
        "speaks https, without which browsers of other machines give no microphone. Read anew "
        "when it changes",
    )
    tls_key: Path | None = Field(None, description="Its key (PEM, without a passphrase)")
    tls_self_signed: bool = Field(
        False,
        description="https with a certificate that the gateway makes itself: browsers warn of it; "
        "see docs/proxies.md",
    )
    embed_origins: list[str] = Field(
        default_factory=list,
        description="Whose pages may show ours in a frame, as JSON list of origins such as "
        "https://shop.example; empty: its own alone",
    )
    allowed_origins: list[str] = Field(
        default_factory=list,
        description="Whose pages may use the API from a browser (CORS), as JSON list of origins "
        "such as https://shop.example; empty: its own alone",
    )
    trusted_proxies: list[str] = Field(
        default_factory=list,
        description="Addresses or networks of reverse proxies whose X-Forwarded-For and -Proto are "
        "believed, as JSON list; empty: nobody's",
    )
    max_connections: int = Field(
        1000,
        ge=4,
        le=1_000_000,
        description="Connections at once, of all kinds but WebRTC; more are answered 503, and half "
        "of that from one address that is neither loopback's nor of trusted_proxies",
    )
    head_timeout_s: float = Field(
        10.0, gt=0, description="Longest wait for a request's head, from the connection on"
    )
    body_timeout_s: float = Field(
        20.0, gt=0, description="Longest wait for a request's body; longer as it comes, see next"
    )
    slowest_body_bytes_s: float = Field(
        1000.0, gt=0, description="Bytes of a body that give it a second more"
    )
    keep_alive_s: float = Field(
        75.0,
        ge=3,
        description="A connection without a request is closed after so long. To be longer than "
        "clients and proxies keep theirs (5 to 60 s), or a request meets the closing",
    )
    stalled_timeout_s: float = Field(
        30.0, gt=0, description="A client that reads nothing of an answer is cut off after so long"
    )
    api_key: SecretStr = Field(
        SecretStr(""),
        description="Clients must send it; required where host is not this machine's own. Every "
        "user of the machine can read a command line: better set it in the environment or a file",
    )
    api_key_file: Path | None = Field(
        None, description="File that holds the api_key on one line, where none is set otherwise"
    )
    access_file: Path | None = Field(
        None,
        description="TOML file of keys, their roles and limits, and of whose JWTs are taken; see "
        "docs/access.md",
    )
    token_key: SecretStr = Field(
        SecretStr(""),
        description="What session tokens are signed with, 32 characters or more; the same for all "
        "gateways behind one address; empty: a random one. Not on a command line, as the api_key",
    )
    token_key_file: Path | None = Field(
        None, description="File that holds the token_key on one line"
    )
    token_life_s: float = Field(
        900.0,
        ge=10,
        le=604_800,
        description="How long a session token holds unless it is renewed, or three times "
        "session_idle_s where that is longer",
    )
    persona: Persona = Field(
        "",
        description="What the language model is told it is; empty: the llm service's own persona",
    )
    ice_servers: list[NamedServer] = Field(
        default_factory=list,
        repr=False,
        description="STUN and TURN servers for WebRTC, for the page and the gateway alike, as JSON "
        "list of URLs; one with a password as an object with urls, username and credential",
    )
    turn_key: SecretStr = Field(
        SecretStr(""),
        description="What coturn calls static-auth-secret: passwords for these TURN servers are "
        "made of it, for each session its own",
    )
    turn_key_file: Path | None = Field(
        None, description="File that holds the turn_key on one line, where none is set otherwise"
    )
    turn_password_life_s: float = Field(
        86_400.0, ge=60, description="How long such a password is good for"
    )
    drain_limit_s: float = Field(
        30.0,
        ge=0,
        le=3600,
        description="When told to stop (SIGTERM): longest wait for sessions to finish their turns "
        "and go to other gateways; told again, or by SIGINT, it ends at once",
    )
    max_sessions: int = Field(
        64,
        ge=1,
        le=10_000,
        description="Sessions open at once at most: a limit for safety, the services decide",
    )
    queue_places: int = Field(
        100, ge=0, le=10_000, description="Visitors who may wait for a session; 0: nobody waits"
    )
    queue_patience_s: float = Field(
        15.0, ge=1, description="A place in the queue that nobody asks for is kept so long"
    )
    max_viewers: int = Field(64, ge=1, le=10_000, description="Viewers of one session")
    allowed_hosts: list[str] = Field(
        default_factory=list,
        description="Names under which a reverse proxy shows the gateway, as JSON list",
    )
    session_idle_s: float = Field(
        120.0, ge=1, description="A session that nobody is connected to ends after so long"
    )
    idle_release_s: float = Field(
        8.0,
        gt=0,
        description="A session that nobody is connected to gives up its slots of the services "
        "after so long; it takes them again when its visitor returns",
    )
    answer_timeout_s: float = Field(
        20.0, gt=0, description="An answer that makes no progress for so long has failed"
    )
    speculate_above: float = Field(
        _BETS.above,
        ge=0,
        le=1.01,
        description="Probability of having finished from which an answer is prepared while the "
        "visitor pauses; above 1: never",
    )
    speculations_per_utterance: int = Field(
        _BETS.per_utterance,
        ge=0,
        le=100,
        description="Answers that may be prepared during one utterance, of which one is spoken",
    )
    speculation_discarded_share: float = Field(
        _BETS.discarded_share,
        ge=0,
        le=1,
        description="Where more than this share of the last prepared answers was thrown away, "
        "none are prepared until the visitor's pauses have become more reliable",
    )
    speculation_window: int = Field(
        _BETS.window, ge=2, le=1000, description="How many prepared answers that share is of"
    )
    prepare_before_pause: bool = Field(
        _BETS.before_pause,
        description="Answers are prepared while the visitor still speaks, too, where the words so "
        "far are probably all and that saves more than it costs. asr tells how probable that is "
        "while its machine has cores to spare (its foresight_idle_cores)",
    )
    barge_in_after_s: float = Field(
        0.14,
        ge=0.0,
        le=2.0,
        description="Sound over an answer that lasts so long stops it; shorter ones, such as a "
        "cough, only make it quieter",
    )
    max_tokens: int = Field(
        0, ge=0, le=2048, description="Longest answer; 0: the llm service's own limit"
    )
    temperature: float | None = Field(
        None, ge=0, le=2, description="Of the language model; empty: the service's default"
    )
    tool_timeout_s: float = Field(
        20.0, gt=0, le=600, description="Longest wait for the result of a tool that an answer calls"
    )
    tool_result_chars: int = Field(
        4000, ge=100, le=1_000_000, description="So much of a result is read; the rest is cut"
    )
    tool_rounds: int = Field(
        4, ge=1, le=32, description="How many times an answer may call tools before it has to end"
    )
    tool_fillers: dict[str, str] = Field(
        default_factory=lambda: dict(_FILLERS),
        description="What is said where a tool takes longer than tool_filler_after_s and nothing "
        "was said before, by language, as JSON object; {}: nothing",
    )
    tool_filler_after_s: float = Field(1.0, ge=0, description="See tool_fillers")
    knowledge: Path | None = Field(
        None,
        description="Folder of texts (txt, md, html) that answers are made of; read again when "
        "they change. See docs/knowledge.md",
    )
    mcp: Path | None = Field(
        None,
        description="TOML or JSON file of MCP servers whose tools answers may call; see "
        "docs/tools.md",
    )
    recording_dir: Path | None = Field(
        None, description="Where recordings are written; empty: a temporary folder"
    )
    recording_limit_s: float = Field(7200.0, gt=0, description="Longest recording")
    loop_memory_mb: float = Field(
        128.0,
        ge=0,
        le=100_000,
        description="Memory for the idle life of avatars, for each and codec about 5 MB, and three "
        "times as much once somebody has spoken to it, for how it listens; 0: the face draws it "
        "anew for everybody",
    )
    upload_limit_mb: float = Field(20.0, gt=0, le=20, description="Largest photo")
    transcription_limit_mb: float = Field(
        25.0, gt=0, le=200, description="Largest recording for /v1/audio/transcriptions"
    )
    answers: Path | None = Field(
        None,
        description="TOML or JSON file of frequent questions, their answers and welcome "
        "phrases; see docs/answers-and-style.md",
    )
    prerender: bool = Field(
        True, description="Have the voice of that file's texts made before they are asked for"
    )
    learn_answers: bool = Field(
        False,
        description="Remember how the first question of a session was answered and answer it so "
        "again, to anybody; off because an answer can be wrong, out of date or personal",
    )
    answer_cache_dir: Path | None = Field(
        None, description="Where learned answers are kept; empty: the user's cache"
    )
    answer_cache_entries: int = Field(1000, ge=1, le=1_000_000, description="Learned answers kept")
    answer_cache_mb: float = Field(1.0, gt=0, le=1000, description="Text of the learned answers")
    answer_cache_hours: float = Field(24.0, gt=0, description="A learned answer's life")

    face_outputs: dict[str, str] = Field(
        default_factory=dict,
        description="Where sessions may send their faces, as JSON object of names and addresses "
        'such as {"studio": "vmc://10.0.0.5:39539?names=vrm1", "unreal": "livelink://10.0.0.6"}',
    )
    room_words: Path | None = Field(
        None,
        description="File of words that no live room reads aloud or answers, one a line, beside "
        "those that ship; see docs/room.md",
    )

    wyoming_port: int = Field(
        -1,
        ge=-1,
        le=65535,
        description="TCP port for Home Assistant (Wyoming: speech to text, text to speech, "
        "conversation), by custom 10300; 0: any free one, -1: none",
    )
    wyoming_host: str = Field("127.0.0.1", description="Address on which that port listens")
    wyoming_clients: list[str] = Field(
        default_factory=list,
        description="Networks whose clients are answered there, beside this machine, as JSON list "
        "such as 192.168.1.0/24: Wyoming knows no keys",
    )
    wyoming_requests: int = Field(
        8, ge=1, le=1000, description="Requests of that port that are answered at once"
    )

    broadcast_hosts: list[str] = Field(
        default_factory=list,
        description="Hosts to which apps may broadcast their sessions, as JSON list; *.name stands "
        "for all below it, * for any. Operators may broadcast anywhere",
    )

    @field_validator("embed_origins", "allowed_origins")
    @classmethod
    def _origins(cls, origins: list[str], info: ValidationInfo) -> list[str]:
        by_ipv6 = info.field_name == "allowed_origins"
        for origin in origins:
            known = _ORIGIN.fullmatch(origin) or (by_ipv6 and _ORIGIN_BY_IPV6.fullmatch(origin))
            if not known:
                raise ValueError(f"{origin!r} is not an origin such as https://shop.example:8443")
            if _USUAL_PORT.fullmatch(origin):
                raise ValueError(f"{origin!r}: leave its port out, as browsers do")
        return origins

    @field_validator("allowed_hosts")
    @classmethod
    def _names(cls, names: list[str]) -> list[str]:
        for name in names:
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a name such as avatar.example, without a port")
        return [name.lower() for name in names]  # as they are read in what browsers send

    @field_validator("trusted_proxies", "wyoming_clients")
    @classmethod
    def _networks(cls, networks: list[str]) -> list[str]:
        for network in networks:
            ipaddress.ip_network(network)
        return networks

    @field_validator("ice_servers")
    @classmethod
    def _ice_servers(cls, servers: list[NamedServer]) -> list[NamedServer]:
        for server in servers:
            urls = [server] if isinstance(server, str) else server.urls
            if not all(map(is_ice_url, urls)):
                # Not which: who means to tell a password may have put it there.
                raise ValueError("a URL in it is none such as turn:turn.example:3478?transport=udp")
        return servers

    @field_validator("face_outputs")
    @classmethod
    def _face_outputs(cls, outputs: dict[str, str]) -> dict[str, str]:
        for name, url in outputs.items():
            destination(name, url)
        return outputs

    @cached_property
    def destinations(self) -> dict[str, Destination]:
        """Of `face_outputs`, by name."""
        return {name: destination(name, url) for name, url in self.face_outputs.items()}

    def key(self) -> str:
        """What clients must send; empty: nothing. Raises SettingsError."""
        return self.secret("api_key")

    @cached_property
    def ice(self) -> IceServers:
        """What WebRTC's two sides are told. Raises SettingsError."""
        return IceServers(self.ice_servers, self.secret("turn_key"), self.turn_password_life_s)

    def signing_key(self) -> str:
        """What session tokens are signed with. Raises SettingsError."""
        secret = self.secret("token_key")
        if secret and len(secret) < _KEY_CHARACTERS:
            raise SettingsError(
                f"token_key: {_KEY_CHARACTERS} characters or more are wanted, as "
                "`openssl rand -hex 32` makes them"
            )
        return secret or secrets.token_urlsafe(_KEY_CHARACTERS)

    @property
    def speculation(self) -> SpeculationLimits:
        """When an answer is prepared ahead."""
        return SpeculationLimits(
            self.speculate_above,
            self.speculations_per_utterance,
            self.speculation_discarded_share,
            self.speculation_window,
            self.prepare_before_pause,
        )

    @property
    def tool_limits(self) -> ToolLimits:
        """What an answer may ask of tools."""
        return ToolLimits(
            self.tool_timeout_s,
            self.tool_result_chars,
            self.tool_rounds,
            self.tool_filler_after_s,
        )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the gateway."""
        return is_loopback(self.host)


def check_exposure(settings: GatewaySettings) -> None:
    """Raises SettingsError if others could reach the gateway and no key protects it.

    Also where the key's file cannot be read.
    """
    reached = settings.wyoming_port >= 0 and not is_loopback(settings.wyoming_host)
    if reached and not settings.wyoming_clients:
        raise SettingsError(
            f"wyoming_host: {settings.wyoming_host} can be reached from other machines, and the "
            "protocol knows no keys: name the networks that may with --wyoming-clients"
        )
    if settings.key() or settings.access_file is not None:
        return
    # A proxy on this machine brings others, though the gateway listens to this machine alone.
    exposed = {
        f"host: {settings.host} can be reached from other machines": not settings.loopback,
        "allowed_hosts: others reach the gateway by these names": bool(settings.allowed_hosts),
        "trusted_proxies: others reach the gateway through them": bool(settings.trusted_proxies),
    }
    for why, applies in exposed.items():
        if applies:
            raise SettingsError(
                f"{why}, so an API key is needed: give one with --api-key-file, --access-file, "
                "--api-key or VISAVIS_GATEWAY_API_KEY, or listen on 127.0.0.1 without a proxy"
            )
