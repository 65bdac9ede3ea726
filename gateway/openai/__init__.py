"""OpenAI's HTTP API, for programs that were written for it: they work as they are.

`errors`: refusals in OpenAI's shape.
`serving`: answers that flow while they are made, and end with the client.
`models`: which models and voices there are, also as OpenAI calls them.
`schemas`: the body of a chat request, and what of it is refused.
`chat`: a conversation to an answer, whole or as events.
`sound_files`: a voice's sound as a file in one of six formats, and a file of any kind to samples.
`speech`: a text to a voice's file.
`passages`: what was said as JSON, subtitles, words with their times.
`transcriptions`: a recording to its text.
"""
