"""What every serving process stands on: how it starts, what it lends to sessions, how it fails.

- `settings`: what a service is told by flags, environment and a TOML file, in this order.
- `runtime`: runs one service: load, warm, serve, drain.
- `lifetime/`: from a process' first word to its last, and what runs beside its work.
- `addresses`: under which addresses others reach this machine, and ports that it listens on.
- `trust`: certificates: where our own lies, and which ones our clients believe.
- `way_out`: by which proxy others' servers are reached.
- `discovery`: who serves what where, by the NATS micro protocol.
- `stage`: one session at one service: its epoch, the one turn at work, its Attach stream.
- `admission/`: whether deadlines hold with one session more.
- `lease`: slots, and the events of an Attach stream.
- `errors`: what can go wrong, and the one table of gRPC status codes.
- `authentication/`: who belongs to the stack: calls and answers are proven.
- `interceptor`: around every call: errors become status codes, and the call is measured.
- `metrics`: every metric of every process.
- `telemetry/`: what a process tells of itself beyond these: its GPU's figures, traces of turns.
- `logs`: one JSON object a line, with session and turn.
- `aiortc_private`: the private parts of aiortc that are used, in one place.
"""
