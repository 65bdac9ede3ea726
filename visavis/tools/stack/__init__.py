"""A whole stack on one machine: nats-server, four services, the gateway.

- `tether`: a command that ends with the process that wanted it
- `process`: one child process, started, listened to, ended; where its log lies
- `restarter`: one child process kept at work
- `nats_server`: the bus as a child process
- `supervisor`: all of them started, kept alive and ended in order
- `plain_service`: one service alone, with no bus
"""
