"""How long what leaves the gateway takes to others, by each way of going live: `docs/live.md`.

- `counter`: pictures that say which one they are, and a beep with every fifteenth
- `receivers`: processes that take a stream and tell what they have decoded, and when
- `servers`: nginx-rtmp and node-media-server, where they can be had
- `measure`: glass to glass, by each way
- `browser`: Chromium with a WHIP and WHEP client that is not ours
- `viewers`: what a viewer costs
- `hour`: an hour of one session, pushed in real time
"""
