"""When a visitor has finished: the labelled set, the word model, and the weights between them.

- `sounds`: levels, where speech begins and ends, pauses put in
- `make_clips`: the labelled set of tests/turns
- `finished_words`: the model of the words that turns end with
- `pauses`: what the networks make of sentences whole and broken off
- `logistic`: logistic regression, and how well odds tell
- `fusion`: words, marks and the turn detector weighed against each other
- `material/`: disjoint voices, texts, rooms and noises (`docs/turn-taking.md`)
- `judgements`: what asr knows at every pause of labelled clips
- `calibration`: what these are worth together, and what each wait would cost
- `foresight`: how likely the words of unfinished speech are all of it
- `listeners`, `listener_network`: a listener's short sounds told from others
"""
