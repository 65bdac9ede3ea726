"""Networks on a Triton server, whose batcher several processes share.

`exchange`: arrays as the messages of KServe's protocol, and back.
`server`: the questions that a server is asked, and what its refusals mean.
`engine`: the backend.
"""
