"""Losses that know no models: plain torch, useful without federation."""

from vesica.objectives.fixmatch import AdaptiveThreshold, Alignment, FixedThreshold, FixMatch, unlabelled_loss

__all__ = ["AdaptiveThreshold", "Alignment", "FixMatch", "FixedThreshold", "unlabelled_loss"]
