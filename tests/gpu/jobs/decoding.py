"""Decoding with a small language model in the manner of Llama, token by token: thousands of tiny kernels."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.gpu.jobs.base import DISPATCH, Ledger, run

_HEAD, _VOCABULARY, _CONTEXT = 64, 8192, 512


class RMSNorm(nn.Module):
    """Scale to unit root mean square (Zhang and Sennrich, 2019), op by op, as models are often written."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    """Self-attention of one new token with all before it, kept in a cache."""

    keys: Tensor
    values: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // _HEAD
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, self.heads, _CONTEXT, _HEAD))

    def forward(self, x: Tensor, at: int, turn: tuple[Tensor, Tensor]) -> Tensor:
        query, key, value = self.project(x).view(1, 3, self.heads, 1, _HEAD).unbind(1)
        self.keys[:, :, at : at + 1] = rotate(key, turn)
        self.values[:, :, at : at + 1] = value
        seen = slice(0, at + 1)
        mixed = functional.scaled_dot_product_attention(
            rotate(query, turn), self.keys[:, :, seen], self.values[:, :, seen]
        )
        out: Tensor = self.out(mixed.reshape(1, 1, -1))
        return out


def rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Turn pairs of features by the token's position (Su et al., 2021)."""
    cosine, sine = turn
    first, second = x.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


class Layer(nn.Module):
    """A transformer block with a gated feed-forward network (Shazeer, 2020)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention, self.norm, self.norm_2 = Attention(width), RMSNorm(width), RMSNorm(width)
        self.gate, self.up, self.down = (
            nn.Linear(inputs, outputs, bias=False)
            for inputs, outputs in ((width, 3 * width), (width, 3 * width), (3 * width, width))
        )

    def forward(self, x: Tensor, at: int, turn: tuple[Tensor, Tensor]) -> Tensor:
        x = x + self.attention(self.norm(x), at, turn)
        y = self.norm_2(x)
        out: Tensor = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return out


class Model(nn.Module):
    """Token in, logits out."""

    angles: Tensor

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(_VOCABULARY, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, _VOCABULARY, bias=False)
        frequencies = 10_000.0 ** (-torch.arange(0, _HEAD, 2) / _HEAD)
        self.register_buffer("angles", torch.outer(torch.arange(_CONTEXT), frequencies))

    def forward(self, token: Tensor, at: int) -> Tensor:
        x, turn = self.embed(token), (self.angles[at].cos(), self.angles[at].sin())
        for layer in self.layers:
            x = layer(x, at, turn)
        logits: Tensor = self.head(self.norm(x))
        return logits


def decode(device: str) -> None:
    """Decode greedily; the token is read back, as a check for the end of the text does."""
    torch.set_num_threads(1)
    model = Model(1024, 24) if device == "cuda" else Model(128, 4)
    model = model.to(device, torch.bfloat16 if device == "cuda" else torch.float32).eval()
    token, tokens = torch.zeros(1, 1, dtype=torch.long, device=device), 0

    def step(ledger: Ledger) -> None:
        nonlocal token, tokens
        with ledger.timed(DISPATCH), torch.no_grad():
            token = model(token, tokens % _CONTEXT).argmax(-1)
        with ledger.timed("gpu_wait" if device == "cuda" else DISPATCH):
            token.item()
        tokens += 1

    run(step, warm_up=20)
