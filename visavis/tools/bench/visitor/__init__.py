"""A visitor made of sound files, and what he notes of the answers.

- `clips`: recordings, and where speech begins and ends in them
- `media`: what a connection carries; `websocket` and `webrtc` are the two
- `visitor`: speaks clips into a session, listens, notes when what came
- `trace`: what was noted of one exchange
- `idle_life`: a first visitor, for whom the face draws what it keeps
"""
