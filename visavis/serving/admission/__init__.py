"""Whether deadlines hold with one session more: measured, predicted, told, and decided at Attach.

- `meter`: what the sessions of one stage ask of it, kept as it happens.
- `prediction`: a stage with one session more, by queueing theory.
- `admission`: lets a session in, or says why not.
- `departures`: when the next of the open sessions will have ended.
- `probes`: processor time, the wait for a core, memory.
- `reporting`: told on the bus and in metrics, once a second.
"""
