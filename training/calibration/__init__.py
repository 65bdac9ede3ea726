"""Real inputs that INT8 plans are calibrated and judged on.

- `record`: has the services speak and listen, and keeps what their networks were given
"""
