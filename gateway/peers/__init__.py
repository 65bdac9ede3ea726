"""Several gateways behind one address: any of them takes any request, and the right one answers it.

`server`: one gateway's web server: the address that all share and its own, and how it ends.
`peers`: who the others are, which of them has a session, which of them has room.
`passing`: a request, or a WebSocket, handed on to another gateway.
`handover`: sessions that go on in another gateway, because this one is about to end.
`standing_in`: the same of sessions whose gateway has died.
"""
