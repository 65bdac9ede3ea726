"""The public side: visitors come in over HTTP, WebRTC and WebSockets, faces answer them.

In reading order, first the folders:

`api`: the doors.
`openai`: OpenAI's HTTP API without a session.
`realtime`: OpenAI's Realtime API, on sessions.
`wyoming`: Home Assistant's protocol.
`access`: who a caller is, and what he may do.
`waiting`: who is let in, who waits, and for how long.
`session`: one visitor's session, from its beginning to its end.
`talk`: who speaks in it, which answer counts, what was heard.
`stages`: the four services as one session sees them.
`playout`: sound and pictures leave by one clock.
`faces`: a session's face for other engines.
`live`: one face to many, by RTMP, WHIP, WHEP and HLS.
`room`: many who write, and one avatar that answers.
`answers`: what can be said without a language model.
`knowledge`: the operator's texts, and which of them a question asks for.
`tools`: what answers may call, and within which limits.
`apps`: what programs ask of a session beside a conversation.
`ledger`: where a turn's time went.
`peers`: several gateways behind one address.
`edge`: TLS, security headers, connections that hold others up.
`static`: the page.

`settings`: what can be set, and what may not be exposed.
`background`: tasks on the side of a session, none of which fails unseen.
`metrics`: every metric, with the buckets of each.
"""
