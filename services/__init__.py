"""The four services of an answer, one process each; none imports another.

`asr`: sound to text, and whether the visitor has finished.
`llm`: a conversation to an answer.
`tts`: text to voice and mel.
`face`: voice and mel to pictures.
"""
