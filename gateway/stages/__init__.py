"""The four services as one session sees them: replicas, leases, the bus. Protobuf stops here.

`registry`: which replicas there are, how loaded, how their clocks stand to ours.
`room`: whether all four would hold their deadlines with one session more.
`lease`: a slot of one service, held by a stream that comes back when it dies.
`ears`: whose words count while two replicas hear one session.
`stages`: a session's four leases, what is said over them and what is heard.
`bus_feed`: what a session reads from the bus and writes to it.
`incoming`: chunks from the bus on their way into the pure parts.
`catalog`: voices and avatars.
`plain_calls`: an answer, a voice, a text of a recording, without a session.
`growing`: sound or text of theirs that is still coming.
`idle_loops`: the idle life of faces, fetched once for all sessions.
`phrases`: the sound that replicas keep of texts which will be said.
"""
