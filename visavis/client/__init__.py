"""Talk to a gateway from Python: ask, listen, have things said, follow what happens.

    from visavis.client import Client

    with Client("http://127.0.0.1:8080") as client, client.session() as session:
        print(session.answer_to("Who are you?"))

docs/apps.md shows the rest. In reading order:

`errors`: what a gateway refuses, and why.
`gateway`: one gateway for asyncio: requests, tokens, sessions.
`session`: one conversation of it.
`poses`: a face as those take it who draw it themselves.
`speech`: speech of one's own that the face is to say.
`blocking`: the same for programs without an event loop.

Nothing that serves imports any of it.
"""

from visavis.arkit import ARKIT_NAMES
from visavis.client.blocking import Client, Session
from visavis.client.errors import GatewayError
from visavis.client.gateway import GatewayClient
from visavis.client.poses import Pose
from visavis.client.session import MIC_RATE_HZ, GatewaySession
from visavis.client.speech import Speech

__all__ = [
    "ARKIT_NAMES",
    "MIC_RATE_HZ",
    "Client",
    "GatewayClient",
    "GatewayError",
    "GatewaySession",
    "Pose",
    "Session",
    "Speech",
]
