"""A session's face for other engines: its poses in their words, by the ways that they know.

`poses`: what a session's poses say, as numbers.
`vmc`: a pose for whoever speaks VMC, by Open Sound Control: VSeeFace, Warudo, VMC4UE and others.
`live_link`: a pose as Live Link Face sends it, and a take as a table.
`talking_head`: sound and poses together, as a head in the browser plays them.
`destinations`: where poses may be sent, as the operator has named them.
`outputs`: sends them there, for one session at a time.
`routes`: by which a session is connected with one, and takes are fetched.
"""
