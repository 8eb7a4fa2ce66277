"""Losses that know no models: plain torch, useful without federation."""

from vesica.objectives.fixmatch import AdaptiveThreshold, Alignment, FixedThreshold, FixMatch, unlabelled_loss
from vesica.objectives.nat import assign, assign_each, distance, points_on_sphere

__all__ = [
    "AdaptiveThreshold",
    "Alignment",
    "FixMatch",
    "FixedThreshold",
    "assign",
    "assign_each",
    "distance",
    "points_on_sphere",
    "unlabelled_loss",
]
