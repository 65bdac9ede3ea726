"""The public side: visitors come in over HTTP, WebRTC and WebSockets, faces answer them.

In reading order, first the folders:

`api`: the doors.
`realtime`: OpenAI's Realtime API, on sessions.
`access`: who a caller is, and what he may do.
`talk`: who speaks, which answer counts, what was heard: one session.
`stages`: the four services as one session sees them.
`playout`: sound and pictures leave by one clock.
`live`: one face to many, by RTMP, WHIP, WHEP and HLS.
`room`: many who write, and one avatar that answers.
`answers`: what can be said without a language model.
`apps`: what programs ask of a session beside a conversation.
`ledger`: where a turn's time went.
`edge`: TLS, security headers, connections that hold others up.
`static`: the page.

`settings`: what can be set, and what may not be exposed.
`background`: tasks on the side of a session, none of which fails unseen.
`metrics`: every metric, with the buckets of each.
"""
