"""A model that labels rows for itself while it learns: the labels need no gradient, but the same batch norm."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


@contextmanager
def labelling(model: nn.Module) -> Iterator[nn.Module]:
    """The model as its own labeller: the same weights, its batch norm by the statistics of the pass before.

    By statistics of their own, rows would be labelled by another function than the one that learns, a worse teacher; in
    one pass with the rows that are learned from, they would take part in the backward work for the sake of batch norm's
    means alone. Meanwhile the statistics that a layer keeps are those of its last batch: average them over batches. In
    every step the model comes first: its statistics are what the labeller reads.

    Dropout stays on while rows are labelled, in the encoders that have it (`mlp`, `tabular` and `cnn`): pseudo-labels
    are then drawn with a little noise. Measured, that did no harm; turned off, all stored results would change.
    """
    norms = _norms(model)
    if not norms:
        yield model
        return
    shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    labeller = copy.deepcopy(model, shared).train()
    for norm in _norms(labeller):
        norm.eval()
    kept = [norm.momentum for norm in norms]
    try:
        for norm in norms:
            norm.momentum = 1.0
        yield labeller
    finally:
        for norm, momentum in zip(norms, kept, strict=True):
            norm.momentum = momentum


def _norms(model: nn.Module) -> list[_BatchNorm]:
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]
