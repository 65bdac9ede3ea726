"""Broadcasts: a session pushed to platforms and servers, several at once.

`address`: where a broadcast goes, and what of that is secret.
`failure`: why it has failed.
`flow`: what a target gets that does not keep up, and when it is tried again.
`to_rtmp`: one connection to an RTMP server.
`to_whip`: one connection to a WHIP endpoint.
`target`: connected again and again, until it is stopped.
`broadcasts`: all targets of a session.
"""
