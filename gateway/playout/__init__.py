"""Sound and pictures leave by one clock.

`pacing`: media time, and whose tick is due.
`ticker`: serves all sessions of the process in one pass.
`playout`: releases a turn's voice and pictures together.
`pictures`: encoded pictures of one codec, and when a key frame is due.
`loops`: idle life as pictures in memory.
`idle`: whether the face shows a session's idle life or its loop does.
`attention`: whom the face attends to while it says nothing.
`sound`: a voice at 48 kHz, quieter, remembered, encoded.
`captions`: what is said, within pictures that go live or are recorded.
`allowance`: how many bits of pictures a viewer's network carries.
`audience`: everybody that a tick goes to; `sinks` are the ways to them.
`outlets`: all of these ways of one session, also those of `gateway/live` and `gateway/faces`.
"""
