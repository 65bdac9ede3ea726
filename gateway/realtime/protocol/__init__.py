"""The protocol as an adapter over a session. Pure: events and news in, effects out.

`config`: the session object.
`sound`: sound as clients send and want it.
`items`: the conversation as its client sees it.
`reply`: one response, as events in order.
`replies`: all of them, and the session's turns that speak them.
`asking`: what a client asks of one response.
`hearing`: what the visitor says, and when.
`responses`: which are made, when, and by whom.
`effects`: what the session is asked to do, and what it is told of it.
`dialogue`: the adapter.
"""
