"""What a wide residual network in training does between its convolutions on a GPU, and their weights' gradients.

Written in Triton. Images lie channels last, so to these kernels they are a matrix (places, channels) in bfloat16. Batch
norm with its leaky ReLU takes two passes over the values each way: one adds up, in float32 and in no fixed order,
and one writes.
"""
# mypy: ignore-errors
# ruff: noqa: N803

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

TILE = 8192  # values that a program holds at once; half as many on the way back
PROGRAMS = 264  # of a pass that adds up: two a multiprocessor; twice as many on the way back
WARPS = 8
CHUNK = 64  # places that a step of a weight's gradient multiplies
MOST = 64  # channels of a tile there


@triton.jit
def _normalised(x, sums, weight, bias, places, eps, C: tl.constexpr):
    """Values with mean 0 and variance 1; what the leaky ReLU is given; and the factor of the first."""
    channel = tl.arange(0, C)
    mean = tl.load(sums + channel) / places
    spread = tl.maximum(tl.load(sums + C + channel) / places - mean * mean, 0.0)
    scale = 1.0 / tl.sqrt(spread + eps)
    normal = (x - mean[None, :]) * scale[None, :]
    return normal, normal * tl.load(weight + channel)[None, :] + tl.load(bias + channel)[None, :], scale


@triton.jit
def _moments(x, plus, total, sums, places, ADD: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    channel = tl.arange(0, C)
    values = tl.zeros((BLOCK, C), tl.float32)
    squares = tl.zeros((BLOCK, C), tl.float32)
    for first in range(tl.program_id(0) * BLOCK, places, tl.num_programs(0) * BLOCK):
        place = first + tl.arange(0, BLOCK)
        inside = (place < places)[:, None]
        at = place[:, None] * C + channel[None, :]
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        if ADD:
            value += tl.load(plus + at, mask=inside, other=0.0).to(tl.float32)
            rounded = value.to(total.dtype.element_ty)
            tl.store(total + at, rounded, mask=inside)
            value = rounded.to(tl.float32)
        values += value
        squares += value * value
    tl.atomic_add(sums + channel, tl.sum(values, 0), sem="relaxed")
    tl.atomic_add(sums + C + channel, tl.sum(squares, 0), sem="relaxed")


@triton.jit
def _activate(
    x, y, sums, weight, bias, running_mean, running_var, places, momentum, eps,
    SLOPE: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    channel = tl.arange(0, C)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (place < places)[:, None]
    at = place[:, None] * C + channel[None, :]
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    _, before, _ = _normalised(value, sums, weight, bias, places, eps, C)
    tl.store(y + at, tl.where(before > 0, before, before * SLOPE).to(y.dtype.element_ty), mask=inside)
    if tl.program_id(0) == 0:
        mean = tl.load(sums + channel) / places
        unbiased = tl.maximum(tl.load(sums + C + channel) / places - mean * mean, 0.0) * (places / (places - 1.0))
        old_mean, old_var = tl.load(running_mean + channel), tl.load(running_var + channel)
        tl.store(running_mean + channel, old_mean + momentum * (mean - old_mean))
        tl.store(running_var + channel, old_var + momentum * (unbiased - old_var))


@triton.jit
def _backward_sums(
    d, x, sums, weight, bias, d_sums, places, all_places, eps,
    SLOPE: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    channel = tl.arange(0, C)
    of_weight = tl.zeros((BLOCK, C), tl.float32)
    of_bias = tl.zeros((BLOCK, C), tl.float32)
    for first in range(tl.program_id(0) * BLOCK, places, tl.num_programs(0) * BLOCK):
        place = first + tl.arange(0, BLOCK)
        inside = (place < places)[:, None]
        at = place[:, None] * C + channel[None, :]
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        normal, before, _ = _normalised(value, sums, weight, bias, all_places, eps, C)
        value = tl.load(d + at, mask=inside, other=0.0).to(tl.float32) * tl.where(before > 0, 1.0, SLOPE)
        of_weight += value * normal
        of_bias += value
    tl.atomic_add(d_sums + channel, tl.sum(of_weight, 0), sem="relaxed")
    tl.atomic_add(d_sums + C + channel, tl.sum(of_bias, 0), sem="relaxed")


@triton.jit
def _backward(
    d, x, plus, dx, sums, weight, bias, d_sums, places, all_places, eps,
    ADD: tl.constexpr, SLOPE: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    channel = tl.arange(0, C)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (place < places)[:, None]
    at = place[:, None] * C + channel[None, :]
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    normal, before, scale = _normalised(value, sums, weight, bias, all_places, eps, C)
    value = tl.load(d + at, mask=inside, other=0.0).to(tl.float32) * tl.where(before > 0, 1.0, SLOPE)
    of_weight, of_bias = tl.load(d_sums + channel) / all_places, tl.load(d_sums + C + channel) / all_places
    value = (value - of_bias[None, :] - normal * of_weight[None, :]) * (tl.load(weight + channel) * scale)[None, :]
    if ADD:
        value += tl.load(plus + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(dx + at, value.to(dx.dtype.element_ty), mask=inside)


@triton.jit
def _weight_gradient(
    d, x, parts, places, outputs, inputs,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr, SIDE: tl.constexpr,
    OUT: tl.constexpr, IN: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One row of a window of 1 x 1, or of 3 x 3 padded by 1, from a part of the images."""
    part, row, tile = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tiles = tl.cdiv(inputs, IN)
    out = tile // tiles * OUT + tl.arange(0, OUT)
    into = tile % tiles * IN + tl.arange(0, IN)
    left = tl.zeros((OUT, IN), tl.float32)
    middle = tl.zeros((OUT, IN), tl.float32)
    right = tl.zeros((OUT, IN), tl.float32)
    for first in range(part * CHUNK, places, tl.num_programs(0) * CHUNK):
        place = first + tl.arange(0, CHUNK)
        inside = place < places
        down = place // WIDTH % HEIGHT * STRIDE + row - SIDE // 2
        across = place % WIDTH * STRIDE
        image = place // (HEIGHT * WIDTH)
        source = ((image * (HEIGHT * STRIDE) + down) * (WIDTH * STRIDE) + across)[:, None] * inputs + into[None, :]
        given = (inside & (down >= 0) & (down < HEIGHT * STRIDE))[:, None] & (into < inputs)[None, :]
        gradient = tl.load(d + place[None, :] * outputs + out[:, None], mask=inside[None, :], other=0.0)
        middle = tl.dot(gradient, tl.load(x + source, mask=given, other=0.0), middle)
        if SIDE == 3:
            before, after = (across > 0)[:, None], (across + 1 < WIDTH * STRIDE)[:, None]
            left = tl.dot(gradient, tl.load(x + source - inputs, mask=given & before, other=0.0), left)
            right = tl.dot(gradient, tl.load(x + source + inputs, mask=given & after, other=0.0), right)
    at = parts + (((part * outputs + out)[:, None] * SIDE + row) * SIDE + SIDE // 2) * inputs + into[None, :]
    kept = (into < inputs)[None, :] & (out < outputs)[:, None]
    tl.store(at, middle, mask=kept)
    if SIDE == 3:
        tl.store(at - inputs, left, mask=kept)
        tl.store(at + inputs, right, mask=kept)


class TritonPasses:
    """Batch norm with a leaky ReLU, both ways. `sums` (2, 2, channels) are 0 before a pass forward."""

    def __init__(self, norm: nn.BatchNorm2d, slope: float, sums: Tensor) -> None:
        self._norm = norm
        self._slope = slope
        self._sums, self._d_sums = sums
        self._there, self._back = Tiles(norm.num_features, 1), Tiles(norm.num_features, 2)

    def forward(self, x: Tensor, plus: Tensor | None) -> tuple[Tensor, Tensor]:
        norm, tiles, places = self._norm, self._there, self._there.places(x)
        total = x if plus is None else torch.empty_like(x)
        other = x if plus is None else plus
        _moments[tiles.some(places)](x, other, total, self._sums, places, ADD=plus is not None, **tiles.shape)
        y = torch.empty_like(x)
        _activate[tiles.all(places)](
            total, y, self._sums, norm.weight, norm.bias, norm.running_mean, norm.running_var, places,
            norm.momentum, norm.eps, SLOPE=self._slope, **tiles.shape,
        )  # fmt: skip
        return total, y

    def backward(self, d: Tensor, x: Tensor, plus: Tensor | None, *, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        norm, tiles, places = self._norm, self._back, self._back.places(x)
        all_places = places // len(x) * rows
        _backward_sums[tiles.some(places)](
            d, x, self._sums, norm.weight, norm.bias, self._d_sums, places, all_places, norm.eps,
            SLOPE=self._slope, **tiles.shape,
        )  # fmt: skip
        dx = torch.empty_like(x)
        _backward[tiles.all(places)](
            d, x, x if plus is None else plus, dx, self._sums, norm.weight, norm.bias, self._d_sums,
            places, all_places, norm.eps, ADD=plus is not None, SLOPE=self._slope, **tiles.shape,
        )  # fmt: skip
        return dx, *self._d_sums


class Tiles:
    """How a pass over (places, channels) is cut; `parts` 2 makes twice as many of half the size."""

    def __init__(self, channels: int, parts: int) -> None:
        self._channels = channels
        self._most = PROGRAMS * parts
        self.shape = {"C": channels, "BLOCK": TILE // parts // channels, "num_warps": WARPS // parts}

    def places(self, x: Tensor) -> int:
        return x.numel() // self._channels

    def all(self, places: int) -> tuple[int]:
        return (triton.cdiv(places, self.shape["BLOCK"]),)

    def some(self, places: int) -> tuple[int]:
        return (min(self._most, *self.all(places)),)


def takes(d: Tensor, x: Tensor, weight: Tensor) -> bool:
    """Whether `weight_gradient` is for this convolution: 1 x 1 or 3 x 3, on sides that a stride divides."""
    steps = [of_x / of_d for of_x, of_d in zip(x.shape[2:], d.shape[2:], strict=True)]
    return weight.shape[2] == weight.shape[3] in (1, 3) and steps[0] == steps[1] in (1, 2)


def weight_gradient(d: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Of a convolution that halves its input or keeps its size: shaped as `weight`, in float32."""
    outputs, inputs, side, _ = weight.shape
    height, width = d.shape[2:]
    out, into = min(MOST, outputs), min(MOST, max(16, inputs))
    tiles = triton.cdiv(outputs, out) * triton.cdiv(inputs, into)
    small = out * into <= MOST * MOST // 2
    parts = max(1, (PROGRAMS if small else PROGRAMS // 2) // (side * tiles))
    sums = torch.empty(parts, outputs, side, side, inputs, device=d.device)
    _weight_gradient[(parts, side, tiles)](
        d, x, sums, d.numel() // outputs, outputs, inputs, HEIGHT=height, WIDTH=width, STRIDE=x.shape[2] // height,
        SIDE=side, OUT=out, IN=into, CHUNK=CHUNK if small else CHUNK // 2,
    )  # fmt: skip
    return sums.sum(dim=0).permute(0, 3, 1, 2)
