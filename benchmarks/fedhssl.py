"""What an epoch of FedHSSL's pre-training costs: two parties with the columns of NUS-WIDE, beside the authors' loop."""

from collections.abc import Sequence
from functools import partial
from time import process_time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity
from torch.utils.data import DataLoader, Dataset, Subset

from benchmarks import Measurement, time_in_turn
from vesica.engines import InProcess
from vesica.experiment.fit import open_talks
from vesica.methods import FedHSSL
from vesica.metrics import Task
from vesica.nn.models import EncoderSpec
from vesica.protocol import Budget, Guest, Host, Link, Rows
from vesica.schema import TableSchema

ROWS, COLUMNS = 56_885, {"host": 634, "guest": 1000}
ALIGNED = ROWS // 5
WIDTH, NARROW, BATCH, CORRUPTED = 512, 128, 512, 0.3
REPEATS = 1
LIMIT = 0.75
PEER = "the authors' loop, rewritten"
TASK = Task("regression", "rmse")


def measure() -> list[Measurement]:
    """In CPU seconds of one thread, both parties together."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        random = torch.Generator().manual_seed(0)
        inputs = [torch.randn(ROWS, columns, generator=random) for columns in COLUMNS.values()]
        steps = {"ours": partial(our_epoch, inputs), PEER: partial(their_epoch, inputs)}
        seconds = time_in_turn(steps, REPEATS, clock=process_time)
    finally:
        torch.set_num_threads(threads)
    name = f"FedHSSL epoch: {ROWS:,} x (634 + 1000)"
    return [Measurement(name, seconds["ours"], PEER, seconds[PEER], REPEATS, limit=LIMIT, unit="CPU s")]


def our_epoch(inputs: Sequence[Tensor]) -> None:
    """Through the engine and real messages."""
    talks = open_talks(list(COLUMNS), budget=Budget(), folder=None, keep_messages=False)
    every = torch.arange(ROWS)
    aligned, unaligned = every[:ALIGNED], every[ALIGNED:]
    rows = Rows(aligned, unaligned, every[:0], labelled=aligned[:200], validation=aligned[:20])
    method = FedHSSL(pretrain_epochs=1, batch_size=BATCH, width=WIDTH, corrupted=CORRUPTED)
    programs = {}
    for (name, columns), table, peer, role in zip(
        COLUMNS.items(), inputs, ("guest", "host"), (Host, Guest), strict=True
    ):
        spec = EncoderSpec("mlp2", WIDTH, TableSchema(columns))
        me = role(name, TASK, rows, table, spec, talks[name], {peer: Link(peer, talks[name])})
        programs[name] = partial(method.pretrain, me)
    carrier = talks["host"].transport
    assert isinstance(carrier, InProcess)
    carrier.run(programs, dict.fromkeys(COLUMNS, 0))


class Pairs(Dataset[tuple[Tensor, Tensor]]):
    """A row, and the row with a third of its columns drawn anew, one at a time."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows.numpy()
        self.low, self.high = self.rows.min(axis=0), self.rows.max(axis=0)
        self.count = int(CORRUPTED * rows.shape[1])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        other = self.rows[row].copy()
        chosen = np.random.permutation(len(other))[: self.count]
        other[chosen] = np.random.uniform(self.low[chosen], self.high[chosen])
        return torch.from_numpy(self.rows[row]), torch.from_numpy(other)


class Tower(nn.Module):
    """The networks as the authors' notes have them: two blocks, a projector of three layers, a predictor of two."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.bottom, self.top = block(columns, WIDTH, bias=True), block(WIDTH, WIDTH, bias=True)
        last = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))
        self.projector = nn.Sequential(block(WIDTH, WIDTH), block(WIDTH, WIDTH), last)
        self.predictor = nn.Sequential(block(WIDTH, NARROW), nn.Linear(NARROW, WIDTH))

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        projections = self.projector(self.top(self.bottom(rows)))
        return projections, self.predictor(projections)


def block(inputs: int, outputs: int, *, bias: bool = False) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, outputs, bias=bias), nn.BatchNorm1d(outputs), nn.ReLU())


def apart(predictions: Tensor, projections: Tensor) -> Tensor:
    return -cosine_similarity(predictions, projections.detach(), dim=-1).mean()


def optimisers(tower: Tower) -> list[torch.optim.SGD]:
    """One for each network, as theirs."""
    return [torch.optim.SGD(part.parameters(), lr=0.05, momentum=0.9, weight_decay=3e-5) for part in tower.children()]


def their_epoch(inputs: Sequence[Tensor]) -> float:
    """Both parties in one loop; no messages. They add up the loss to print it."""
    parties = [(Pairs(rows), Tower(rows.shape[1]), Tower(rows.shape[1])) for rows in inputs]
    total = their_cross_epoch([(pairs, cross) for pairs, cross, _ in parties])
    total += sum(their_local_epoch(*party) for party in parties)
    states = [tower.state_dict() for _, _, tower in parties]
    for name in states[0]:
        if not name.startswith("bottom"):
            mean = torch.stack([state[name].float() for state in states]).mean(dim=0)
            for state in states:
                state[name].copy_(mean)
    return total


def their_cross_epoch(parties: Sequence[tuple[Pairs, Tower]]) -> float:
    total, steppers = 0.0, [optimisers(tower) for _, tower in parties]
    aligned = [Subset(Plain(pairs.rows), range(ALIGNED)) for pairs, _ in parties]
    for batches in zip(*(DataLoader(rows, batch_size=BATCH) for rows in aligned), strict=True):
        outputs = [tower(rows) for (_, tower), rows in zip(parties, batches, strict=True)]
        others = [projections for projections, _ in reversed(outputs)]
        for (_, predictions), projections, stepper in zip(outputs, others, steppers, strict=True):
            total += descend(apart(predictions, projections), stepper)
    return total


class Plain(Dataset[Tensor]):
    """A row at a time, as it is."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Tensor:
        return torch.from_numpy(self.rows[row])


def their_local_epoch(pairs: Pairs, cross: Tower, local: Tower) -> float:
    """The guidance is computed as they do: in training mode, with a graph that nobody uses."""
    total, stepper = 0.0, optimisers(local)
    for one, two in DataLoader(pairs, batch_size=BATCH, shuffle=True):
        (z1, p1), (z2, p2) = local(one), local(two)
        guide1, guide2 = (cross.projector(cross.top(cross.bottom(view))) for view in (one, two))
        loss = 0.5 * (apart(p1, z2) + apart(p2, z1)) + 0.25 * (apart(p1, guide1) + apart(p2, guide2))
        clipped = [*local.parameters(), *cross.parameters()]
        total += descend(loss, stepper, clipped)
    return total


def descend(loss: Tensor, steppers: Sequence[torch.optim.SGD], clipped: Sequence[Tensor] = ()) -> float:
    for stepper in steppers:
        stepper.zero_grad()
    loss.backward()
    if clipped:
        nn.utils.clip_grad_norm_(clipped, 5.0)
    for stepper in steppers:
        stepper.step()
    return loss.item()
