"""Whisper, which hears Mandarin, English and many other languages.

`graph`: encoder and decoder as ONNX graphs, from weights under CTranslate2's names.
`names`: the same names for the tensors of transformers and of OpenAI.
`making`: a bundle out of any Whisper checkpoint.
"""
