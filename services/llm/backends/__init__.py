"""The engines an answer may come from, behind one protocol.

`base`: the protocol, a request and what comes of it.
`registry`: opens the backend that the settings name.
`llamacpp`: llama.cpp in this process, the default.
`calls_in_text`: tools told to a model in words, and calls read out of what it writes.
`openai_compatible`: any server that speaks OpenAI's API.
`tensorrt_llm`: TensorRT-LLM in this process, on a GPU.
`tensorrt_llm_answer`: one of its answers, and its errors.
`tensorrt_llm_api`: what we use of its package, checked against the installed one.
"""
