"""What a process tells of itself beyond its own metrics; nothing is imported that nobody wants.

- `gpus`: the figures of the GPU that it runs on, by NVML.
- `traces`: what a span is, and who begins them in this process; knows nothing of OpenTelemetry.
- `stages`: the turns of one session at one service, as spans.
- `opentelemetry_spans`: spans as OpenTelemetry's, and where they go.
- `tracing`: whether this process traces; begins and ends with it.
"""
