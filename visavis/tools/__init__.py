"""What a person runs at a terminal: nothing that serves imports it.

- `cli`: the `visavis` command, a module for each of its commands
- `stack`: everything on one machine, started, kept alive, ended
- `speech`: text said and sound heard by a service's plain gRPC API
- `live`: sessions broadcast, and shown to viewers
- `lecture`: a whole script to one video, without a gateway
- `bench`: what a visitor's waiting, interrupting and watching is like, in figures
- `plan`: so many sessions, placed on the machines there are
- `plan_bench`: how fast a compiled plan is beside its fallback
- `triton_bench`: what a network on a server that processes share costs them, and gives
- `precision`: what a lower precision costs in words, sound and lips
- `charts`: timelines and figures as SVG
- `output`: files that commands write, checked before any work is done
- `shown`: what they print, on terminals of any width and into pipes
"""
