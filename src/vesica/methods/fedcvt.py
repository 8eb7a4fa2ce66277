"""FedCVT. Kang, Liu and Liang, "FedCVT: Semi-supervised Vertical Federated Learning with Cross-view Training", 2022."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from vesica.errors import InputError, ProtocolError
from vesica.methods.label_claims import protected
from vesica.methods.label_defences import LabelDefences
from vesica.metrics import standing
from vesica.nn.models import Head
from vesica.protocol import Guest, Host
from vesica.protocol.byte_limit import Then
from vesica.protocol.end_to_end import Augment, EndToEnd, View
from vesica.protocol.link import Link
from vesica.protocol.message import Message
from vesica.protocol.party import Party
from vesica.training.cross_view import UNKNOWN, Batch, Classifiers, CrossView
from vesica.training.resume import Stateful
from vesica.training.supervised import Stopping


@dataclass(frozen=True)
class FedCVT(LabelDefences):
    """Split-nn that also learns from unaligned rows: what the others would say of them is estimated.

    Half of a representation is the party's own, half is shared with the others. An unaligned row without a label gets
    one where all classifiers, of each party's part and of all together, agree on it and are sure.
    """

    stops_at_bytes: ClassVar[bool] = True

    epochs: int = 100
    patience: int = 20
    batch_size: int = 32
    unaligned_batch_size: int = 64  # of every party, beside each batch of aligned rows
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    joint_threshold: float = 0.8  # how sure the classifier of all parts must be of a pseudo-label
    local_threshold: float = 0.7  # and those of one part
    temperature: float = 0.7  # of the attention: a low one is sharper
    lambda_sim: float = 0.1
    lambda_diff: float = 0.01
    lambda_est: float = 0.1
    hidden: tuple[int, ...] = ()  # of the classifiers
    augment: Augment = "none"  # what the encoders see in training: the rows, or weak views of them

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.marvell:
            raise InputError(
                "marvell needs the class of every row and the unaligned ones of fedcvt have none: take iso_gradients"
            )
        if not 1e-3 <= self.temperature <= 1e3:
            raise InputError(f"temperature of fedcvt is {self.temperature}: give a number from 0.001 to 1000")
        for name, sure in (("joint", self.joint_threshold), ("local", self.local_threshold)):
            if not 0 <= sure <= 1:
                raise InputError(f"{name}_threshold of fedcvt is {sure}: give a probability, from 0 to 1")

    def guest(self, me: Guest) -> None:
        take_encoder(me, receive_width(me))
        me.host.send("representations", me.represent(me.rows.labelled))
        self.training().follow(me, step="training")

    def host(self, me: Host) -> None:
        with self.hiding(me):
            counts = self.lead(me)
        me.conversation.statements += [claim(counts, noisy=self.hides_labels), *protected(self.protection())]

    def lead(self, me: Host) -> Mapping[str, int]:
        """Until the best epoch stands; what was counted in it."""
        width = common_width(me)
        me.tell("width", scalars={"width": width})
        me.dims = dict.fromkeys(me.dims, width)
        take_encoder(me, width)
        training, cross = self.training(), self.cross_view(me)
        view, me.head = training.view(me), cross.classifiers.joint
        trained: dict[str, nn.Module] = {"classifiers": cross.classifiers}
        if me.encoder is not None:
            trained["encoder"] = me.encoder
        optimiser, stopping = training.optimiser_of(*trained.values()), Stopping(trained, patience=self.patience)
        memory = Memory(gather(me))
        parts: dict[str, Stateful] = {**trained, "optimiser": optimiser, "stopping": stopping, "memory": memory}
        limit = training.limit(me, must_score=True)

        def learn(epoch: int) -> Then:
            """From an epoch, or what fits of it; returns what follows."""
            reference, memory.counts = memory.reference[:, ~held_out(me)], Counter()
            for number, batch in enumerate(training.batches_of(me, epoch)):
                own = training.rows_of(me, batch)
                given, received = receive_batch(me, batch, own=own, view=view, reference=reference)
                optimiser.zero_grad()
                cross.loss(given, memory.counts).backward()
                optimiser.step()
                if limit is not None:
                    shown = zip(me.guests, received, strict=True)
                    limit.beside = {name: len(part) - len(batch) for name, part in shown}
                then = None if limit is None else limit.after(number, last_epoch=epoch + 1 == self.epochs)
                for link, part in zip(me.guests.values(), received, strict=True):
                    training.give(link, part.grad, labels=given.labels, scalars={} if then is None else {"then": then})
                if then not in (None, "train"):
                    return then
            return "score" if limit is None else "train"

        for epoch in me.resumable("training").steps(self.epochs, parts):
            then = learn(epoch)
            if then == "train":
                continue
            memory.reference = gather(me)
            better = stopping.judge(look(me, cross, memory))
            memory.kept = memory.counts if better else memory.kept
            stop = stopping.stop or then == "final"
            me.tell("verdict", scalars={"better": better, "stop": stop})
            if stop:
                break
        stopping.restore_best()
        return memory.kept

    def cross_view(self, me: Host) -> CrossView:
        joint = Head(me.dims, me.task.outputs, hidden=self.hidden)
        alone = [Head({name: dim}, me.task.outputs, hidden=self.hidden) for name, dim in me.dims.items()]
        return CrossView(
            Classifiers(joint, alone).to(me.device),
            joint_threshold=self.joint_threshold,
            local_threshold=self.local_threshold,
            temperature=self.temperature,
            lambda_sim=self.lambda_sim,
            lambda_diff=self.lambda_diff,
            lambda_est=self.lambda_est,
        )

    def training(self) -> BesideUnaligned:
        return BesideUnaligned(
            epochs=self.epochs,
            patience=self.patience,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            augment=self.augment,
            protect=self.protection(),
            unaligned_batch_size=self.unaligned_batch_size,
        )


@dataclass(frozen=True)
class BesideUnaligned(EndToEnd):
    """End-to-end training where every party adds rows of its own, which it draws by itself, to each batch."""

    unaligned_batch_size: int = 0

    @property
    def most_beside(self) -> int:
        return self.unaligned_batch_size

    def rows_of(self, me: Party, batch: Tensor) -> Tensor:
        order = torch.randperm(len(me.rows.unaligned)).to(me.device)
        return torch.cat([me.rows.train[batch], me.rows.unaligned[order[: self.unaligned_batch_size]]])

    def scored(self, me: Party) -> Tensor:
        return me.rows.labelled


class Memory:
    """What the host keeps of an epoch: everyone's parts of the labelled rows, (parties, rows, dim), and its counts.

    And the counts of the epoch that is the best so far.
    """

    def __init__(self, reference: Tensor) -> None:
        self.reference = reference
        self.counts: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()

    def state_dict(self) -> dict[str, Any]:
        return {"reference": self.reference, "counts": self.counts, "kept": self.kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.reference = state["reference"].to(self.reference.device)
        self.counts, self.kept = Counter(state["counts"]), Counter(state["kept"])


def common_width(me: Host) -> int:
    """How long every party's representations are: as the narrowest party's, made even."""
    if me.task.kind != "classification":
        raise InputError("fedcvt gives rows pseudo-labels and cannot learn a regression: take split-nn")
    if len(me.dims) < 2:
        raise InputError("fedcvt estimates one party's part from another's: give it two parties with features or more")
    width = min(me.dims.values()) // 2 * 2
    if not width:
        narrow = min(me.dims, key=lambda name: me.dims[name])
        raise InputError(f"fedcvt halves representations and the dim of '{narrow}' is 1: give it 2 or more")
    return width


def receive_width(me: Guest) -> int:
    assert me.encoder_spec is not None
    dim = me.encoder_spec.dim

    def check(message: Message) -> None:
        width = message.scalar("width", int)
        if not 2 <= width <= dim or width % 2:
            raise ProtocolError(
                f"'width' from '{me.host.peer}' is {width}, expected an even number from 2 to the {dim} agreed on: "
                "the two sides do not run the same method or version"
            )

    return me.host.receive("width", check=check).scalar("width", int)


def take_encoder(me: Party, width: int) -> None:
    """One trunk, and on it a linear layer for what is the party's own and one for what it shares."""
    if me.encoder_spec is not None:
        me.use(replace(me.encoder_spec, dim=width, output="halves"))


def receive_batch(me: Host, batch: Tensor, *, own: Tensor, view: View, reference: Tensor) -> tuple[Batch, list[Tensor]]:
    """A batch, with the host's part of its `own` rows where it has features; and the guests' parts of it, as leaves."""
    rows = me.about(me.rows.train[batch], and_others=True)
    parts, known = [], []
    if me.encoder is not None:
        drawn = own[len(rows) :]
        parts = [me.encoder(view(own))]
        known = [torch.where(torch.isin(drawn, me.known), me.labels[drawn], UNKNOWN)]
    received = [receive_part(link, len(rows), dim=me.dims[name]) for name, link in me.guests.items()]
    known += [me.labels.new_full((len(part) - len(rows),), UNKNOWN) for part in received]
    parts += received
    aligned, unaligned = [part[: len(rows)] for part in parts], [part[len(rows) :] for part in parts]
    return Batch(aligned, unaligned, me.labels[rows], known, reference, batch.to(me.device)), received


def receive_part(link: Link, aligned: int, *, dim: int) -> Tensor:
    """A guest's part of so many aligned rows and, behind them, of some of its own."""

    def check(message: Message) -> None:
        rows = len(message.tensor)
        if rows < aligned:
            raise ProtocolError(f"'representations' from '{link.peer}' has {rows} rows, expected {aligned} or more")

    return link.receive("representations", shape=(None, dim), check=check).tensor.requires_grad_()


def gather(me: Host) -> Tensor:
    """Every party's representations of the labelled rows, the host's own first: a round up."""
    rows = me.rows.labelled
    own = [] if me.encoder is None else [me.represent(rows)]
    return torch.stack([*own, *me.gather_representations(rows)])


def look(me: Host, cross: CrossView, memory: Memory) -> tuple[float, float]:
    """How good the joint classifier is on the validation rows, and how right pseudo-labels would be there."""
    apart = held_out(me)
    labels, parts = me.labels[me.rows.labelled][apart], memory.reference[:, apart]
    memory.counts.update(cross.measure(parts, labels, memory.reference[:, ~apart]))
    with torch.no_grad():
        value = standing(me.task, cross.classifiers.joint(list(parts)), labels)
    me.conversation.note(value[0])
    return value


def held_out(me: Host) -> Tensor:
    """Which of the labelled rows validate."""
    return torch.isin(me.rows.labelled, me.rows.validation)


def claim(counts: Mapping[str, int], *, noisy: bool) -> str:
    """What became of the unaligned rows in the epoch that is kept; right or not by labels that may be noisy."""
    got, offered, right, vouched = (counts.get(name, 0) for name in ("accepted", "unlabelled", "right", "vouched"))
    share = (
        f"{right / vouched:.1%} of them right{' by the noisy labels' if noisy else ''}"
        if vouched
        else "so that nothing is known of how right they are"
    )
    return (
        f"In the epoch that is kept {got} of {offered} unaligned rows drawn without a label got a pseudo-label, and "
        f"{counts.get('known', 0)} kept the label that the host had for them. Of validation rows judged as if one "
        f"party alone had them, {vouched} of {counts.get('judged', 0)} got one, {share}."
    )
