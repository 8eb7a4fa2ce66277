"""FixMatch's loss of unlabelled rows (Sohn et al., 2020), with fixed or adaptive thresholds."""

import torch
from torch import Tensor, nn
from torch.nn import functional


def unlabelled_loss(strong_logits: Tensor, pseudo_labels: Tensor, *, confident: Tensor) -> Tensor:
    """Cross entropy where confident, (rows,) of bool, and nothing elsewhere: the mean over all rows."""
    losses = functional.cross_entropy(strong_logits, pseudo_labels, reduction="none")
    return (losses * confident).mean()


class FixedThreshold(nn.Module):
    """A row is confident when its largest probability reaches `value`."""

    def __init__(self, value: float = 0.95) -> None:
        super().__init__()
        self.value = value

    def forward(self, probabilities: Tensor) -> Tensor:
        return probabilities.amax(dim=1) >= self.value


class AdaptiveThreshold(nn.Module):
    """FreeMatch's self-adaptive threshold (Wang et al., 2023): it rises with the model's own confidence.

    The global threshold is the moving average of the largest probability; the threshold of a class is that,
    scaled down by how rarely the class is predicted. Both start at 1 / classes.
    """

    overall: Tensor
    per_class: Tensor

    def __init__(self, classes: int, *, momentum: float = 0.999) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("overall", torch.tensor(1 / classes))
        self.register_buffer("per_class", torch.full((classes,), 1 / classes))

    def forward(self, probabilities: Tensor) -> Tensor:
        """Which rows are confident, the averages updated by these rows first."""
        largest, predicted = probabilities.max(dim=1)
        self.overall.lerp_(largest.mean(), 1 - self.momentum)
        self.per_class.lerp_(probabilities.mean(dim=0), 1 - self.momentum)
        thresholds = self.overall * self.per_class / self.per_class.max()
        return largest >= thresholds[predicted]


class Alignment(nn.Module):
    """Distribution alignment (Berthelot et al., 2020): predictions rescaled towards a distribution of classes.

    `target` (classes,) says how often each class occurs, in any unit; `seen` is the predictions' moving average.
    """

    target: Tensor
    seen: Tensor

    def __init__(self, target: Tensor, *, momentum: float = 0.999) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("target", target)
        self.register_buffer("seen", torch.full_like(self.target, 1 / len(target)))

    def forward(self, probabilities: Tensor) -> Tensor:
        self.seen.lerp_(probabilities.mean(dim=0), 1 - self.momentum)
        aligned = probabilities * (self.target / self.seen.clamp(min=1e-6))
        return aligned / aligned.sum(dim=1, keepdim=True).clamp(min=1e-12)


class FixMatch(nn.Module):
    """The weak view of a row labels its strong view, where the model is confident.

    What it remembers between batches (thresholds, averages) is in its buffers: it has no weights to train.
    """

    def __init__(self, threshold: nn.Module, *, temperature: float = 1.0, alignment: nn.Module | None = None) -> None:
        super().__init__()
        self.threshold = threshold
        self.temperature = temperature
        self.alignment = alignment or nn.Identity()

    def forward(self, weak_logits: Tensor, strong_logits: Tensor) -> Tensor:
        probabilities: Tensor = self.alignment((weak_logits.detach().float() / self.temperature).softmax(dim=1))
        confident: Tensor = self.threshold(probabilities)
        return unlabelled_loss(strong_logits, probabilities.argmax(dim=1), confident=confident)
