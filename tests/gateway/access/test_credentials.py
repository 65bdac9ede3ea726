"""Keys, tokens and JWTs by themselves: what is taken, what is not, and what is said of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.access.bearers import BadBearerError, Bearers
from gateway.access.callers import SOCKET, Caller, Limits, Role, why_not
from gateway.access.doorkeeper import Doorkeeper
from gateway.access.keys import JwtSection, read_access
from gateway.access.limits import Making, OverLimitError, Standing, Usage, check, standing
from gateway.access.tokens import ExpiredError, NotOursError, SessionTokens
from gateway.settings import GatewaySettings, check_exposure
from visavis.serving.errors import SettingsError

SECRET = "a secret that two who trust each other have, and nobody else knows it"
KEY = "a key that is long enough"
OF_NOTHING = hashlib.sha256(b"").hexdigest()
"""What `printf %s "$KEY" | sha256sum` says where KEY is not set."""
PRIVATE = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHERS = rsa.generate_private_key(public_exponent=65537, key_size=2048)


# ------------------------------------------------------------ session tokens


def test_a_token_says_who_shows_it_until_it_expires() -> None:
    tokens = SessionTokens(SECRET, 60.0)
    for role in (Role.VISITOR, Role.VIEWER):
        issued = tokens.issue("abc-01234567", role, 1000.0)
        assert tokens.read(issued.token, 1059.9) == Caller(role, session="abc-01234567")
        with pytest.raises(ExpiredError):
            tokens.read(issued.token, 1060.0)


def test_a_token_in_which_anything_was_changed_is_none() -> None:
    tokens = SessionTokens(SECRET, 60.0)
    token = tokens.issue("abc", Role.VIEWER, 1000.0).token
    changed = [
        f"{token[:i]}{'A' if c != 'A' else 'B'}{token[i + 1 :]}" for i, c in enumerate(token)
    ]
    content = {"session": "abc", "role": "operator", "expires": 2000.0}
    operator = base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
    signature = token.rpartition(".")[2]
    for wrong in (*changed, token[:-1], f"vs1.{operator}.{signature}", "vs1.", "vs1..", "vs1.é.é"):
        with pytest.raises(NotOursError):
            tokens.read(wrong, 1000.0)
    with pytest.raises(NotOursError):
        SessionTokens("another secret", 60.0).read(token, 1000.0)


@pytest.mark.parametrize("path", ["/v1/sessions/", "/v1/new", "/v1/sessions/x/../../services", "/"])
def test_what_is_not_thought_of_is_the_operators(path: str) -> None:
    for role in (Role.APP, Role.VISITOR, Role.VIEWER):
        opens = why_not(Caller(role, "key:app", "y"), SOCKET, path) == ""
        # A path is compared as it is routed: nobody resolves its dots.
        assert opens is (role is Role.APP and ".." in path)
    assert why_not(Caller(Role.OPERATOR), "GET", path) == ""


# ------------------------------------------------------------ the file of keys


def access(folder: Path, content: str) -> Path:
    file = folder / "access.toml"
    file.write_text(content)
    return file


def test_keys_come_with_a_role_and_limits(tmp_path: Path) -> None:
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    file = access(
        tmp_path,
        f'[[key]]\nname = "a"\nsha256 = "{digest}"\nrole = "app"\nmax_sessions = 2\n'
        f'[[key]]\nname = "b"\nkey = "another {KEY}"\nrole = "operator"\n',
    )
    a, b = read_access(file).key
    assert a.digest == hashlib.sha256(KEY.encode()).digest()
    assert a.caller == Caller(Role.APP, "key:a", limits=Limits(max_sessions=2))
    assert b.caller == Caller(Role.OPERATOR, "key:b")
    check_exposure(GatewaySettings.model_validate({"host": "0.0.0.0", "access_file": file}))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "nobody could come in"),
        (f'[[key]]\nname = "a"\nkey = {KEY}', "not TOML (at line 3, column 7)"),
        (f"key = {'[' * 10_000}", "not TOML"),
        (f'[[key]]\nname = "a"\nkey = "{KEY}"\nrole = "guest"', "role"),
        (f'[[key]]\nname = "a"\nkey = "{KEY}"\nrole = "app"\nlimit = 1', "limit"),
        (f'[[key]]\nname = "a"\nkey = "{KEY[:9]}"\nrole = "app"', "16 characters"),
        (f'[[key]]\nname = "a"\nkey = "{KEY} "\nrole = "app"', "a: a key is one line of ASCII"),
        ('[[key]]\nname = "a"\nrole = "app"', ": either key or sha256"),
        (f'[[key]]\nname = "a"\nsha256 = "{KEY}"\nrole = "app"', "sha256"),
        (f'[[key]]\nname = "a"\nsha256 = "{OF_NOTHING}"\nrole = "operator"', "an empty key"),
        (f'[[key]]\nname = "a"\nkey = "{KEY}"\nrole = "app"\n' * 2, "one name"),
        ("[jwt]", "no JWT could be verified"),
        ('[jwt]\njwks = "http://login.example.org/keys"', "jwks"),
    ],
)
def test_a_file_that_is_not_in_order_is_told_without_its_secrets(
    tmp_path: Path, content: str, said: str
) -> None:
    with pytest.raises(SettingsError, match="access_file") as refused:
        read_access(access(tmp_path, content))
    assert said in str(refused.value) and KEY[:9] not in str(refused.value)


def test_a_key_of_tokens_is_long(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="32 characters"):
        GatewaySettings.model_validate({"token_key": "short"}).signing_key()
    file = tmp_path / "token-key"
    file.write_text(f"{SECRET}\n")
    assert GatewaySettings.model_validate({"token_key_file": file}).signing_key() == SECRET
    made = {GatewaySettings.model_validate({}).signing_key() for _ in range(2)}
    assert len(made) == 2


@pytest.mark.parametrize("key", ["ein Schlüssel", "a key\n", " a key"])
def test_a_key_that_no_client_can_send_is_told_at_once(key: str) -> None:
    with pytest.raises(SettingsError, match=r"api_key: .* ASCII") as refused:
        Doorkeeper(GatewaySettings.model_validate({"api_key": key}))
    assert key.strip() not in str(refused.value)


# ------------------------------------------------------------ limits


def test_what_is_over_a_limit_counts_for_nothing() -> None:
    making, limits = Making(), Limits(max_sessions=2, sessions_per_minute=2)

    def make(at_s: float, sessions: int) -> None:
        with making.one("app", at_s):
            check(limits, [making.usage("app", sessions, at_s), Usage()])

    make(0.0, 0)
    make(10.0, 1)
    with pytest.raises(OverLimitError, match="2 open"):
        make(20.0, 2)
    for at_s in (20.0, 30.0):
        with pytest.raises(OverLimitError, match="2 a minute") as refused:
            make(at_s, 0)
        assert refused.value.retry_after_s == 60.0 - at_s
    with pytest.raises(OverLimitError, match="try again in 1 s"):
        make(59.75, 0)
    make(60.0, 0)
    with pytest.raises(OverLimitError, match="2 a minute"):
        make(61.0, 0)
    assert making.usage("app", 0, 121.0) == Usage()


def test_what_is_being_made_elsewhere_counts() -> None:
    making = Making()
    with making.one("app", 0.0):
        with pytest.raises(OverLimitError):
            check(Limits(max_sessions=1), [making.usage("app", 0, 0.0), Usage(sessions=1)])
        check(Limits(max_sessions=1), [making.usage("app", 0, 0.0), Usage()])
        with pytest.raises(OverLimitError):
            check(Limits(0, 1), [making.usage("app", 0, 0.0), Usage(0, [59.0])])
        check(Limits(), [making.usage("app", 9, 0.0), Usage(9, [0.0])])


def test_of_several_limits_the_one_is_told_of_which_least_is_left() -> None:
    there_are = [Usage(2, [50.0, 10.0]), Usage(1, [30.0])]
    assert standing(Limits(), there_are) is None
    assert standing(Limits(max_sessions=4), there_are) == Standing(4, 1)
    assert standing(Limits(4, 10), there_are) == Standing(4, 1)
    assert standing(Limits(40, 10), there_are) == Standing(10, 7, reset_s=10.0)
    assert standing(Limits(2, 0), there_are) == Standing(2, 0), "of keys that were cut back"


# ------------------------------------------------------------ JWTs


def claims(**other: Any) -> dict[str, Any]:
    usual = {"sub": "ann", "aud": "visavis", "visavis_role": "app", "exp": time.time() + 60}
    return {key: value for key, value in {**usual, **other}.items() if value is not None}


def jwks(**keys: rsa.RSAPrivateKey) -> str:
    told = []
    for name, key in keys.items():
        key_of = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
        told.append({**key_of, "kid": name, "alg": "RS256", "use": "sig"})
    return json.dumps({"keys": told})


def bearers(folder: Path, **section: Any) -> Bearers:
    (folder / "secret").write_text(SECRET)
    return Bearers(JwtSection.model_validate(section), folder)


@pytest.mark.asyncio
async def test_a_jwt_signed_with_the_secret_is_taken(tmp_path: Path) -> None:
    subjects = {"bob": {"max_sessions": 9}}
    known = bearers(tmp_path, secret_file="secret", max_sessions=2, subjects=subjects)
    for subject, most in (("ann", 2), ("bob", 9)):
        caller = await known.read(jwt.encode(claims(sub=subject), SECRET))
        assert caller == Caller(Role.APP, f"jwt:{subject}", limits=Limits(most))
    operator = await known.read(jwt.encode(claims(visavis_role="operator"), SECRET))
    assert operator.role is Role.OPERATOR


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"exp": 1000.0}, "expired"),
        ({"exp": None}, "exp"),
        ({"aud": "somebody"}, "[Aa]udience"),
        ({"aud": None}, "aud"),
        ({"iss": "https://evil.example"}, "[Ii]ssuer"),
        ({"iss": None}, "iss"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "sub"),
        ({"visavis_role": None}, "visavis_role"),
        ({"visavis_role": "visitor"}, "visavis_role"),
        ({"nbf": time.time() + 1000}, "not yet valid"),
    ],
)
async def test_a_jwt_that_does_not_say_what_it_must_is_not_taken(
    tmp_path: Path, other: dict[str, Any], said: str
) -> None:
    known = bearers(tmp_path, secret_file="secret", issuer="https://login.example")
    told = claims(**{"iss": "https://login.example", **other})
    with pytest.raises(BadBearerError, match=said):
        await known.read(jwt.encode(told, SECRET))


@pytest.mark.asyncio
async def test_a_jwt_chooses_neither_its_algorithm_nor_its_key(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(jwks(one=PRIVATE))
    both = bearers(tmp_path, secret_file="secret", jwks="keys.json")
    public = PRIVATE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "HS256", "kid": "one"}, claims())
    )
    # The public key as if it were the secret of HS256.
    confused = base64.urlsafe_b64encode(
        hmac.digest(public, signed.encode(), hashlib.sha256)
    ).decode()
    for wrong in (
        f"{signed}.{confused.rstrip('=')}",
        jwt.encode(claims(), None, algorithm="none"),
        jwt.encode(claims(), SECRET, algorithm="HS512"),
        jwt.encode(claims(), "another secret that is as long as that", algorithm="HS256"),
        jwt.encode(claims(), OTHERS, algorithm="RS256", headers={"kid": "one"}),
        "a.b.c",
    ):
        with pytest.raises(BadBearerError):
            await both.read(wrong)
    signed_right = jwt.encode(claims(), PRIVATE, algorithm="RS256", headers={"kid": "one"})
    assert (await both.read(signed_right)).name == "jwt:ann"
    with pytest.raises(BadBearerError, match="algorithm"):
        await bearers(tmp_path, secret_file="secret").read(signed_right)
    with pytest.raises(BadBearerError, match="algorithm"):
        await bearers(tmp_path, jwks="keys.json").read(jwt.encode(claims(), SECRET))


@pytest.mark.asyncio
async def test_keys_that_change_are_asked_for_again_and_not_too_often(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(jwks(old=PRIVATE))
    now_s = 1000.0
    section = JwtSection.model_validate({"jwks": "keys.json"})
    known = Bearers(section, tmp_path, lambda: now_s)
    new = jwt.encode(claims(), OTHERS, algorithm="RS256", headers={"kid": "new"})
    old = jwt.encode(claims(), PRIVATE, algorithm="RS256", headers={"kid": "old"})
    with pytest.raises(BadBearerError, match="'new' is not known"):
        await known.read(new)
    (tmp_path / "keys.json").write_text(jwks(new=OTHERS))
    with pytest.raises(BadBearerError):
        await known.read(new)
    now_s += 31.0
    assert (await known.read(new)).name == "jwt:ann"
    with pytest.raises(BadBearerError):
        await known.read(old)
    (tmp_path / "keys.json").unlink()
    now_s += 3601.0
    assert (await known.read(new)).name == "jwt:ann", "what was known holds while nobody answers"
    (tmp_path / "keys.json").write_text(jwks(newest=PRIVATE))
    now_s += 31.0
    with pytest.raises(BadBearerError):
        await known.read(new)


@pytest.mark.asyncio
async def test_keys_come_from_an_address(tmp_path: Path) -> None:
    class Told(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            if self.path == "/long.json":
                self.wfile.write(b" " * 8_000_000)
            self.wfile.write(jwks(one=PRIVATE).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Told)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    known = bearers(tmp_path, jwks=f"{url}/keys.json")
    signed = jwt.encode(claims(), PRIVATE, algorithm="RS256")
    caller = await known.read(signed)
    with pytest.raises(BadBearerError, match="not known"):
        await bearers(tmp_path, jwks=f"{url}/long.json").read(signed)
    server.shutdown()
    server.server_close()
    assert caller.name == "jwt:ann"
    assert (await known.read(signed)).name == "jwt:ann"


@pytest.mark.parametrize("content", [None, "", "{}", '{"keys": []}', "[]"])
def test_a_file_without_keys_is_told_at_once(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "keys.json").write_text(content)
    with pytest.raises(SettingsError, match="jwks"):
        bearers(tmp_path, jwks="keys.json")
    (tmp_path / "short").write_text("short")
    with pytest.raises(SettingsError, match="32 characters"):
        bearers(tmp_path, secret_file="short")


@pytest.mark.parametrize("url", ["https://", "https://login.example.org:x/keys", "https://a\0b"])
def test_an_address_of_keys_that_is_none_is_told_at_once(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="jwks"):
        bearers(tmp_path, jwks=url)
