"""One engine for language_model_builds.py, in the Python that has it: MODEL ENGINE

Measures a round for each line of standard input and prints [processor time, wall time] in seconds
of three answers: one token and six behind 8 new tokens, one behind 60.
"""

from __future__ import annotations

import ctypes as c
import json
import sys
import time
from pathlib import Path
from typing import Any

_PREFIX, _NEW, _UNREAD, _BATCH = 200, 8, 60, 64
# Which tokens they are does not matter to the time; all models have these.
_TOKENS = [1000 + 37 * k % 20_000 for k in range(2_000)]


class _XLlamaCpp:
    """As each engine here: `prepare` puts the prefix alone into the cache, `answer` reads new
    tokens behind it and writes so many, each the likeliest."""

    def __init__(self, model: str, _: str) -> None:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = model
        params.load_mode = xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_NONE
        params.n_gpu_layers, params.n_parallel, params.n_ctx = 0, 1, 1024
        params.n_batch = params.n_ubatch = _BATCH
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.verbosity, params.cache_ram_mib, params.fit_params = -1, 0, False
        self._server, self.system = xllamacpp.Server(params), xllamacpp.get_system_info()

    def prepare(self) -> None:
        self.answer([], 1)

    def answer(self, new: list[int], count: int) -> None:
        asked = {"prompt": _TOKENS[:_PREFIX] + new, "max_tokens": count, "temperature": 0}
        asked |= {"stream": True, "cache_prompt": True, "ignore_eos": True, "id_slot": 0}
        self._server.handle_completions(json.dumps(asked).encode(), lambda _: False)


class _Opaque(c.Structure):
    """Parameters, handed from the library to the library; longer than in any version."""

    _fields_ = (("words", c.c_uint32 * 128),)


class _Pointer(c.c_void_p):
    """Stays a pointer as it comes back, where c_void_p becomes an int."""


class _Batch(c.Structure):
    _fields_ = (("count", c.c_int32), ("pointers", c.c_void_p * 6))


class _LibLlama:
    def __init__(self, model: str, library: str) -> None:
        path = Path(library)
        if not path.name.startswith("libllama"):
            ggml = c.CDLL(str(next(path.parent.glob("libggml.*so*"))), mode=c.RTLD_GLOBAL)
            assert ggml.ggml_backend_load(library.encode()), "not for this processor"
            path = next(path.parent.glob("libllama.*so*"))
        self._llama = c.CDLL(str(path))
        loading = self._call("model_default_params", _Opaque)
        loaded = self._call("model_load_from_file", _Pointer, model.encode(), loading)
        params = self._call("context_default_params", _Opaque)
        params.words[:3] = 1024, _BATCH, _BATCH
        self._context = self._call("init_from_model", _Pointer, loaded, params)
        self._call("set_n_threads", None, self._context, 1, 1)
        self._memory = self._call("get_memory", _Pointer, self._context)
        self._prepared = False
        self._words = self._call(
            "vocab_n_tokens", c.c_int32, self._call("model_get_vocab", _Pointer, loaded)
        )
        self.system = self._call("print_system_info", c.c_char_p).decode()

    def _call(self, name: str, result: Any, *arguments: Any) -> Any:
        function = self._llama[f"llama_{name}"]
        function.restype = result
        return function(*arguments)

    def prepare(self) -> None:
        self._call("memory_seq_rm", c.c_bool, self._memory, 0, _PREFIX, -1)
        for begin in () if self._prepared else range(0, _PREFIX, _BATCH):
            self.answer(_TOKENS[begin : min(_PREFIX, begin + _BATCH)], 1)
        self._prepared = True

    def answer(self, new: list[int], count: int) -> None:
        import numpy as np

        for _ in range(count):
            kept = (c.c_int32 * len(new))(*new)
            batch = self._call("batch_get_one", _Batch, kept, len(new))
            assert self._call("decode", c.c_int32, self._context, batch) == 0
            found = self._call("get_logits_ith", c.POINTER(c.c_float), self._context, -1)
            new = [int(np.ctypeslib.as_array(found, (self._words,)).argmax())]


class _OpenVino:
    def __init__(self, _: str, model: str) -> None:
        import openvino

        wanted = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        self._request = openvino.Core().compile_model(model, "CPU", wanted).create_infer_request()
        self.system = openvino.__version__

    def prepare(self) -> None:
        self._request.reset_state()
        self._past = 0
        self.answer(_TOKENS[:_PREFIX], 1)

    def answer(self, new: list[int], count: int) -> None:
        import numpy as np

        for _ in range(count):
            begin, self._past = self._past, self._past + len(new)
            fed = {"input_ids": np.array([new]), "beam_idx": np.zeros(1, np.int32)}
            fed |= {"attention_mask": np.ones((1, self._past), np.int64)}
            fed |= {"position_ids": np.arange(begin, self._past)[None]}
            self._request.infer(fed)
            new = [int(self._request.get_output_tensor(0).data[0, -1].argmax())]


def _serve(model: str, kind: str) -> None:
    """One round for each line of standard input."""
    make: Any = _XLlamaCpp if kind == "xllamacpp" else _LibLlama if ".so" in kind else _OpenVino
    engine = make(model, kind)
    print(engine.system, flush=True)  # noqa: T201
    for line in sys.stdin:
        begin, spent = _PREFIX + 20 * (1 + int(line)), list[tuple[float, float]]()
        for length, count in ((_NEW, 1), (_NEW, 6), (_UNREAD, 1)):
            engine.prepare()
            begin += 1
            cpu, wall = time.process_time(), time.perf_counter()
            engine.answer(_TOKENS[begin : begin + length], count)
            spent.append((time.process_time() - cpu, time.perf_counter() - wall))
        print(json.dumps(spent), flush=True)  # noqa: T201


if __name__ == "__main__":
    _serve(*sys.argv[1:])
