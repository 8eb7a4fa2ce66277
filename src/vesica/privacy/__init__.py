"""Mechanisms with a privacy guarantee, and what they cost."""

from vesica.privacy.randomised_response import moved_with, randomise, refuse_epsilon
from vesica.privacy.spent import Spent

__all__ = ["Spent", "moved_with", "randomise", "refuse_epsilon"]
