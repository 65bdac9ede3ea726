"""Pipecat beside us: what `peer_pipecat` and `peer.together` are made of.

- `agent`, `parts`: a voice agent of Pipecat's with our weights, in a process and an environment
  (`venv`, `requirements.txt`) of its own
- `visiting`: the order in which a visitor asks it; `caller`: one who comes over WebRTC
- `rounds`: who is asked what when; `figures`: its turns by the same definitions as ours
"""
