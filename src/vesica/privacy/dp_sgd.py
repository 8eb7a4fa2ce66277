"""DP-SGD: gradients clipped row by row, summed and noised, on Poisson samples. Abadi et al., CCS 2016."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from functools import reduce

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from vesica.errors import InputError
from vesica.privacy.accounting import Mechanism
from vesica.privacy.ghost import Inputs, Owners, look, squared_norms

Entropy = Callable[[int], bytes]
RowLoss = Callable[[Tensor, Tensor], Tensor]  # outputs and targets to (rows,)
Sums = dict[Tensor, Tensor]  # by parameter
_CHUNK = 64  # rows whose gradients are in memory at once
_GRAINS = 2**32
_SPARSE = 2**16  # of the 2^40 radii of a normal draw: these many are far apart, and filled in
_LONGEST = math.sqrt(2 * 169 * math.log(2))  # that `standard_normals` gives
_MOST_PAIRS = 1e8  # of weights, that a model has
_CUT_OFF = 0.01  # at most so much of delta may lie beyond the longest


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
    lets a row depend on another, and every layer is given the rows in their order: batch norm is refused, of other ways
    the caller must take care. The noise comes from
    the operating system. It is computed in floating point, whose gaps can betray what it was added to (Mironov, CCS
    2012): against whoever reads the last bits of a gradient or a weight nothing is claimed, nor for the error that a
    gradient which is not finite raises.
    """
    if not (0 < clip < math.inf and 0 <= noise < math.inf and 0 < expected_rows < math.inf):
        raise InputError(
            f"DP-SGD needs a positive clip and number of expected rows, and no negative noise, and got clip {clip}, "
            f"expected_rows {expected_rows}, noise {noise}: change them"
        )
    owners = _owners(model)
    total, sums = _zeros(owners)
    if noise:
        total.add_(standard_normals(len(total), entropy=entropy).to(total), alpha=noise * clip)
    _add_clipped(model, inputs, targets, loss=loss, clip=clip, owners=owners, sums=sums)
    total.div_(expected_rows)
    for parameter, gradient in sums.items():
        parameter.grad = gradient


def clipped_sum(model: nn.Module, inputs: Inputs, targets: Tensor, *, loss: RowLoss, clip: float) -> Sums:
    """The sum over rows of the gradients, each clipped to norm `clip` over all parameters to train together."""
    owners = _owners(model)
    _, sums = _zeros(owners)
    _add_clipped(model, inputs, targets, loss=loss, clip=clip, owners=owners, sums=sums)
    return sums


def poisson_sample(rows: int, sampling: float, *, entropy: Entropy = os.urandom) -> Tensor:
    """Which of so many rows are in a batch: each with this probability, rounded down to 2^-32, and independently."""
    if not 0 <= sampling <= 1:
        raise InputError(f"the sampling probability is {sampling}: give one from 0 to 1")
    draws = np.frombuffer(entropy(4 * rows), dtype=np.uint32)
    return torch.from_numpy(np.flatnonzero(draws < math.floor(sampling * _GRAINS)))


def standard_normals(count: int, *, entropy: Entropy = os.urandom) -> Tensor:
    """Box and Muller in float32: of 64 random bits a pair, 40 are for its radius and 24 for its angle.

    That would end at 7.5, and a record could be known by noise that is out of reach without it. So the few pairs that
    go far have 128 bits more for their radius (up to 15.3).
    """
    words = np.frombuffer(entropy(8 * -(-count // 2)), dtype=np.uint64)
    places = words >> np.uint64(24)
    uniforms = (places + 0.5) * 2.0**-40
    far = np.flatnonzero(places < _SPARSE)
    if len(far):
        finer = np.frombuffer(entropy(16 * len(far)), dtype=np.uint64).reshape(-1, 2).astype(np.float64)
        uniforms[far] = (places[far] + finer[:, 0] * 2.0**-64 + (finer[:, 1] + 0.5) * 2.0**-128) * 2.0**-40
    radius = np.sqrt(-2 * np.log(uniforms)).astype(np.float32)
    angle = ((words & np.uint64(2**24 - 1)) * (2 * math.pi / 2**24)).astype(np.float32)
    return torch.from_numpy(np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count])


def refuse_short_tails(mechanisms: Iterable[Mechanism], delta: float) -> None:
    """Refuse noise so small that a sum without its record could not reach where it is with it, by a chance that counts.

    Where both can be, the ratio of their chances is that of Gaussians. They lie 1 / noise standard deviations apart, in
    one pair of weights or in many, so that what one alone reaches has radii in the outermost part of that width. Every
    step counts, sampled or not.
    """

    def alone(each: Mechanism) -> float:
        apart = 1 / each.noise
        widths = math.sqrt(_MOST_PAIRS) * apart  # of all pairs, at most
        return each.steps * widths * _LONGEST * math.exp(-(max(0.0, _LONGEST - apart) ** 2) / 2)

    happening = [each for each in mechanisms if each.sampling]
    if math.fsum(map(alone, happening)) > _CUT_OFF * delta:
        least = min(each.noise for each in happening)
        raise InputError(
            f"DP-SGD with noise of {least:.3g} times the clip needs longer tails at delta {delta:g}: "
            "give a smaller epsilon"
        )


def per_sample_gradients(model: nn.Module, inputs: Inputs, targets: Tensor, *, loss: RowLoss) -> dict[str, Tensor]:
    """The gradient of every row, (rows, *shape) for each trainable parameter: for any model, a row at a time."""
    parameters = {name: each.detach() for name, each in model.named_parameters() if each.requires_grad}

    def of_row(parameters: dict[str, Tensor], inputs: Inputs, target: Tensor) -> Tensor:
        outputs = functional_call(model, parameters, (_pick(inputs, None),))
        return _one_a_row(loss(outputs, target[None]), 1).sum()

    gradients: dict[str, Tensor] = vmap(grad(of_row), (None, 0, 0), randomness="different")(parameters, inputs, targets)
    return gradients


def _owners(model: nn.Module) -> dict[nn.Module, dict[str, nn.Parameter]]:
    """The layers with something to train, each with its own parameters, in one walk over the modules."""
    owners: dict[nn.Module, dict[str, nn.Parameter]] = {}
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            name = next(name for name, each in model.named_modules() if each is layer)
            raise InputError(f"layer '{name}' is a {type(layer).__name__} and mixes rows: leave it out for DP-SGD")
        own = {name: each for name, each in layer._parameters.items() if each is not None}
        if any(each.requires_grad for each in own.values()):
            owners[layer] = own
    if not owners:
        raise InputError("the model has no parameter to train: DP-SGD needs one")
    return owners


def _zeros(owners: Owners) -> tuple[Tensor, Sums]:
    """A zero for every number to train: in one piece, for few and large operations, and parameter by parameter."""
    owned = [each for own in owners.values() for each in own.values() if each.requires_grad]
    parameters = list(dict.fromkeys(owned))  # a shared one once
    sizes = [each.numel() for each in parameters]
    total = parameters[0].new_zeros(sum(sizes))
    parts = zip(parameters, total.split_with_sizes(sizes), strict=True)
    return total, {parameter: part.view_as(parameter) for parameter, part in parts}


def _add_clipped(
    model: nn.Module, inputs: Inputs, targets: Tensor, *, loss: RowLoss, clip: float, owners: Owners, sums: Sums
) -> None:
    if not len(targets):
        return
    losses = lambda outputs: _one_a_row(loss(outputs, targets), len(targets))  # noqa: E731
    seen = look(model, inputs, losses, owners=owners)
    if seen is None:
        return _add_by_chunks(model, inputs, targets, loss=loss, clip=clip, sums=sums)
    with torch.inference_mode():
        factors = _factors([each.squares() for each in seen], clip)
        for each in seen:
            each.add(factors, sums)


def _add_by_chunks(
    model: nn.Module, inputs: Inputs, targets: Tensor, *, loss: RowLoss, clip: float, sums: Sums
) -> None:
    for start in range(0, len(targets), _CHUNK):
        some = slice(start, start + _CHUNK)
        of_rows = per_sample_gradients(model, _pick(inputs, some), targets[some], loss=loss).values()
        factors = _factors([squared_norms(each) for each in of_rows], clip)
        for total, each in zip(sums.values(), of_rows, strict=True):
            total += torch.tensordot(factors, each, dims=1)


def _factors(parts: Sequence[Tensor], clip: float) -> Tensor:
    """What brings each row's gradient to norm `clip` at most, from its squared norms part by part."""
    squares = reduce(torch.add, parts)
    if not math.isfinite(squares.sum()):
        raise InputError("the gradient of a row is not finite: lower the learning rate or the noise")
    return clip / squares.sqrt().clamp(min=clip)


def _pick(inputs: Inputs, which: slice | None) -> Inputs:
    return inputs[which] if isinstance(inputs, Tensor) else [part[which] for part in inputs]


def _one_a_row(losses: Tensor, rows: int) -> Tensor:
    if losses.shape != (rows,):
        raise InputError(f"DP-SGD needs a loss of shape ({rows},), one value a row, and got {tuple(losses.shape)}")
    return losses
