"""A wide residual network in training, its forward and backward pass written out: for rows that only ride along.

FixMatch's weak views are in the batch for batch norm's sake and to make labels; nothing is learned from them. Here they
have no backward pass: what they add to batch norm's means and variances counts as given. On a GPU the passes
between convolutions are few and in Triton, if it is there.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from vesica.models.wide_resnet import SLOPE, Block, WideResNet

Back = Callable[[Tensor], Tensor]  # from the gradient of an output to that of the input
GPU_CHANNELS = 8  # that many or a multiple are multiplied at once


class Passes(Protocol):
    """Batch norm with a leaky ReLU, both ways, a batch at a time."""

    def forward(self, x: Tensor, plus: Tensor | None) -> tuple[Tensor, Tensor]:
        """The sum of both, and its activation."""
        ...

    def backward(self, d: Tensor, x: Tensor, plus: Tensor | None, *, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """The gradient of `x`, the first of `rows` rows, `plus` added to it; and those of weight and bias."""
        ...


class PlainPasses:
    """In plain torch."""

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        self._norm = norm

    def forward(self, x: Tensor, plus: Tensor | None) -> tuple[Tensor, Tensor]:
        norm = self._norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.momentum is not None
        total = x if plus is None else x + plus
        spread, self._mean = torch.var_mean(total.float(), dim=(0, 2, 3), correction=0)
        self._scale = (spread + norm.eps).rsqrt()
        places = total.numel() / total.shape[1]
        norm.running_mean.lerp_(self._mean, norm.momentum)
        norm.running_var.lerp_(spread * (places / (places - 1)), norm.momentum)
        _, before = self._normalised(total)
        return total, functional.leaky_relu(before, SLOPE).to(x.dtype)

    def backward(self, d: Tensor, x: Tensor, plus: Tensor | None, *, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        normal, before = self._normalised(x)
        d = d.float() * torch.where(before > 0, 1.0, SLOPE)
        d_weight, d_bias = (d * normal).sum(dim=(0, 2, 3)), d.sum(dim=(0, 2, 3))
        places = rows * x[0, 0].numel()
        d = d - _by_channel(d_bias / places) - normal * _by_channel(d_weight / places)
        d = d * _by_channel(self._norm.weight * self._scale)
        return (d if plus is None else d + plus).to(x.dtype), d_weight, d_bias

    def _normalised(self, x: Tensor) -> tuple[Tensor, Tensor]:
        normal = (x.float() - _by_channel(self._mean)) * _by_channel(self._scale)
        return normal, normal * _by_channel(self._norm.weight) + _by_channel(self._norm.bias)


class ByHand:
    """The network up to its pooled features; a pass forward is followed by at most one backward."""

    def __init__(self, network: WideResNet) -> None:
        self._normalise = network.normalise
        modules = [*network.stem.modules(), *network.stages.modules()]
        self._convolutions = [module for module in modules if isinstance(module, nn.Conv2d)]
        self._norms = [module for module in modules if isinstance(module, nn.BatchNorm2d)]
        self._blocks = [module for module in modules if isinstance(module, Block)]
        self._stem, *self._others = self._convolutions
        self._counts = [norm.num_batches_tracked for norm in self._norms if norm.num_batches_tracked is not None]
        self._parameters = [value for owner in (*self._convolutions, *self._norms) for value in owner.parameters()]
        self._on_gpu = self._stem.weight.is_cuda
        dtype = torch.bfloat16 if self._on_gpu else torch.float32
        self._quick = {layer: torch.empty_like(layer.weight, dtype=dtype) for layer in self._convolutions}
        if self._on_gpu:
            room = -self._stem.in_channels % GPU_CHANNELS
            self._quick[self._stem] = functional.pad(self._quick[self._stem].zero_(), (0, 0, 0, 0, 0, room)).contiguous(
                memory_format=torch.channels_last
            )
        self._kernels: Any = _kernels() if self._on_gpu else None
        # For each norm what it adds up on its way forward and backward.
        self._sums = torch.zeros(4 * sum(norm.num_features for norm in self._norms), device=self._stem.weight.device)
        places = self._sums.split([4 * norm.num_features for norm in self._norms])
        self._passes: dict[nn.Module, Passes] = {
            norm: self._kernels.TritonPasses(norm, SLOPE, sums.view(2, 2, -1)) if self._kernels else PlainPasses(norm)
            for norm, sums in zip(self._norms, places, strict=True)
        }

    def __call__(self, images: Tensor, learn: int) -> Tensor:
        """Features of all images; the first `learn` of them have a gradient."""
        features: Tensor = _Pass.apply(images, learn, self, *self._parameters)  # type: ignore[no-untyped-call]
        return features

    def forward(self, images: Tensor, learn: int) -> tuple[Tensor, Callable[[Tensor], list[Tensor]]]:
        """The features, and what makes the gradient of the learning ones' into those of the parameters."""
        self._sums.zero_()
        torch._foreach_add_(self._counts, 1)
        self._quick[self._stem][:, : self._stem.in_channels].copy_(self._stem.weight)
        torch._foreach_copy_([self._quick[layer] for layer in self._others], [layer.weight for layer in self._others])
        gradients: dict[nn.Module, tuple[Tensor, ...]] = {}

        def convolve(x: Tensor, layer: nn.Module) -> tuple[Tensor, Back]:
            assert isinstance(layer, nn.Conv2d)
            weight, stride, padding = self._quick[layer], layer.stride, layer.padding

            def back(d: Tensor) -> Tensor:
                quick = self._kernels and self._kernels.takes(d, x, weight)
                wanted = layer is not self._stem, not quick, False  # nothing learns before the stem
                d_x, d_weight, _ = torch.ops.aten.convolution_backward(
                    d, x[:learn], weight, None, stride, padding, (1, 1), False, (0, 0), 1, wanted
                )
                if quick:
                    d_weight = self._kernels.weight_gradient(d, x, weight)
                gradients[layer] = (d_weight[:, : layer.in_channels].float(),)
                return d_x  # type: ignore[no-any-return]

            return functional.conv2d(x, weight, None, stride, padding), back

        def activate(x: Tensor, plus: Tensor | None, layer: nn.Module) -> tuple[Tensor, Tensor, Any]:
            passes = self._passes[layer]
            total, activated = passes.forward(x, plus)

            def back(d: Tensor, d_total: Tensor | None = None) -> Tensor:
                d_x, *of_layer = passes.backward(d, total[:learn], d_total, rows=len(x))
                gradients[layer] = tuple(of_layer)
                return d_x

            return total, activated, back

        x, back_to_images = convolve(self._enter(images), self._stem)
        _, activated, back_to_stem = activate(x, None, self._norms[0])
        # The sum that a block gives is taken up by the norm of the next one, or by the last norm.
        after = [*(block.residual[0][0] for block in self._blocks[1:]), self._norms[-1]]  # type: ignore[index]
        x, tape = activated, []
        for block, norm in zip(self._blocks, after, strict=True):
            _, first, middle, _, second = block.residual
            changes = isinstance(block.shortcut, nn.Conv2d)
            shortcut, back_by_shortcut = convolve(x, block.shortcut) if changes else (x, _straight)
            y, back_by_first = convolve(activated, first)
            _, y, back_by_middle = activate(y, None, middle)
            y, back_by_second = convolve(y, second)
            x, activated, back_to_sum = activate(y, shortcut, norm)
            tape.append((back_by_shortcut, back_by_first, back_by_middle, back_by_second, back_to_sum))

        def backward(d: Tensor) -> list[Tensor]:
            places = activated[0, 0].numel()
            d_activated = (d / places).to(activated.dtype)[:, :, None, None].expand_as(activated[:learn])
            d_activated = d_activated.contiguous(memory_format=torch.channels_last)
            d_x: Tensor | None = None
            for by_shortcut, by_first, by_middle, by_second, to_sum in reversed(tape):
                d_sum = to_sum(d_activated, d_x)
                d_activated = by_first(by_middle(by_second(d_sum)))
                d_x = by_shortcut(d_sum)
            assert d_x is not None
            back_to_images(back_to_stem(d_activated + d_x))  # both are of the stem: no norm is before the first block
            of_norms = [value for norm in self._norms for value in gradients.pop(norm)]
            apart = torch.cat(of_norms).split([len(value) for value in of_norms])  # the sums are needed again
            return [*(value for layer in self._convolutions for value in gradients.pop(layer)), *apart]

        return activated.float().mean(dim=(2, 3)), backward

    def _enter(self, images: Tensor) -> Tensor:
        weight = self._quick[self._stem]
        x: Tensor = self._normalise(images).to(weight.dtype)
        x = functional.pad(x, (0, 0, 0, 0, 0, weight.shape[1] - x.shape[1]))
        return x.contiguous(memory_format=torch.channels_last)


def by_hand(model: nn.Module) -> Callable[[Tensor, int], Tensor] | None:
    """What is quicker than the model itself, if that is a wide residual network on a GPU with one layer behind it.

    It takes a batch and how many of its first rows are learned from. The kernels take channels in powers of two.
    """
    if not isinstance(model, nn.Sequential) or len(model) != 2 or not isinstance(model[0], WideResNet):
        return None
    network, last = model[0], model[1]
    if isinstance(network.output, nn.Linear) or network.dim.bit_count() > 1 or not last.weight.is_cuda:
        return None
    features = ByHand(network)
    return lambda batch, learn: last(features(batch, learn))


class _Pass(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, learn: int, network: ByHand, *parameters: Tensor) -> Tensor:
        features, ctx.step_back = network.forward(images, learn)
        ctx.learn = learn
        return features

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, None, *ctx.step_back(d[: ctx.learn])


def _straight(d: Tensor) -> Tensor:
    return d


def _kernels() -> Any:
    if importlib.util.find_spec("triton") is None:
        return None
    from vesica.models import wide_resnet_kernels

    return wide_resnet_kernels


def _by_channel(values: Tensor) -> Tensor:
    return values[:, None, None]
