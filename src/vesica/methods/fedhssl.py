"""FedHSSL and its parts. He, Kang, Luo, Fan and Yang, "A Hybrid Self-Supervised Learning Framework for Vertical
Federated Learning", 2022, Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.methods import fedhssl_claims as claims
from vesica.methods.label_claims import noise_on
from vesica.methods.pretrained import Batches, Pretrained, Pretraining, Received, check_ema, give, swap, take
from vesica.nn.models import MeanEncoder
from vesica.privacy import isotropic_noise
from vesica.protocol import Host
from vesica.protocol.party import Party
from vesica.training.supervised import batches
from vesica.training.towers import CrossTower


@dataclass(frozen=True)
class FedCSSL(Pretrained):
    """Step 1 alone: each party learns from what the others project the aligned rows to, labelled or not.

    Projections go both ways between the host and each guest, and no gradients. `local_updates` are made on the same
    received ones (Fig. 7). With exchange="epoch" those of all rows cross at once, and a party waits for the others
    once an epoch. With "late" it goes on with those of the epoch before (appendix D), and waits for nobody who has
    begun the same epoch.
    """

    local_updates: int = 1
    exchange: Literal["batch", "epoch", "late"] = "batch"
    iso_representations: float = 0.0  # lambda_p: noise on what the host gives in pre-training, likewise

    def prepare(self, me: Party) -> Pretraining:
        if me.encoder is None:
            raise InputError(
                f"has labels only, and {self.name} needs the host's view of the aligned rows: "
                "give it features, or take fedlocalssl"
            )
        return Pretraining(self.cross_tower(me, me.encoder))

    def epoch(self, me: Party, held: Pretraining, epoch: int) -> None:
        assert held.cross is not None
        held.cross.begin(self.share_of(epoch))
        if self.exchange == "late":
            self.cross_party_late(me, held.cross, held.received, epoch)
            return
        rows = self.batches_of(me, epoch)
        for number, together in enumerate([rows] if self.exchange == "epoch" else [[some] for some in rows]):
            self.cross_party(me, held.cross, together, host_first=number % 2 == 1)

    def batches_of(self, me: Party, epoch: int) -> list[Tensor]:
        """The aligned rows, in an order that every party draws alike."""
        order = me.public_random(f"aligned rows of epoch {epoch}")
        return [me.rows.aligned[batch] for batch in batches(len(me.rows.aligned), self.batch_size, generator=order)]

    def cross_party_late(self, me: Party, cross: CrossTower, received: Received, epoch: int) -> None:
        """Give this epoch's projections, learn from the last one's on its rows, and take this one's for the next."""
        last = epoch + 1 == self.pretrain_epochs
        rows = [] if last else self.batches_of(me, epoch)
        given = self.shown(me, cross, rows)
        give(me, rows, given)
        before = self.batches_of(me, epoch - 1) if received else []
        for _ in range(self.local_updates):
            for some, theirs in zip(before, received, strict=True):
                cross.learn(cross.project(me.inputs[some]), [other.to(me.device) for other in theirs])
        received[:] = take(me, rows, given)

    @torch.no_grad()
    def shown(self, me: Party, cross: CrossTower, rows: Batches) -> list[Tensor]:
        return [self.noised(me, cross.project(me.inputs[some])) for some in rows]

    def noised(self, me: Party, projections: Tensor) -> Tensor:
        """As they leave."""
        return isotropic_noise(projections.detach(), self.iso_representations if isinstance(me, Host) else 0.0)

    def cross_party(self, me: Party, cross: CrossTower, rows: Batches, *, host_first: bool) -> None:
        """Algorithm 1, lines 4-11. Who gives first takes turns, so that two batches need one change of direction."""
        at_once = self.exchange == "batch"  # then the first update needs no second pass
        with torch.set_grad_enabled(at_once):
            own = [cross.project(me.inputs[some]) for some in rows]
        received = swap(me, rows, [self.noised(me, projections) for projections in own], host_first=host_first)
        for update in range(self.local_updates):
            for some, projections, theirs in zip(rows, own, received, strict=True):
                cross.learn(projections if at_once and not update else cross.project(me.inputs[some]), theirs)

    def say(self, me: Host, held: Pretraining) -> list[str]:
        rows, noise = len(me.rows.aligned), self.iso_representations
        times = max(0, self.pretrain_epochs - (self.exchange == "late"))
        said = [claims.projections(self.width, rows=rows, times=times), *super().say(me, held)]
        return (
            [*said, noise_on("the host's projections and, where they are averaged, its own weights", noise)]
            if noise
            else said
        )


@dataclass(frozen=True)
class FedGSSL(FedCSSL):
    """Steps 1 and 2: each party also learns from two views of all its own rows, guided by what step 1 has taught it.

    Eq. 4 as it is printed: the guidance counts `gamma` times as much as the rest. In the authors' code it counts twice
    that, which is gamma = 1.
    """

    gamma: float = 0.5
    ema: float = 0.999  # of byol and moco
    corrupted: float = 0.3  # of a table's columns, in one of the two views
    finetune_with: Literal["mean", "local", "cross"] = "mean"  # "local": the starred rows of the paper

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ema(self, self.ema)

    @property
    def title(self) -> str:
        """What a table calls its result."""
        return self.name + {"mean": "", "local": "*", "cross": ", cross-party encoder alone"}[self.finetune_with]

    @property
    def rate(self) -> float:
        return super().rate / (1 + self.gamma)

    def prepare(self, me: Party) -> Pretraining:
        if me.encoder_spec is None:
            return super().prepare(me)
        me.use(replace(me.encoder_spec, copies=2))
        cross, local = encoders_of(me)
        held = Pretraining(self.cross_tower(me, cross))
        assert held.cross is not None
        guide = held.cross.tower if self.gamma else None
        held.local = self.local_tower(me, local, ema=self.ema, corrupted=self.corrupted, guide=guide, gamma=self.gamma)
        return held

    def epoch(self, me: Party, held: Pretraining, epoch: int) -> None:
        super().epoch(me, held, epoch)
        assert held.local is not None
        held.local.epoch(self.share_of(epoch))

    def settle(self, me: Party) -> None:
        if self.finetune_with == "mean":
            return
        assert me.encoder_spec is not None
        me.encoder = encoders_of(me)[("cross", "local").index(self.finetune_with)]
        me.encoder_spec = replace(me.encoder_spec, copies=1)


@dataclass(frozen=True)
class FedHSSL(FedGSSL):
    """All three steps: after every epoch the parties average the tops of their local encoders, with what is on them.

    In the paper a server apart from party 1 does that; here the host does.
    """

    def prepare(self, me: Party) -> Pretraining:
        return super().prepare(me).join(me, noise=self.iso_representations)

    def epoch(self, me: Party, held: Pretraining, epoch: int) -> None:
        super().epoch(me, held, epoch)
        assert held.averaging is not None
        held.averaging.average()


@dataclass(frozen=True)
class FedLocalSSL(Pretrained):
    """Step 2 at home, with no other party's help: the paper's FedSimSiam; with aggregate="top", FedSimSiam + PMA.

    A host with labels only takes part: it has nothing to train, and may average what the guests have.
    """

    aggregate: Literal["none", "top"] = "none"
    ema: float = 0.999
    corrupted: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ema(self, self.ema)

    @property
    def title(self) -> str:
        """What a table calls its result."""
        return self.name + ("" if self.aggregate == "none" else " + aggregation")

    def prepare(self, me: Party) -> Pretraining:
        held = Pretraining()
        if me.encoder is not None:
            held.local = self.local_tower(me, me.encoder, ema=self.ema, corrupted=self.corrupted)
        return held if self.aggregate == "none" else held.join(me)

    def epoch(self, me: Party, held: Pretraining, epoch: int) -> None:
        if held.local is not None:
            held.local.epoch(self.share_of(epoch))
        if held.averaging is not None:
            held.averaging.average()


def encoders_of(me: Party) -> tuple[nn.Module, nn.Module]:
    """The cross-party and the local one."""
    assert isinstance(me.encoder, MeanEncoder)
    cross, local = me.encoder.encoders
    return cross, local
