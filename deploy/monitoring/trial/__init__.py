"""Proves on a running stack and a real Prometheus what an operator would see. Serves nobody.

In reading order:

- `scaled`: the rules with every time in them shortened by one factor.
- `prometheus`: a Prometheus of our own, with our scrape configuration and rules; what it is asked.
- `crowd`: a stack of our own, and visitors who talk to it.
- `live`: a session that goes live, and who comes to it.
- `doors`: clients of all its other doors.
- `injected`: what goes wrong: processes killed, frozen, slowed down; a crowd at the door.
- `faults`: injects one after the other, and tells which alerts fire and when.
- `drawing`: one panel of a dashboard as SVG, in the manner of Grafana.
- `pictures`: a whole dashboard, with its figures from Prometheus, as a PNG.
"""
