"""OpenAI's Realtime protocol on a real stack: many at once, and in a page.

`docs/clients/openai-realtime.md` tells of it.

- `visitors`: the clients, by OpenAI's Python SDK or plain WebSockets; nothing of visavis
- `judging`: orders, what crossed from one session into another, how long they waited
- `sessions`: many at once, as one command
- `recording`: a page of OpenAI's SDK for agents with our face in it, as a video
"""
