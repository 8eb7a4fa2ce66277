"""One-shot and few-shot VFL. Sun et al., "Communication-Efficient Vertical Federated Learning with Limited Overlapping
Samples", ICCV 2023, Algorithms 1 and 2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from vesica.errors import InputError, ProtocolError
from vesica.methods import one_shot_claims as claims
from vesica.methods.label_release import release_gradients, release_labels
from vesica.methods.release_claims import delta_claims
from vesica.metrics import standing
from vesica.nn.augmentations import views_of
from vesica.nn.models import Head
from vesica.privacy import gaussian_noise, refuse_epsilon
from vesica.protocol import Guest, Host, Message
from vesica.protocol.end_to_end import EndToEnd
from vesica.protocol.party import Party
from vesica.training.cluster import cluster
from vesica.training.estimation import Judge, choose_threshold, gate
from vesica.training.self_supervised import self_supervised, usual_corruption, usual_rate
from vesica.training.semi_supervised import Align, LabelledViews, Stop, Threshold, semi_supervised
from vesica.training.supervised import batches, train

WarmUp = Literal["none", "simsiam", "byol", "simclr", "moco", "scarf"]

_WARM_UP_BATCH = 512
_ROUNDING = 1e-4  # a narrow wire may lift a probability a little above 1


@dataclass(frozen=True)
class Labelled:
    """Rows of a party, by position, with a class each: the true one, or a temporary one."""

    rows: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Led:
    """What the host has of Algorithm 1 and may use for what it sends: nothing here saw more than `labels`."""

    parts: list[Tensor]  # every party's, of the labelled rows
    labels: Tensor  # of the labelled rows, as the guests may learn them
    joint: Head  # random, until it is trained with these
    model: nn.Sequential | None  # the host's own branch, if it has one, trained with these


@dataclass(frozen=True)
class OneShot:
    """Three rounds: representations up, gradients down, better representations up.

    The gradients of a random head tell the guests which aligned rows belong together; with these clusters as temporary
    labels each guest learns from all its rows, aligned or not.

    Beyond the paper: with a `warm_up` every encoder first learns from views of its own rows, which needs no message.
    """

    warm_up: WarmUp = "none"
    warm_up_steps: int = 1000
    guest_steps: int = 1000
    guest_patience: int = 0  # looks at validation rows, 100 steps apart or more, at most 200; 0: use all labels
    batch_size: int = 32
    mu: int = 3  # unlabelled rows for each labelled one
    lambda_u: float = 1.0
    threshold: Threshold = "adaptive"
    align: Align = "none"
    labelled_views: LabelledViews = "weak"
    strong_chance: float = 0.5  # of each of the two operations of a strong view to be applied; tables have none
    temperature: float = 1.0
    ema: float = 0.999
    learning_rate: float = 0.03
    weight_decay: float = 5e-4
    host_epochs: int = 200
    host_patience: int = 20
    host_learning_rate: float = 3e-3
    host_weight_decay: float = 1e-3
    hidden: tuple[int, ...] = ()  # of the heads; a linear one sees nothing that two parties know only together
    join: str = "concat"  # of the heads
    label_epsilon: float | None = None  # label differential privacy, by randomised response; None: the labels show
    gradient_epsilon: float | None = None  # or by noise on the gradients, with gradient_delta
    gradient_delta: float = 1e-5

    def __post_init__(self) -> None:
        if self.label_epsilon is not None:
            refuse_epsilon(self.label_epsilon)
        if self.gradient_epsilon is not None:
            refuse_epsilon(self.gradient_epsilon, name="gradient_epsilon")
            gaussian_noise(self.gradient_epsilon, self.gradient_delta)  # refuses what no noise could give
        if self.label_epsilon is not None and self.gradient_epsilon is not None:
            raise InputError("label_epsilon and gradient_epsilon each make the labels private: give one of them")
        if not self.temperature > 0:
            raise InputError(f"temperature of one-shot and few-shot is {self.temperature}: give a positive number")
        if not 0 <= self.strong_chance <= 1:
            raise InputError(
                f"strong_chance of one-shot and few-shot is {self.strong_chance}: give a number from 0 to 1"
            )
        if not 0 <= self.ema < 1:
            raise InputError(f"ema of one-shot and few-shot is {self.ema}: give a number from 0 to just below 1")

    @property
    def hides_labels(self) -> bool:
        """Whether no message may show more than noisy labels: nor may the choice of validation rows, then."""
        return self.label_epsilon is not None or self.gradient_epsilon is not None

    def guest(self, me: Guest) -> None:
        self.follow(me)

    def host(self, me: Host) -> None:
        led = self.lead(me)
        if not self.hides_labels:
            self.classify(me, led.joint, led.parts, labels=led.labels, step="classifier")  # (6)
        self.train_true_heads_last(me, {"one-shot": led.parts})

    def follow(self, me: Guest) -> tuple[Labelled, nn.Sequential]:
        """Algorithm 1 at a guest; its temporary labels, and its encoder with a classifier of its own on top."""
        rows = me.rows.labelled
        self.begin(me)
        me.host.send("representations", me.represent(rows))  # (1)
        gradients = receive_gradients(me, shape=(len(rows), dim_of(me)))  # (2)
        known = Labelled(rows, cluster(gradients, me.task.outputs))  # (3)
        model = self.learn(me, known, step="semi-supervised")  # (4)
        me.host.send("representations", me.represent(rows))  # (5)
        return known, model

    def lead(self, me: Host) -> Led:
        """Algorithm 1 at the host up to its last line, the training of the head."""
        if me.task.kind != "classification":
            raise InputError("one-shot and few-shot group rows by class and cannot learn a regression: take split-nn")
        rows, labels = me.rows.labelled, self.release(me)
        me.head = head = self.fresh_head(me, me.dims)
        self.begin(me)
        own = own_part(me)
        parts = [*own, *me.gather_representations(rows)]
        gradients = self.noised(me, head, parts, labels)  # (2)
        for link, gradient in zip(me.guests.values(), gradients, strict=True):
            link.send("gradients", gradient, scalars={"classes": me.task.outputs})
        self.disclose(me, gradients)
        # A host with features is one more view, but with labels instead of clusters.
        model = None if me.encoder is None else self.learn(me, Labelled(rows, labels), step="semi-supervised")
        return Led(gather_parts(me), labels, head, model)

    def fresh_head(self, me: Host, dims: Mapping[str, int]) -> Head:
        return Head(dims, me.task.outputs, hidden=self.hidden, join=self.join).to(me.device)

    def release(self, me: Host) -> Tensor:
        """The labels of the labelled rows as the guests may learn them: all that leaves is computed from these."""
        rows = me.rows.labelled
        return me.labels[rows] if self.label_epsilon is None else release_labels(me, rows, epsilon=self.label_epsilon)

    def noised(self, me: Host, head: Head, parts: list[Tensor], labels: Tensor) -> list[Tensor]:
        """The gradients as they leave, those of each guest; with `gradient_epsilon` clipped and noised.

        The head is random and a row's gradients follow from its own label alone; so do they when they are clipped to
        a norm that looks at no label: the middle one, were every row of every class.
        """
        mine = len(parts) - len(me.guests)
        gradients = gradients_of(head, parts, labels)[mine:]
        if self.gradient_epsilon is None:
            return gradients
        classes = [torch.full_like(labels, number) for number in range(me.task.outputs)]
        norms = [torch.cat(gradients_of(head, parts, each)[mine:], dim=1).norm(dim=1) for each in classes]
        clip = float(torch.cat(norms).median())
        return release_gradients(me, gradients, clip=clip, epsilon=self.gradient_epsilon, delta=self.gradient_delta)

    def train_true_heads_last(self, me: Host, reached: Mapping[str, list[Tensor]]) -> None:
        """Where labels are hidden, train heads of the true labels after the last message, in place of those so far.

        They never leave the host. How long their training takes depends on true labels and, through the parts, on
        what the guests sent: so no message may follow it, neither of training nor of scoring.
        """
        if self.hides_labels:
            me.after_messages.append(partial(self.settle, me, reached))

    def settle(self, me: Host, reached: Mapping[str, list[Tensor]]) -> None:
        """Train a head of the true labels for each milestone, and for the run, from the parts reached."""
        for name, parts in reached.items():
            head = self.fresh_head(me, me.dims)
            labels = me.labels[me.rows.labelled]
            self.classify(me, head, parts, labels=labels, step=f"classifier-that-stays-of-{name}")
            if name in me.milestones:
                me.milestones[name] = replace(me.milestones[name], head=head)
            else:
                me.head = head

    def begin(self, me: Party) -> None:
        """The warm-up, of a party that has features."""
        if self.warm_up == "none" or me.encoder is None:
            return
        assert me.encoder_spec is not None
        own = me.inputs[torch.cat([me.rows.aligned, me.rows.unaligned])]
        self_supervised(
            me.encoder,
            own,
            dim=dim_of(me),
            ssl=self.warm_up,
            views=views_of(me.encoder_spec.schema, own, corrupted=usual_corruption(self.warm_up)),
            steps=self.warm_up_steps,
            learning_rate=usual_rate(self.warm_up, _WARM_UP_BATCH),
            batch_size=_WARM_UP_BATCH,
            resume=me.resumable("warm-up"),
            meet=me.conversation.meet,
        )

    def learn(
        self, me: Party, known: Labelled, *, step: str, steps: int = 0, model: nn.Sequential | None = None
    ) -> nn.Sequential:
        """Semi-supervised learning of this party's encoder, from the rows it has labels for and all its others.

        As part of a `model` that goes on, or else under a new classifier.
        """
        assert me.encoder is not None
        assert me.encoder_spec is not None
        everything = torch.cat([me.rows.aligned, me.rows.unaligned])
        held_out = torch.isin(known.rows, me.rows.validation)
        if not self.guest_patience:
            held_out = torch.zeros_like(held_out)
        if model is None:
            model = nn.Sequential(me.encoder, nn.Linear(dim_of(me), me.task.outputs).to(me.device))
        semi_supervised(
            model,
            me.inputs,
            labelled=known.rows[~held_out],
            labels=known.labels[~held_out],
            unlabelled=everything[~torch.isin(everything, known.rows)],
            classes=me.task.outputs,
            views=views_of(me.encoder_spec.schema, me.inputs[everything], chance=self.strong_chance),
            steps=steps or self.guest_steps,
            batch_size=self.batch_size,
            mu=self.mu,
            lambda_u=self.lambda_u,
            threshold=self.threshold,
            align=self.align,
            labelled_views=self.labelled_views,
            temperature=self.temperature,
            ema=self.ema,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            stopping=Stop(me.task, known.rows[held_out], known.labels[held_out], self.guest_patience)
            if held_out.any()
            else None,
            resume=me.resumable(step),
            meet=me.conversation.meet,
        )
        return model

    def classify(self, me: Host, head: Head, parts: list[Tensor], *, labels: Tensor, step: str) -> None:
        """Train a head on representations of the labelled rows that no longer change."""
        held_out = torch.isin(me.rows.labelled, me.rows.validation)
        train(
            {"head": head},
            lambda rows: head([part[rows] for part in parts]),
            labels,
            rows=torch.nonzero(~held_out).squeeze(1),
            validation=torch.nonzero(held_out).squeeze(1),
            task=me.task,
            epochs=self.host_epochs,
            patience=self.host_patience,
            batch_size=self.batch_size,
            learning_rate=self.host_learning_rate,
            weight_decay=self.host_weight_decay,
            resume=me.resumable(step),
        )

    def disclose(self, me: Host, gradients: list[Tensor]) -> None:
        """Say what the gradients give away, measured as a guest could."""
        labels = me.labels[me.rows.labelled]
        found = claims.shares_found([cluster(gradient, me.task.outputs) for gradient in gradients], labels)
        if self.label_epsilon is not None:
            said = [claims.noisy(len(labels), me.task, self.label_epsilon), claims.still_found(found)]
        elif self.gradient_epsilon is not None:
            large = delta_claims(self.gradient_delta, rows=len(labels), what="label")
            proven = claims.noised(len(labels), self.gradient_epsilon, self.gradient_delta)
            said = [*large, proven, claims.still_found(found)]
        else:
            said = [claims.disclosed(len(labels), found)]
        me.conversation.statements += said


@dataclass(frozen=True)
class FewShot(OneShot):
    """Five rounds: one-shot VFL, then the host tells each guest which unaligned rows it may label by itself.

    The paper has two guests. Here the parts of every other party are estimated, the host's own among them; a host with
    features expands its own labelled rows the same way. With `finetune_iterations` all parties then go on end to end,
    a batch at a time, as in split-nn.
    """

    guest_patience: int = 8  # t is chosen on the validation rows: the guests must not have learned their labels
    thresholds: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # t is chosen of these, on the validation rows
    steps_again: int = 0  # of the second local training; 0: as many as the first one's
    finetune_iterations: int = 0  # batches, rounded up to whole epochs
    finetune_learning_rate: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gradient_epsilon is not None:
            raise InputError(
                "gradient_epsilon is of one-shot alone, since few-shot's later messages follow from the labels too: "
                "give few-shot label_epsilon"
            )
        if not all(0 < threshold <= 1 for threshold in self.thresholds):
            raise InputError(f"thresholds of few-shot are {self.thresholds}: give numbers above 0, at most 1")

    @property
    def title(self) -> str:
        """What a table calls its result, beside that of few-shot alone."""
        return "few-shot + finetune" if self.finetune_iterations else "few-shot"

    @property
    def stops_at_bytes(self) -> bool:
        """Whether there is end-to-end training, which can end anywhere."""
        return self.finetune_iterations > 0

    def guest(self, me: Guest) -> None:
        known, model = self.follow(me)
        me.milestone("one-shot")
        me.host.send("unaligned-representations", me.represent(me.rows.unaligned))
        self.learn_again(me, known, model, receive_chances(me))
        me.host.send("representations", me.represent(me.rows.labelled))
        if self.finetune_iterations:
            me.milestone("few-shot")
            self.finetuning(me).follow(me, step="finetuning")
            if self.hides_labels:  # the host's head has to be trained anew
                me.host.send("representations", me.represent(me.rows.labelled))

    def host(self, me: Host) -> None:
        led = self.lead(me)
        self.classify(me, led.joint, led.parts, labels=led.labels, step="classifier")
        me.milestone("one-shot")
        me.about(me.rows.labelled[:0], and_others=True)
        unaligned = {
            name: link.receive("unaligned-representations", shape=(None, me.dims[name])).tensor
            for name, link in me.guests.items()
        }
        if me.encoder is not None:
            unaligned[me.name] = me.represent(me.rows.unaligned)
        chances = self.infer(me, led, unaligned)
        for name, link in me.guests.items():
            link.send("probabilities", chances[name])
        if led.model is not None:
            known = Labelled(me.rows.labelled, led.labels)
            self.learn_again(me, known, led.model, chances[me.name])
        me.head = head = self.fresh_head(me, me.dims)
        parts = gather_parts(me)
        if self.finetune_iterations or not self.hides_labels:
            self.classify(me, head, parts, labels=led.labels, step="classifier-again")
        reached = {"one-shot": led.parts, "few-shot": parts}
        if self.finetune_iterations:
            me.milestone("few-shot")
            self.finetune(me, head, parts, labels=led.labels)
            if self.hides_labels:
                reached["finetuned"] = gather_parts(me)
        self.train_true_heads_last(me, reached)

    def learn_again(self, me: Party, known: Labelled, model: nn.Sequential, chances: Tensor) -> None:
        """Algorithm 2, lines 10-19: the second local training, from where the first one got to."""
        more = expand(me, known, model, chances)
        self.learn(me, more, step="semi-supervised-again", steps=self.steps_again, model=model)

    def finetune(self, me: Host, head: Head, parts: list[Tensor], *, labels: Tensor) -> None:
        """Go on end to end from few-shot's head, with these labels of the labelled rows."""
        held_out = torch.isin(me.rows.labelled, me.rows.validation)
        before = standing(me.task, head([part[held_out] for part in parts]), labels[held_out])
        of_all_rows = torch.zeros_like(me.labels).index_copy(0, me.rows.labelled, labels)
        after = len(me.rows.labelled) if self.hides_labels else 0
        if not self.hides_labels:
            me.conversation.statements.append(claims.disclosed_again(len(me.rows.train)))
        self.finetuning(me).lead(me, of_all_rows, step="finetuning", before=before, rows_after=after)

    def finetuning(self, me: Party) -> EndToEnd:
        """End-to-end training from where few-shot got to, on the weak views it has learned from."""
        an_epoch = list(batches(len(me.rows.train), self.batch_size, generator=torch.Generator()))
        epochs = math.ceil(self.finetune_iterations / len(an_epoch))
        return EndToEnd(
            epochs=epochs,
            patience=epochs,
            batch_size=self.batch_size,
            learning_rate=self.finetune_learning_rate,
            weight_decay=1e-5,
            augment="weak",
        )

    def infer(self, me: Host, led: Led, unaligned: dict[str, Tensor]) -> dict[str, Tensor]:
        """Algorithm 2, InferProb: each party's chances of a pseudo-label for its unaligned rows."""
        judges, threshold = self.judges(me, led)
        chances = {name: gate(*judges[name].judge(part), threshold=threshold) for name, part in unaligned.items()}
        given = sum(len(unaligned[name]) for name in me.guests)
        joining = sum(float(chances[name].sum()) for name in me.guests)
        me.conversation.statements.append(
            claims.unaligned_given(given, threshold, chosen_on=len(me.rows.validation), joining=round(joining))
        )
        return chances

    def judges(self, me: Host, led: Led) -> tuple[dict[str, Judge], float]:
        """One a party, with a classifier of that party's part alone; and how sure they have to be."""
        judges = {}
        aligned = dict(zip(me.dims, led.parts, strict=True))
        for name, part in aligned.items():
            head = self.fresh_head(me, {name: part.shape[1]})
            self.classify(me, head, [part], labels=led.labels, step=f"classifier-of-{name}")
            judges[name] = Judge(name, head, led.joint, aligned)
        held_out = torch.isin(me.rows.labelled, me.rows.validation)
        return judges, choose_threshold(judges, held_out, led.labels, thresholds=self.thresholds)


@torch.no_grad()
def expand(me: Party, known: Labelled, model: nn.Module, chances: Tensor) -> Labelled:
    """Algorithm 2, lines 10-12: some unaligned rows, drawn by their chances, join with labels of the party's own."""
    rows = me.rows.unaligned[torch.rand(len(chances), device=chances.device) < chances]
    model.eval()
    labels = [model(me.inputs[some]).argmax(dim=1) for some in rows.split(4096)]
    return Labelled(torch.cat([known.rows, rows]), torch.cat([known.labels, *labels]))


def own_part(me: Host) -> list[Tensor]:
    return [] if me.encoder is None else [me.represent(me.rows.labelled)]


def gather_parts(me: Host) -> list[Tensor]:
    """Every party's representations of the labelled rows, the host's own first: a round up."""
    return [*own_part(me), *me.gather_representations(me.rows.labelled)]


def receive_gradients(me: Guest, *, shape: tuple[int, int]) -> Tensor:
    """The gradients, from a host that means as many classes as all agreed on."""

    def check(message: Message) -> None:
        classes = message.scalar("classes", int)
        if classes != me.task.outputs:
            raise ProtocolError(
                f"'gradients' from '{me.host.peer}' are of {classes} classes, expected the {me.task.outputs} agreed "
                "on: the two sides do not run the same method or version"
            )

    return me.host.receive("gradients", shape=shape, check=check).tensor


def receive_chances(me: Guest) -> Tensor:
    def check(message: Message) -> None:
        chances = message.tensor
        if len(chances) and not 0 <= float(chances.min()) <= float(chances.max()) <= 1 + _ROUNDING:
            raise ProtocolError(
                f"'probabilities' from '{me.host.peer}' go from {float(chances.min()):g} to {float(chances.max()):g}, "
                "expected 0 to 1: the two sides do not run the same method or version"
            )

    return me.host.receive("probabilities", shape=(len(me.rows.unaligned),), check=check).tensor


def dim_of(me: Party) -> int:
    assert me.encoder_spec is not None
    return me.encoder_spec.dim


def gradients_of(head: Head, parts: list[Tensor], labels: Tensor) -> list[Tensor]:
    """The gradient of each row's own cross entropy by each part, (rows, dim) each.

    Of the sum and not of the mean: a mean over batches makes the rows of a short last batch stand out, and k-means
    then finds batches instead of classes.
    """
    leaves = [part.detach().requires_grad_() for part in parts]
    loss = functional.cross_entropy(head(leaves), labels, reduction="sum")
    return list(torch.autograd.grad(loss, leaves))
