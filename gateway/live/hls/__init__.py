"""HLS for phones, and for players that know nothing else.

`segments`: segments and their playlist.
`on_demand`: they are cut for as long as somebody asks.
"""
