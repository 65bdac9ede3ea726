"""The real services with simulated models behind their seams; `visavis bench simulate` runs them.

Nothing that serves imports it. docs/simulation.md tells what it shows and what not.

- `device`: one device per replica, pure: a queue, occupancy, a batch curve
- `occupied`: that device in time, for threads and tasks that wait for it
- `models`: what stands for recogniser, language model and voice
- `faces`: what stands for painter and encoder
"""
