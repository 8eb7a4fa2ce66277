"""Losses that know no models: plain torch, useful without federation."""

from vesica.nn.objectives.fixmatch import AdaptiveThreshold, Alignment, FixedThreshold, FixMatch, unlabelled_loss
from vesica.nn.objectives.nat import assign, assign_each, distance, points_on_sphere
from vesica.nn.objectives.self_supervised import MoCo, Pair, Scarf, SimCLR, SimSiam, info_nce, negative_cosine

__all__ = [
    "AdaptiveThreshold",
    "Alignment",
    "FixMatch",
    "FixedThreshold",
    "MoCo",
    "Pair",
    "Scarf",
    "SimCLR",
    "SimSiam",
    "assign",
    "assign_each",
    "distance",
    "info_nce",
    "negative_cosine",
    "points_on_sphere",
    "unlabelled_loss",
]
