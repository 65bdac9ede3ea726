"""Whose turn it is: where an utterance begins, pauses and ends, and whether its words are all.

`endpointing`: from probabilities of speech to beginnings, pauses and ends.
`wording`: texts by their words; the text of unfinished speech.
`english`, `mandarin`: the words by which a speaker shows that he goes on.
`languages`: which of the two is asked.
`finished_words`: what is learnt of last words.
`completeness`: rules, learnt words and intonation together.
`foresight`: whether what was understood so far is all, while it is still being said.
"""
