"""What an operator sees of a fleet: its metrics, dashboards, objectives and alerts.

In reading order:

- `catalogue`: every metric of ours as one list; writes docs/metrics.md.
- `dashboards/`: the four dashboards as Python tables; writes grafana/dashboards/*.json.
- `objectives`: what visitors are promised, and the rules that tell when it is broken; writes
  rules/objectives.yml. rules/operations.yml beside it is written by hand.
- `trial/`: a stack of our own under load, a Prometheus that watches it, faults, and pictures.
- `check_panels`: asks a Prometheus every panel's query and every rule's expression, and tells which
  have no data and why.

docs/monitoring.md says how all of it is used.
"""
