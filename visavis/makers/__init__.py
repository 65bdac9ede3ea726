"""Bundles out of the user's own weights: `visavis bundle make`.

One module for each kind of model reads and checks its input and writes ONNX files; `bundle.py`
adds manifest, digests and licence and puts the bundle where `visavis models`, `visavis engine`
and the services find it by name.
"""
