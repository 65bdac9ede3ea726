"""`visavis bench`: a visitor made of sound files, and the figures of what he meets.

What every benchmark stands on:

- `benchmark`: options, the gateway that is measured, figures handed out
- `questions`: the question set, spoken by our own voices (`visavis bench questions`)
- `clips`: recordings, and where speech begins and ends in them
- `media`: what a connection carries; `websocket` and `webrtc` are the two
- `visitor`: speaks clips into a session, listens, notes when what came
- `trace`: what was noted of one exchange
- `counters`: what the stack's own metrics rose by
- `processes`: CPU time and memory of the stack
- `word_errors`: what was heard otherwise than it was said
- `report`, `tables`: figures with their spread, as JSON and printed

The benchmarks, a command each; docs/benchmarks.md defines their figures:

- `latency`, `turn_figures`: from the end of a question to its answer
- `load/`: many visitors at once, and how many are served as one is; docs/load.md
- `barge_in`: an answer interrupted, or not
- `partials`: what is understood while the visitor still speaks
- `turns`: ends of turns found on a labelled set
- `sync`: lips and voice in step
- `quality`, `lips`: words heard and spoken, lips that meet
- `face`: what one face costs its processor
"""
