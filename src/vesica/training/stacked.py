"""Several networks alike, trained as one: their weights stacked along a new first axis."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from vesica.nn.models.dropout import Dropout
from vesica.training.draws import Draws


class Stack:
    """Networks of one shape as one, which takes (networks, rows, ...) and gives (networks, rows, outputs).

    The networks' own weights become views of the stack, so each can be looked at, saved and restored as ever.
    What they drop out is drawn from each one's own random numbers, as it would draw it alone.
    """

    def __init__(self, networks: Sequence[nn.Module], draws: Sequence[Draws], row: Tensor) -> None:
        self._networks = networks
        self._draws = draws
        self._template = copy.deepcopy(networks[0])
        self._dropouts = dropouts(self._template, row)
        self._template.to("meta")
        self.weights = stack_named([dict(network.named_parameters()) for network in networks])
        self._buffers = stack_named([dict(network.named_buffers()) for network in networks])
        for weight in self.weights.values():
            weight.requires_grad_()

    def __call__(self, inputs: Tensor) -> Tensor:
        state = self._buffers | self._masks(inputs.shape[1])
        outputs: Tensor = torch.vmap(self._one)(self.weights, state, inputs)
        return outputs

    def _one(self, weights: dict[str, Tensor], state: dict[str, Tensor], inputs: Tensor) -> Tensor:
        outputs: Tensor = functional_call(self._template, (weights, state), (inputs,))
        return outputs

    def _masks(self, rows: int) -> dict[str, Tensor]:
        """What each network's dropout layers multiply with, by the name of the layer's buffer."""
        if not self._dropouts:
            return {}
        drawn: list[list[Tensor]] = []
        device = next(iter(self.weights.values())).device
        for draws in self._draws:
            with draws:
                drawn.append([layer.draw((rows, *shape), device=device) for layer, shape in self._dropouts.values()])
        masks = map(torch.stack, zip(*drawn, strict=True))
        return {f"{name}.mask": mask for name, mask in zip(self._dropouts, masks, strict=True)}

    def take_apart(self) -> None:
        """Give every network weights of its own again."""
        for network in self._networks:
            for value in (*network.parameters(), *network.buffers()):
                value.data = value.data.clone()


def stackable(network: nn.Module) -> bool:
    """Not the deep networks of images, which have batch norm: one of them keeps a device busy by itself."""
    return not any(isinstance(module, nn.BatchNorm2d) for module in network.modules())


def shape_of(network: nn.Module) -> Hashable:
    """What networks that can be stacked have in common."""
    values = (*network.named_parameters(), *network.named_buffers())
    return repr(network), tuple((name, value.shape, value.dtype, value.device) for name, value in values)


def stacked(values: Sequence[Tensor]) -> Tensor:
    """The values along a new first axis; each becomes a view of its place there."""
    whole = torch.stack([value.detach() for value in values]).contiguous()
    for value, place in zip(values, whole, strict=True):
        value.data = place
    return whole


def stack_named(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: stacked([state[name] for state in states]) for name in states[0]}


def join(joint: torch.optim.Adam, optimisers: Sequence[torch.optim.Adam]) -> None:
    """Let an optimiser of stacked weights go on from those of the single networks, all of which did as many steps.

    Adam treats every weight by itself, so it does what each would do alone; their states become views of its own.
    """
    for weight, *own in zip(*map(_weights, (joint, *optimisers)), strict=True):
        states = [_begun(optimiser.state[w], w) for optimiser, w in zip(optimisers, own, strict=True)]
        step = states[0]["step"].clone()
        for state in states:
            state["step"].data = step
        averages = [{name: value for name, value in state.items() if name != "step"} for state in states]
        joint.state[weight] = {"step": step, **stack_named(averages)}


def _weights(optimiser: torch.optim.Adam) -> list[Tensor]:
    return [weight for group in optimiser.param_groups for weight in group["params"]]


def _begun(state: dict[str, Tensor], weight: Tensor) -> dict[str, Tensor]:
    """The state of Adam for a weight, as it begins where there is none."""
    if not state:
        state["step"] = torch.zeros((), dtype=torch.float32, device=weight.device)
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
    return state


def dropouts(network: nn.Module, row: Tensor) -> dict[str, tuple[Dropout, torch.Size]]:
    """The dropout layers in the order in which they are called, and the shape that each takes of a row (1, ...)."""
    found: dict[str, tuple[Dropout, torch.Size]] = {}
    hooks = []
    for name, module in network.named_modules():
        if isinstance(module, Dropout):

            def note(layer: Dropout, inputs: tuple[Tensor], name: str = name) -> None:
                found[name] = layer, inputs[0].shape[1:]

            hooks.append(module.register_forward_pre_hook(note))
    with torch.no_grad():
        network.eval()(row)  # draws nothing
    network.train()
    for hook in hooks:
        hook.remove()
    return found
