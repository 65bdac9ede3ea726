"""`visavis bench simulate`: many visitors above simulated devices, in time that goes slower.

docs/simulation.md tells what it shows and what not. What stands for the models is in `simulation/`,
beside the services that it goes into. Pure:

- `plan`: stage times, their batch curve, dilation
- `words`: what is asked and answered, as text and as pairs of tones
- `heard`: which words were lost, said twice, or another's
- `results`: what a step came to, whether it is valid, what it costs carried on
- `pages`: tables

At the edge:

- `dilation`: event loops that keep the process's slower time
- `client`: a process of visitors, a program of its own
- `run`: a stack of its own for each step, and what stack and bus tell
- `command`: its options, and what it tells
"""
