"""OpenAI's HTTP API, for programs that were written for it: they work as they are.

`errors`: refusals in OpenAI's shape.
`serving`: answers that flow while they are made, and end with the client.
`names`: models and voices, also as OpenAI calls them.
`routes_models`: which models and voices there are.
`schemas`: the body of a chat request, and what of it is refused.
`chat`: a conversation to an answer, whole or as events.
`formats`: a voice's sound as a file in one of six formats, while it is spoken.
`speech`: a text to such a file.
`recordings`: a file of any kind to samples.
`passages`: what was said as JSON, subtitles, words with their times.
`transcriptions`: a recording to its text.
"""
