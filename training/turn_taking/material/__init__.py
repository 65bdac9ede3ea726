"""Disjoint material for turn-taking: other voices, texts, rooms and noises in either half.

- `voices`: the speakers, out of packages that registries carry
- `rooms`: simulated rooms, noises and short sounds that are no speech
- `making`: the labelled clips of both halves
- `over_answers`: what is said, coughed and knocked over an answer
- `listener`: short words over an answer, to teach asr a listener's
"""
