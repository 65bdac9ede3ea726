"""`visavis bench`: a visitor made of sound files, and the figures of what he meets.

What every benchmark stands on:

- `benchmark`: options, the gateway that is measured, figures handed out
- `questions`: the question set, spoken by our own voices (`visavis bench questions`)
- `held_out`: questions by other voices, in noise, that nothing was tuned on
- `visitor/`: speaks sound files into a session, and notes when what came
- `figures/`: what is made of those notes, with its spread, as JSON and printed

The benchmarks, a command each; docs/benchmarks.md defines their figures:

- `latency`: from the end of a question to its answer
- `load/`: many visitors at once, and how many are served as one is; docs/load.md
- `simulate/`: the same above simulated devices, in slower time; docs/simulation.md
- `barge_in`: an answer interrupted, or not
- `partials`: what is understood while the visitor still speaks
- `turns`: ends of turns found on a labelled set
- `sync`: lips and voice in step
- `quality`: words heard and spoken, lips that meet
- `face`: what one face costs its processor
- `room/`: many who write into a live room; docs/room.md
- `drawing`: what a visitor costs who draws the face himself, beside one who does not
"""
