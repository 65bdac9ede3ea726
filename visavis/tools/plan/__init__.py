"""`visavis plan`: so many sessions, placed on the machines there are, with what they would meet.

docs/plan.md tells how. Pure:

- `inventory`: machines, cores, cards and prices, as a YAML file tells them
- `profiles`: what the services cost, each figure with its source; `profiles.toml` is shipped
- `measured`: what `visavis engine bench` measured, as such figures
- `queueing`: how long one stage keeps an answer waiting, and how busy it is
- `prediction`: what visitors of a layout would meet
- `placement`: which service goes where, for the least price; what would help where nothing fits
- `compose`: the Compose override and the commands that carry a plan out
- `kubernetes`: the Kustomize overlay that carries it out on a cluster
- `backtest`: a prediction beside what `visavis bench load` measured

At the edge:

- `pages`: tables and the reasons in words
- `command`: its options, the files that it reads and writes
"""
