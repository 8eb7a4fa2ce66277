"""DP-SGD: gradients clipped row by row, summed and noised, on Poisson samples. Abadi et al., CCS 2016."""

import math
import os
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from vesica.errors import InputError

Entropy = Callable[[int], bytes]
Inputs = Tensor | Sequence[Tensor]  # what the model takes, rows first
RowLoss = Callable[[Tensor, Tensor], Tensor]  # outputs and targets to (rows,)
Sums = dict[nn.Parameter, Tensor]
_CHUNK = 64  # rows whose gradients are in memory at once
_GRAINS = 2**32
# From the gradients of an activation's outputs, and these outputs, to the gradients of its inputs.
_BACK: dict[type[nn.Module], Callable[[Tensor, Tensor], Tensor]] = {
    nn.ReLU: lambda gradients, outputs: torch.ops.aten.threshold_backward(gradients, outputs, 0),
    nn.Tanh: torch.ops.aten.tanh_backward,
}


def private_gradient(
    model: nn.Module,
    inputs: Inputs,
    targets: Tensor,
    *,
    loss: RowLoss,
    clip: float,
    noise: float,
    expected_rows: float,
    entropy: Entropy = os.urandom,
) -> None:
    """Put into `.grad` the sum of the rows' gradients, each clipped to norm `clip`, plus Gaussian noise of standard
    deviation `noise * clip`, over the number of rows expected in a batch; any optimiser follows.

    Price it as a `Mechanism` if the batches are `poisson_sample`s, also empty ones, and neither the model nor the loss
    lets a row depend on another: batch norm is refused, of other ways the caller must take care. The noise comes from
    the operating system. It is computed in floating point, whose gaps can betray what it was added to (Mironov, CCS
    2012): against whoever reads the last bits of a gradient or a weight nothing is claimed, nor for the error that a
    gradient which is not finite raises.
    """
    if not (0 < clip < math.inf and 0 <= noise < math.inf and 0 < expected_rows < math.inf):
        raise InputError(
            f"DP-SGD needs a positive clip and number of expected rows, and no negative noise, and got clip {clip}, "
            f"expected_rows {expected_rows}, noise {noise}: change them"
        )
    sums = clipped_sum(model, inputs, targets, loss=loss, clip=clip)
    total = torch.cat([each.flatten() for each in sums.values()])  # in one piece, for few and large operations
    if noise:
        total.add_(standard_normals(len(total), entropy=entropy).to(total), alpha=noise * clip)
    parts = total.div_(expected_rows).split([each.numel() for each in sums.values()])
    for parameter, part in zip(sums, parts, strict=True):
        parameter.grad = part.view_as(parameter)


def clipped_sum(model: nn.Module, inputs: Inputs, targets: Tensor, *, loss: RowLoss, clip: float) -> Sums:
    """The sum over rows of the gradients, each clipped to norm `clip` over all parameters to train together."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._NormBase):
            raise InputError(f"layer '{name}' is a {type(module).__name__} and mixes rows: leave it out for DP-SGD")
    parameters = _trainable(model)
    sums = _sum_up(model, inputs, targets, loss=loss, clip=clip) if len(targets) else {}
    return {each: sums[each] if each in sums else torch.zeros_like(each) for each in parameters.values()}


def poisson_sample(rows: int, sampling: float, *, entropy: Entropy = os.urandom) -> Tensor:
    """Which of so many rows are in a batch: each with this probability, rounded down to 2^-32, and independently."""
    if not 0 <= sampling <= 1:
        raise InputError(f"the sampling probability is {sampling}: give one from 0 to 1")
    draws = np.frombuffer(entropy(4 * rows), dtype=np.uint32)
    return torch.from_numpy(np.flatnonzero(draws < math.floor(sampling * _GRAINS)))


def standard_normals(count: int, *, entropy: Entropy = os.urandom) -> Tensor:
    """Box and Muller in float32: of 64 random bits a pair, 40 are for its radius (up to 7.5) and 24 for its angle."""
    words = np.frombuffer(entropy(8 * -(-count // 2)), dtype=np.uint64)
    uniforms = ((words >> np.uint64(24)).astype(np.float64) + 0.5) * 2.0**-40
    radius = torch.from_numpy(np.sqrt(-2 * np.log(uniforms)).astype(np.float32))
    angle = torch.from_numpy((words & np.uint64(2**24 - 1)).astype(np.float32)) * (2 * math.pi / 2**24)
    return torch.view_as_real(torch.polar(radius, angle)).flatten()[:count]


def per_sample_gradients(model: nn.Module, inputs: Inputs, targets: Tensor, *, loss: RowLoss) -> dict[str, Tensor]:
    """The gradient of every row, (rows, *shape) for each trainable parameter: for any model, a row at a time."""
    parameters = {name: parameter.detach() for name, parameter in _trainable(model).items()}

    def of_row(parameters: dict[str, Tensor], inputs: Inputs, target: Tensor) -> Tensor:
        outputs = functional_call(model, parameters, (_pick(inputs, None),))
        return _one_a_row(loss(outputs, target[None]), 1).sum()

    gradients: dict[str, Tensor] = vmap(grad(of_row), (None, 0, 0), randomness="different")(parameters, inputs, targets)
    return gradients


def _sum_up(model: nn.Module, inputs: Inputs, targets: Tensor, *, loss: RowLoss, clip: float) -> Sums:
    seen = _look(model, inputs, targets, loss=loss)
    if seen is None:
        return _sum_by_chunks(model, inputs, targets, loss=loss, clip=clip)
    with torch.no_grad():
        factors = _factors([each.squares() for each in seen], clip)
        return {parameter: total for each in seen for parameter, total in each.sums(factors).items()}


def _sum_by_chunks(model: nn.Module, inputs: Inputs, targets: Tensor, *, loss: RowLoss, clip: float) -> Sums:
    sums = {parameter: torch.zeros_like(parameter) for parameter in _trainable(model).values()}
    for start in range(0, len(targets), _CHUNK):
        some = slice(start, start + _CHUNK)
        of_rows = per_sample_gradients(model, _pick(inputs, some), targets[some], loss=loss).values()
        factors = _factors([_squares(each) for each in of_rows], clip)
        for total, each in zip(sums.values(), of_rows, strict=True):
            total += torch.tensordot(factors, each, dims=1)
    return sums


class Seen(NamedTuple):
    """What a layer was given and the gradient of its outputs, position by position: its rows' norms follow from them,
    and the sum of their gradients is one product, so that no row's own gradient need be written.
    """

    layer: nn.Module
    inputs: Tensor  # (rows, width) or (rows, positions, width); the codes of an embedding: (rows, positions)
    gradients: Tensor  # (rows, outputs) or (rows, positions, outputs)

    def squares(self) -> Tensor:
        """The squared norm of each row's gradient, (rows,)."""
        if isinstance(self.layer, nn.Embedding):
            same = (self.inputs[:, :, None] == self.inputs[:, None, :]).to(self.gradients)
            return _squares((same @ self.gradients) / same.sum(2, keepdim=True).sqrt())
        if self.inputs.dim() == 2:
            of_outputs, of_inputs = _squares(self.gradients), _squares(self.inputs)
            return of_outputs * (of_inputs if self.layer.bias is None else of_inputs + 1)
        of_weight = self._squares_of_weight()
        return of_weight if self.layer.bias is None else of_weight + _squares(self.gradients.sum(1))

    def _squares_of_weight(self) -> Tensor:
        """From each row's gradient, or from Gram matrices where these are smaller: in float64, as they may cancel."""
        (_, positions, width), outputs = self.inputs.shape, self.gradients.shape[2]
        if positions**2 > width * outputs:
            return _squares(self.gradients.mT @ self.inputs)
        inputs, gradients = self.inputs.double(), self.gradients.double()
        products = (inputs @ inputs.mT) * (gradients @ gradients.mT)
        return products.sum((1, 2)).clamp(min=0).to(self.gradients)

    def sums(self, factors: Tensor) -> Sums:
        """The rows' gradients, each times its factor, summed."""
        weight: nn.Parameter = self.layer.weight  # type: ignore[assignment]
        inputs, weighted = self.inputs, self.gradients * factors.view(-1, *(1,) * (self.gradients.dim() - 1))
        if weighted.dim() == 3:
            inputs, weighted = inputs.flatten(0, 1), weighted.flatten(0, 1)
        if isinstance(self.layer, nn.Embedding):
            return {weight: torch.zeros_like(weight).index_add_(0, inputs, weighted)}
        sums = {weight: (weighted.mT @ inputs).view_as(weight)}
        return sums if self.layer.bias is None else {**sums, self.layer.bias: weighted.sum(0)}  # type: ignore[dict-item]


def _look(model: nn.Module, inputs: Inputs, targets: Tensor, *, loss: RowLoss) -> list[Seen] | None:
    """What the layers saw, if that is enough."""
    layers = _ghost_layers(model)
    if layers is None:
        return None
    if isinstance(model, nn.Sequential) and isinstance(inputs, Tensor) and inputs.dim() == 2 and _is_chain(model):
        return _walk(list(model), inputs, targets, loss=loss)
    return _watch(model, inputs, targets, loss=loss, layers=layers)


def _watch(
    model: nn.Module, inputs: Inputs, targets: Tensor, *, loss: RowLoss, layers: Sequence[nn.Module]
) -> list[Seen] | None:
    """One pass forward and one back, for no weight's gradient; None if a layer is used twice or not row by row."""
    calls: list[tuple[nn.Module, Tensor, GradientEdge]] = []

    def note(layer: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        # The edge and not the output, which an activation may overwrite in place.
        calls.append((layer, arguments[0].detach(), get_gradient_edge(output)))

    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        losses = _one_a_row(loss(model(inputs), targets), len(targets))
    finally:
        for hook in hooks:
            hook.remove()
    if len({layer for layer, _, _ in calls}) < len(calls) or any(len(given) != len(targets) for _, given, _ in calls):
        return None
    gradients = torch.autograd.grad(losses.sum(), [edge for _, _, edge in calls], allow_unused=True)
    noted = zip(calls, gradients, strict=True)
    return [_by_position(layer, given, gradient) for (layer, given, _), gradient in noted if gradient is not None]


def _walk(chain: Sequence[nn.Module], inputs: Tensor, targets: Tensor, *, loss: RowLoss) -> list[Seen]:
    """The same for linear layers and activations in a row, by hand: autograd would take longer than a small network."""
    with torch.no_grad():
        values = list(accumulate(chain, lambda given, layer: layer(given), initial=inputs))
    outputs = values[-1].requires_grad_()
    (gradient,) = torch.autograd.grad(_one_a_row(loss(outputs, targets), len(targets)).sum(), outputs)
    seen: list[Seen] = []
    with torch.no_grad():
        for layer, given, made in zip(chain[::-1], values[-2::-1], values[:0:-1], strict=True):
            if isinstance(layer, nn.Linear):
                if layer.weight.requires_grad:
                    seen.append(Seen(layer, given, gradient))
                gradient = gradient @ layer.weight if given is not inputs else gradient
            else:
                gradient = _BACK[type(layer)](gradient, made)
    return seen


def _by_position(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> Seen:
    rows = len(inputs)
    if isinstance(layer, nn.Conv2d):
        return Seen(layer, _patches(layer, inputs), gradients.flatten(2).mT)
    if isinstance(layer, nn.Embedding):
        return Seen(layer, inputs.reshape(rows, -1), gradients.reshape(rows, -1, gradients.shape[-1]))
    if inputs.dim() == 2:
        return Seen(layer, inputs, gradients)
    return Seen(layer, inputs.flatten(1, -2), gradients.flatten(1, -2))


def _patches(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """What the kernel sees at each position, (rows, positions, width)."""
    height, width = cast(tuple[int, int], layer.padding)
    padded = functional.pad(images, (width, width, height, height))
    views = padded.unfold(2, layer.kernel_size[0], layer.stride[0]).unfold(3, layer.kernel_size[1], layer.stride[1])
    return views.permute(0, 2, 3, 1, 4, 5).reshape(len(images), -1, layer.weight[0].numel())


def _ghost_layers(model: nn.Module) -> list[nn.Module] | None:
    """The layers with parameters to train, if each is of a kind with cheap norms and none shares a parameter."""
    layers = [each for each in model.modules() if any(own.requires_grad for own in each.parameters(recurse=False))]
    owned = [own for layer in layers for own in layer.parameters(recurse=False)]
    fine = all(map(_has_ghost, layers)) and all(own.requires_grad for own in owned) and len(set(owned)) == len(owned)
    return layers if fine else None


def _is_chain(model: nn.Sequential) -> bool:
    kinds = {type(layer) for layer in model}
    return (
        type(model).forward is nn.Sequential.forward and kinds <= {nn.Linear, *_BACK} and len(set(model)) == len(model)
    )


def _has_ghost(layer: nn.Module) -> bool:
    """Exact types: a subclass may do anything."""
    if type(layer) is nn.Conv2d:
        return (
            layer.groups == 1
            and layer.dilation == (1, 1)
            and layer.padding_mode == "zeros"
            and not isinstance(layer.padding, str)
        )
    if type(layer) is nn.Embedding:
        return layer.padding_idx is None and layer.max_norm is None and not (layer.scale_grad_by_freq or layer.sparse)
    return type(layer) is nn.Linear


def _factors(parts: Sequence[Tensor], clip: float) -> Tensor:
    """What brings each row's gradient to norm `clip` at most, from its squared norms part by part."""
    squares = torch.stack(list(parts)).sum(0)
    if not math.isfinite(squares.sum()):
        raise InputError("the gradient of a row is not finite: lower the learning rate or the noise")
    return clip / squares.sqrt().clamp(min=clip)


def _squares(values: Tensor) -> Tensor:
    """The squared norm of each row."""
    flat = values.flatten(1)
    squares: Tensor = torch.linalg.vecdot(flat, flat)
    return squares


def _pick(inputs: Inputs, which: slice | None) -> Inputs:
    return inputs[which] if isinstance(inputs, Tensor) else [part[which] for part in inputs]


def _one_a_row(losses: Tensor, rows: int) -> Tensor:
    if losses.shape != (rows,):
        raise InputError(f"DP-SGD needs a loss of shape ({rows},), one value a row, and got {tuple(losses.shape)}")
    return losses


def _trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    trainable = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not trainable:
        raise InputError("the model has no parameter to train: DP-SGD needs one")
    return trainable
