"""HLS for phones, and for players that know nothing else.

`segments`: segments and their playlist.
`viewers`: who watches, though nobody is connected.
`on_demand`: they are cut for as long as somebody asks.
"""
