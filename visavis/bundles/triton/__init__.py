"""Networks of bundles on a Triton server.

`networks`: which of them are worth the way there, and what the server calls them.
`repository`: writes what the server loads.
`onnx_model`: runs a network in the server's Python backend; it is copied into the repository.
"""
