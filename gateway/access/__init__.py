"""Who a caller is, and what he may do.

`callers`: the five roles, and which doors each of them opens.
`tokens`: what opens one session alone, for a while.
`ephemeral`: keys that an app lends to browsers, to begin its sessions.
`limits`: how many sessions an app has, and how fast it makes them.
`keys`: the file of keys, their roles and limits, and of whose JWTs are taken.
`bearers`: JWTs that somebody else has made.
`doorkeeper`: tells a caller by the key or the token that he shows.
"""
