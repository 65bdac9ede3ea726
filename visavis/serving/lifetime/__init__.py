"""From a process' first word to its last, and what runs beside its work until then.

- `open_files`: how many of them a process may have.
- `starting`: what a service is busy with while it starts, told on the bus.
- `heartbeat`: a process' sign of life to whoever started it.
- `supervision`: background work that cannot end unseen.
- `collecting`: what keeps Python's search for garbage short.
- `draining`: when a process that was told to stop may end.
"""
