"""A whole stack on one machine: nats-server, four services, the gateway.

- `tether`: a command that ends with the process that wanted it
- `silence`: how long a process has said nothing though it could have
- `process`: one child process, started, listened to, ended; where its log lies
- `restarter`: one child process kept at work
- `nats_server`: the bus as a child process
- `keys`: who gets in: passwords on the bus, and what calls between the parts are proven by
- `supervisor`: all of them started, kept alive, exchanged and ended in order
- `rolling`: services started anew one process at a time
- `control`: how `visavis restart` talks to the stack that runs
- `plain_service`: one service alone, with no bus
"""
