"""Norms and sums of the gradients of rows from what the layers saw, with no row's own gradient written."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional

Inputs = Tensor | Sequence[Tensor]  # what the model takes, rows first
Owners = Mapping[nn.Module, Mapping[str, nn.Parameter]]  # layers with something to train, and their own parameters
Losses = Callable[[Tensor], Tensor]  # outputs to (rows,)
# An activation, and from the gradients of its outputs, and these outputs, to the gradients of its inputs.
_ACTIVATIONS: dict[type[nn.Module], tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    nn.ReLU: (torch.relu, lambda gradients, outputs: torch.ops.aten.threshold_backward.default(gradients, outputs, 0)),
    nn.Tanh: (torch.tanh, torch.ops.aten.tanh_backward.default),
}


class Seen(NamedTuple):
    """What a layer was given and the gradient of its outputs, position by position: its rows' norms follow from them,
    and the sum of their gradients is one product.
    """

    weight: Tensor
    bias: Tensor | None
    inputs: Tensor  # (rows, width) or (rows, positions, width); the codes of an embedding: (rows, positions)
    gradients: Tensor  # (rows, outputs) or (rows, positions, outputs)

    @property
    def is_embedding(self) -> bool:
        return self.inputs.dim() < self.gradients.dim()

    def squares(self) -> Tensor:
        """The squared norm of each row's gradient, (rows,)."""
        if self.is_embedding:
            same = (self.inputs[:, :, None] == self.inputs[:, None, :]).to(self.gradients)
            return squared_norms((same @ self.gradients) / same.sum(2, keepdim=True).sqrt())
        if self.inputs.dim() == 2:
            of_outputs, of_inputs = squared_norms(self.gradients), squared_norms(self.inputs)
            return of_outputs * of_inputs if self.bias is None else of_outputs.addcmul(of_outputs, of_inputs)
        of_weight = self._squares_of_weight()
        return of_weight if self.bias is None else of_weight + squared_norms(self.gradients.sum(1))

    def _squares_of_weight(self) -> Tensor:
        """From each row's gradient, or from Gram matrices where these are smaller: in float64, as they may cancel."""
        (_, positions, width), outputs = self.inputs.shape, self.gradients.shape[2]
        if positions**2 > width * outputs:
            return squared_norms(self.gradients.mT @ self.inputs)
        inputs, gradients = self.inputs.double(), self.gradients.double()
        products = (inputs @ inputs.mT) * (gradients @ gradients.mT)
        return products.sum((1, 2)).clamp(min=0).to(self.gradients)

    def add(self, factors: Tensor, sums: Mapping[Tensor, Tensor]) -> None:
        """The rows' gradients, each times its factor, to the layer's sums."""
        inputs, gradients = self.inputs, self.gradients
        if gradients.dim() == 3:
            factors = factors.repeat_interleave(gradients.shape[1])
            inputs, gradients = inputs.flatten(0, 1), gradients.flatten(0, 1)
        weight, weighted = sums[self.weight], gradients * factors.unsqueeze(1)
        if self.is_embedding:
            weight.index_add_(0, inputs, weighted)
        else:
            weight.view(len(weight), -1).addmm_(weighted.T, inputs)
        if self.bias is not None:
            sums[self.bias].addmv_(gradients.T, factors)


def look(model: nn.Module, inputs: Inputs, losses: Losses, *, owners: Owners) -> list[Seen] | None:
    """What the layers saw in one pass forward and one back, for no weight's gradient; None if that is not enough."""
    owned = [each for own in owners.values() for each in own.values()]
    if not (
        all(_has_ghost(layer, own) for layer, own in owners.items())
        and all(each.requires_grad for each in owned)
        and len(set(owned)) == len(owned)
    ):
        return None
    if isinstance(model, nn.Sequential) and isinstance(inputs, Tensor) and inputs.dim() == 2 and _is_chain(model):
        return _walk(list(model), inputs, losses)
    return _watch(model, inputs, losses, layers=list(owners))


def _watch(model: nn.Module, inputs: Inputs, losses: Losses, *, layers: Sequence[nn.Module]) -> list[Seen] | None:
    """By autograd; None if a layer is used twice, not as a module, or not row by row."""
    calls: list[tuple[nn.Module, Tensor, GradientEdge]] = []

    def note(layer: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        # The edge and not the output, which an activation may overwrite in place.
        calls.append((layer, arguments[0].detach(), get_gradient_edge(output)))

    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        of_rows = losses(model(inputs))
    finally:
        for hook in hooks:
            hook.remove()
    if (
        len(calls) != len(layers)
        or len({layer for layer, _, _ in calls}) < len(calls)
        or any(len(given) != len(of_rows) for _, given, _ in calls)
    ):
        return None
    gradients = torch.autograd.grad(of_rows.sum(), [edge for _, _, edge in calls], allow_unused=True)
    noted = zip(calls, gradients, strict=True)
    return [_by_position(layer, given, gradient) for (layer, given, _), gradient in noted if gradient is not None]


@torch.no_grad()
def _walk(chain: Sequence[nn.Module], inputs: Tensor, losses: Losses) -> list[Seen]:
    """By hand, for linear layers and activations in a row: autograd would take longer than a small network."""
    values, weights = [inputs], [(layer.weight, layer.bias) if type(layer) is nn.Linear else None for layer in chain]
    for layer, own in zip(chain, weights, strict=True):
        given = values[-1]
        values.append(functional.linear(given, *own) if own else _ACTIVATIONS[type(layer)][0](given))
    with torch.enable_grad():
        of_rows = losses(values[-1].requires_grad_())
    (gradient,) = torch.autograd.grad(of_rows, values[-1], torch.ones_like(of_rows))
    seen: list[Seen] = []
    for place in reversed(range(len(chain))):
        if own := weights[place]:
            if own[0].requires_grad:
                seen.append(Seen(*own, values[place], gradient))
            gradient = gradient.mm(own[0]) if place else gradient
        else:
            gradient = _ACTIVATIONS[type(chain[place])][1](gradient, values[place + 1])
    return seen


def _by_position(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> Seen:
    rows = len(inputs)
    if isinstance(layer, nn.Conv2d):
        return Seen(layer.weight, layer.bias, _patches(layer, inputs), gradients.flatten(2).mT)
    if isinstance(layer, nn.Embedding):
        return Seen(layer.weight, None, inputs.reshape(rows, -1), gradients.reshape(rows, -1, gradients.shape[-1]))
    assert isinstance(layer, nn.Linear)
    if inputs.dim() > 2:
        inputs, gradients = inputs.flatten(1, -2), gradients.flatten(1, -2)
    return Seen(layer.weight, layer.bias, inputs, gradients)


def _patches(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """What the kernel sees at each position, (rows, positions, width)."""
    height, width = cast(tuple[int, int], layer.padding)
    padded = functional.pad(images, (width, width, height, height))
    views = padded.unfold(2, layer.kernel_size[0], layer.stride[0]).unfold(3, layer.kernel_size[1], layer.stride[1])
    return views.permute(0, 2, 3, 1, 4, 5).reshape(len(images), -1, layer.weight[0].numel())


def _is_chain(model: nn.Sequential) -> bool:
    kinds = {type(layer) for layer in model}
    return (
        type(model).forward is nn.Sequential.forward
        and kinds <= {nn.Linear, *_ACTIVATIONS}
        and len(set(model)) == len(model)
    )


def _has_ghost(layer: nn.Module, own: Mapping[str, nn.Parameter]) -> bool:
    """Exact types: a subclass may do anything; and a weight computed from others is none of the layer's own."""
    if not own.keys() <= {"weight", "bias"}:
        return False
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


def squared_norms(rows: Tensor) -> Tensor:
    flat = rows if rows.dim() == 2 else rows.flatten(1)
    squares: Tensor = torch.linalg.vecdot(flat, flat)
    return squares
