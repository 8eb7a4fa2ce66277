"""FedOnce. Wu, Li and He, "Practical Vertical Federated Learning with Unsupervised Representation Learning", IEEE
Transactions on Big Data 2022, Algorithms 1 and 2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

from vesica.errors import InputError
from vesica.methods.fedonce_privacy import TRAINED_PRIVATELY, PrivateTraining
from vesica.methods.release_claims import LEARNED, PRIVATE, UNTRAINED, delta_claims, noise_claim, release_claim
from vesica.nn.augmentations import views_of
from vesica.nn.models import EncoderSpec, Head, LinearEncoder
from vesica.nn.models.head import Fill
from vesica.privacy import Mechanism, Release, Spent, gaussian_epsilon
from vesica.protocol import Guest, Host
from vesica.protocol.end_to_end import Augment, EndToEnd
from vesica.protocol.party import Party
from vesica.training.pretext import SelfSupervision
from vesica.training.resume import Resume
from vesica.training.self_supervised import self_supervised, usual_corruption
from vesica.training.supervised import evaluate, train
from vesica.training.unsupervised import noise_as_targets, principal_components

Representation = Literal[
    "nat", "pca", "filters", "simsiam", "byol", "simclr", "moco", "scarf", "fixed", "codebook", "heuristic-nat"
]


LEAST_CLIP, MOST_CLIP = 1e-12, 1e12  # what float32 can scale gradients by


@dataclass(frozen=True)
class FedOnce:
    """One message a guest: it learns a representation of its rows without labels, and sends it.

    By noise as targets (the paper's), principal components, filters that need no learning, or a self-supervision.
    The host trains its own encoder and a head over all parts. With `more_epochs` all of these are then trained on end
    to end, as in split-nn.

    A guest that is late is left out. With `party_dropout` the host learns to do without any of its guests, a `fill`
    in their place; "zero" without it is the paper's way (Appendix C).

    With `epsilon` (level L1, `fedonce_privacy.py`) guests and host train with DP-SGD on the aligned rows.

    With `representation_epsilon` every row that a guest releases is clipped and noised, in training and in prediction;
    `sigma_r` is the plain noise of the paper's section 5.8, which guarantees nothing.
    """

    representation: Representation = "nat"
    guest_epochs: int = 30
    frequency: int = 3  # every third epoch shares the points out anew
    guest_augment: Augment = "none"
    guest_learning_rate: float = 1e-3  # for Adam; to simsiam, byol and moco, by SGD, give .05 a batch of 256
    guest_weight_decay: float = 1e-5
    batch_size: int = 128
    host_epochs: int = 100
    host_patience: int = 20
    host_learning_rate: float = 1e-3
    host_weight_decay: float = 1e-5
    hidden: tuple[int, ...] = (64,)
    more_epochs: int = 0
    more_learning_rate: float = 1e-3
    party_dropout: float = 0.0  # a guest's part of a row is missing with this probability, in the host's training
    fill: Fill = "learned"
    epsilon: float | None = None
    delta: float = 1e-5
    division: Literal["moments", "simple"] = "moments"
    clip: float = 1.0
    private_learning_rate: float = 2.0  # of plain SGD
    sigma_r: float | None = None  # noise on every value that a guest releases
    representation_epsilon: float | None = None  # of each row that a guest releases, each time, at delta
    representation_clip: float = 1.0  # the norm of such a row, at most; nat draws rows to the norm 1

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            self._check_privacy()
        elif self.representation in TRAINED_PRIVATELY:
            raise InputError(f"'{self.representation}' of fedonce is for training with epsilon: give one, or take nat")
        if not self.party_dropout < 1:
            raise InputError(f"party_dropout of fedonce is {self.party_dropout}: give a probability below 1")
        if self.representation == "filters" and self.more_epochs:
            raise InputError("fedonce's filters are not trained: leave more_epochs out, or take nat or pca")
        if self.party_dropout and self.more_epochs:
            raise InputError("fedonce trains more_epochs with every guest there: leave these or party_dropout out")
        self._check_release()

    def _check_privacy(self) -> None:
        if self.representation not in ("filters", *TRAINED_PRIVATELY):
            raise InputError(
                f"fedonce has no privacy guarantee for the representation '{self.representation}', whose training "
                f"looks at several rows at once: take filters, {' or '.join(TRAINED_PRIVATELY[:2])}"
            )
        if self.party_dropout or self.more_epochs or self.fill == "zero":
            raise InputError("fedonce with epsilon has no more_epochs, no party_dropout and no zeros: leave these out")

    def _check_release(self) -> None:
        for name in ("sigma_r", "representation_epsilon", "representation_clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"{name} of fedonce is {value}: give a positive number")
        if not LEAST_CLIP <= self.clip <= MOST_CLIP:
            raise InputError(f"clip of fedonce is {self.clip}: give a number from {LEAST_CLIP:g} to {MOST_CLIP:g}")
        if self.sigma_r is not None and self.representation_epsilon is not None:
            raise InputError("fedonce with representation_epsilon finds the noise by itself: leave it or sigma_r out")
        if self.representation_noise is not None and self.more_epochs:
            raise InputError("fedonce has no noise on what more_epochs send: leave these out, or the noise")

    @property
    def representation_noise(self) -> Release | None:
        """What is done to every representation before it leaves a guest."""
        if self.representation_epsilon is not None:
            return Release.private(self.representation_epsilon, self.delta, clip=self.representation_clip)
        return None if self.sigma_r is None else Release(self.sigma_r)

    @property
    def states_delta(self) -> bool:
        """Whether something is claimed at delta; for the paper's private NAT nothing is."""
        trained = self.epsilon is not None and self.representation != "heuristic-nat"
        return trained or self.representation_epsilon is not None

    @property
    def stands_missing(self) -> bool:
        """Whether a guest may be late: more rounds need all of them, every time."""
        return not self.more_epochs

    @property
    def stops_at_bytes(self) -> bool:
        """Whether there is end-to-end training, which can end anywhere."""
        return self.more_epochs > 0

    @property
    def title(self) -> str:
        """What a table calls its result, beside that of one message alone."""
        return "fedonce, more rounds" if self.more_epochs else "fedonce"

    def guest(self, me: Guest) -> None:
        self.learn(me)
        me.host.send("representations", me.represent(me.rows.labelled))
        self.disclose(me)  # not before, as the host may be waiting
        if self.more_epochs:
            me.milestone("fedonce")
            self.more_rounds().follow(me, step="more-rounds")

    def host(self, me: Host) -> None:
        if self.epsilon is not None:
            self.private().take_few_weights(me)
        came = me.gather_in_time(me.rows.labelled)
        me.head = head = Head(
            {name: dim for name, dim in me.dims.items() if name not in me.missing},
            me.task.outputs,
            hidden=self.hidden,
            optional=tuple(came) if self.party_dropout or self.fill == "zero" else (),
            fill=self.fill,
            party_dropout=self.party_dropout,
        ).to(me.device)
        modules: dict[str, nn.Module] = {"head": head}
        if me.encoder is not None:
            modules["encoder"] = me.encoder

        def forward(rows: Tensor, *, without: str | None = None) -> Tensor:
            own = [] if me.encoder is None else [me.encode(me.rows.labelled[rows])]
            outputs: Tensor = head([*own, *(None if name == without else part[rows] for name, part in came.items())])
            return outputs

        self.disclose(me)
        labels, held_out = me.labels[me.rows.labelled], torch.isin(me.rows.labelled, me.rows.validation)
        if self.epsilon is not None:
            self.private().lead(me, head, came, labels)
            return
        validation = torch.nonzero(held_out).squeeze(1)
        train(
            modules,
            forward,
            labels,
            rows=torch.nonzero(~held_out).squeeze(1),
            validation=validation,
            task=me.task,
            epochs=self.host_epochs,
            patience=self.host_patience,
            batch_size=self.batch_size,
            learning_rate=self.host_learning_rate,
            weight_decay=self.host_weight_decay,
            resume=me.resumable("host-model"),
        )

        def judge(without: str | None = None) -> tuple[float, float]:
            return evaluate(modules, partial(forward, without=without), labels, rows=validation, task=me.task)

        reached = judge()
        me.conversation.note(reached[0])
        if len(head.parties) > 1:
            say_cost(me, reached[0], {name: judge(without=name)[0] for name in head.optional})
        if self.more_epochs:
            me.milestone("fedonce")
            self.more_rounds().lead(me, me.labels, step="more-rounds", before=reached)

    def learn(self, me: Guest) -> None:
        """The guest's representation, of all its own training rows, aligned or not."""
        assert me.encoder_spec is not None
        own = me.inputs[torch.cat([me.rows.aligned, me.rows.unaligned])]
        schema = me.encoder_spec.schema
        if self.representation == "filters":
            me.use(EncoderSpec("filters", me.encoder_spec.dim, schema))
            return
        if self.epsilon is not None:
            self.private().learn(me)
            return
        if self.representation == "pca":
            me.use(EncoderSpec("linear", me.encoder_spec.dim, schema))
            assert isinstance(me.encoder, LinearEncoder)
            principal_components(me.encoder, own, schema)
            return
        assert me.encoder is not None
        if self.representation in get_args(SelfSupervision):
            self.learn_from_views(me.encoder, own, me.encoder_spec, resume=me.resumable("representation"))
            return
        noise_as_targets(
            me.encoder,
            own,
            dim=me.encoder_spec.dim,
            view=views_of(schema, own).weak if self.guest_augment == "weak" else None,
            epochs=self.guest_epochs,
            frequency=self.frequency,
            batch_size=self.batch_size,
            learning_rate=self.guest_learning_rate,
            weight_decay=self.guest_weight_decay,
            resume=me.resumable("representation"),
            meet=me.conversation.meet,
        )

    def learn_from_views(self, encoder: nn.Module, own: Tensor, spec: EncoderSpec, *, resume: Resume) -> None:
        """Two views of a row are to be alike; in as many steps as NAT takes in so many epochs."""
        ssl = cast(SelfSupervision, self.representation)
        self_supervised(
            encoder,
            own,
            dim=spec.dim,
            ssl=ssl,
            views=views_of(spec.schema, own, corrupted=usual_corruption(ssl)),
            steps=self.guest_epochs * math.ceil(len(own) / self.batch_size),
            learning_rate=self.guest_learning_rate,
            batch_size=self.batch_size,
            weight_decay=self.guest_weight_decay,
            resume=resume,
        )

    def private(self) -> PrivateTraining:
        assert self.epsilon is not None
        return PrivateTraining(
            representation=self.representation,
            epsilon=self.epsilon,
            delta=self.delta,
            division=self.division,
            clip=self.clip,
            batch_size=self.batch_size,
            guest_epochs=self.guest_epochs,
            host_epochs=self.host_epochs,
            learning_rate=self.private_learning_rate,
        )

    def disclose(self, me: Party) -> None:
        """Say what is guaranteed and what is not; guests too, who may have nobody else to tell them."""
        if self.states_delta:
            me.conversation.statements += delta_claims(self.delta, rows=len(me.rows.aligned))
        release, guests = self.representation_noise, len(me.parties) - 1
        releases: list[Mechanism] = []
        if release is not None and release.clip is None:
            me.conversation.statements.append(noise_claim(release))
        elif release is not None:
            releases = [release.mechanism] * guests  # what came too late has left them all the same
            encoders = LEARNED
            if self.representation == "filters":
                encoders = UNTRAINED
                me.conversation.privacy = Spent(gaussian_epsilon(releases, self.delta), self.delta, "columns")
            elif self.representation in TRAINED_PRIVATELY[:2]:
                encoders = PRIVATE
            me.conversation.statements.append(
                release_claim(release, guests=guests, delta=self.delta, encoders=encoders)
            )
        if self.epsilon is not None:
            self.private().disclose(me, releases=releases)

    def more_rounds(self) -> EndToEnd:
        return EndToEnd(
            epochs=self.more_epochs,
            patience=self.more_epochs,
            batch_size=self.batch_size,
            learning_rate=self.more_learning_rate,
            weight_decay=self.host_weight_decay,
            augment="none",
        )


def say_cost(me: Host, value: float, without: Mapping[str, float]) -> None:
    """What predicting without each guest would cost, as the validation rows tell."""
    for name, less in without.items():
        if math.isfinite(less):
            me.conversation.statements.append(
                f"Without '{name}' a prediction is still possible: {me.task.metric} on the validation rows is then "
                f"{abs(less):.4f} instead of {abs(value):.4f}."
            )
