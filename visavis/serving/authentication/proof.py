"""What shows that one knows the stack's secret, and does not tell it.

A call carries a number used once and a keyed digest (HMAC-SHA256, RFC 2104) of it, the method, the
time and the address that was called; the answer carries one of the same number and the answering
process's own address. So neither is of use at another address, and whoever took over the port of a
process that has ended learns nothing that opens another. Pure: the time is passed in.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from visavis.serving.errors import UnauthenticatedError

CALL = "visavis-proof"
"""Metadata of a call."""
ANSWER = "visavis-answer"
"""Initial metadata of what is answered."""
VALID_S = 120.0
"""So far the clocks of two machines may be apart."""
_NONCE_BYTES = 16


def new_nonce() -> str:
    """A number that is used once."""
    return secrets.token_hex(_NONCE_BYTES)


def call_proof(secret: str, method: str, address: str, nonce: str, unix_s: float) -> str:
    """What a call of `method` ("/package.Service/Method") at `address` carries."""
    made = str(round(unix_s))
    return f"{made}.{nonce}.{_digest(secret, 'call', made, nonce, method, address)}"


def check_call(secret: str, method: str, address: str, proof: str, unix_s: float) -> str:
    """The call's nonce. Raises UnauthenticatedError unless the caller knows the secret.

    address: the answering process's own, as others are told it.
    """
    if not proof:
        raise UnauthenticatedError(
            "this service answers its own stack alone, and the call proves nothing: give the "
            "caller the same stack_secret_file (docs/security-inside.md)"
        )
    made, _, rest = proof.partition(".")
    nonce, _, digest = rest.partition(".")
    wanted = _digest(secret, "call", made, nonce, method, address)
    if not hmac.compare_digest(digest.encode(), wanted.encode()):
        raise UnauthenticatedError(
            "the call's proof is wrong: the caller has another stack_secret than this service, or "
            f"reaches it by another address than {address} (set advertise)"
        )
    if abs(unix_s - int(made)) > VALID_S:
        raise UnauthenticatedError(
            f"the call's proof is {unix_s - int(made):.0f} s old: it is an old one, or the clocks "
            "of the two machines differ"
        )
    return nonce


def answer_proof(secret: str, nonce: str, address: str) -> str:
    """What the answer to a call with this nonce carries."""
    return _digest(secret, "answer", nonce, address)


def check_answer(secret: str, nonce: str, address: str, proof: str) -> None:
    """Raises UnauthenticatedError unless who answers at `address` knows the secret."""
    wanted = answer_proof(secret, nonce, address)
    if not hmac.compare_digest(proof.encode(), wanted.encode()):
        raise UnauthenticatedError(
            f"{address} does not prove that it belongs to this stack: is stack_secret_file there "
            "the same as here?"
        )


def _digest(secret: str, *parts: str) -> str:
    return hmac.new(secret.encode(), "\n".join(parts).encode(), hashlib.sha256).hexdigest()
