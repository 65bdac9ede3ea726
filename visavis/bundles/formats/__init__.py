"""The files that weights come in.

`weights`: weights out of whatever file they came in.
`safetensors`: reads and writes `.safetensors`.
`torch_checkpoint`: reads PyTorch checkpoints without PyTorch and without running them.
`ctranslate2`: reads the variables of a CTranslate2 `model.bin`.
`tflite`: reads the weights of a TFLite file by layer.
`onnx_graph`: builds ONNX graphs: layers in, one checked model file out.
`toml_text`: plain tables as TOML text.
"""
