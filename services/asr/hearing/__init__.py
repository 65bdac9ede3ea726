"""The networks of speech recognition: arrays in, probabilities and text out.

`transcript`: what a recogniser says, and what each can do.
`log_mel`: the spectrogram that Whisper and the turn detector read.
`detectors`: is it speech, is the turn over.
`decoding`: what decoders of text share.
`listeners`: is a short sound a listener's.
`moonshine`: English.
`whisper`: Mandarin, and 97 languages more.
`cutter`: long recordings in pieces, cut at pauses.
`networks`: all of them loaded, and which recogniser hears which language.
"""
