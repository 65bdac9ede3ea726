"""OpenAI's Realtime API: programs that speak it talk with a session as they are.

`protocol`: what is pure: client's events and session's news in, effects out.

`queues`: what waits between a client and its session.
`link`: a client's connection at work: does what the adapter asks for.
`making`: work beside the session: text, answers apart, recordings.
`opening`: how a session begins.
`doors`: the WebSocket, and ephemeral keys.
`calls`: WebRTC.
"""
