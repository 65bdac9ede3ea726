"""Bytes from outside, as nobody would send them by mistake: every decoder that reads some.

- `inputs`: how good bytes, texts, JSON and protobuf messages are made bad.
- `decoder`: one decoder, what it may raise, how long it may take; and the run over it.
- `messages`: what the bus and gRPC bring.
- `doors`: what a visitor's browser sends the gateway.
- `live`: what servers answer that a session is broadcast to, and players that watch it.
- `protocols`: what clients of other protocols send.
- `files`: weights, pictures, settings and sound that somebody has put on the disk.
- `catalogue`: all of them; docs/fuzzing.md has the list.
- `__main__`: `python -m tests.fuzz --seconds 60`, for long runs.
- `openapi`: `python -m tests.fuzz.openapi`, the HTTP API by its own description.
"""
