"""The five dashboards, as tables.

`python -m deploy.monitoring.dashboards` writes ../grafana/dashboards/*.json anew. In reading order:

- `panels`: what a dashboard is made of, and how it becomes Grafana's JSON.
- `visitors`: what visitors experience.
- `doors`: going live, rooms, clients of other protocols.
- `turn`: one turn in depth.
- `engines`: engines and GPUs.
- `capacity`: capacity and scaling.
"""
