"""Mechanisms with a privacy guarantee, and what they cost."""

from vesica.privacy.accounting import (
    Accountant,
    Division,
    Mechanism,
    Training,
    calibrate,
    divide,
    papers_epsilon,
    pld_epsilon,
    rdp_epsilon,
)
from vesica.privacy.dp_sgd import (
    clipped_sum,
    per_sample_gradients,
    poisson_sample,
    private_gradient,
    refuse_short_tails,
    standard_normals,
)
from vesica.privacy.iso import isotropic_noise
from vesica.privacy.marvell import auc_bound, marvell_noise
from vesica.privacy.protection import GradientProtection, Leaks
from vesica.privacy.randomised_response import moved_with, randomise, refuse_epsilon
from vesica.privacy.release import Release, gaussian_epsilon, gaussian_noise
from vesica.privacy.spent import Spent, at_most

__all__ = [
    "Accountant",
    "Division",
    "GradientProtection",
    "Leaks",
    "Mechanism",
    "Release",
    "Spent",
    "Training",
    "at_most",
    "auc_bound",
    "calibrate",
    "clipped_sum",
    "divide",
    "gaussian_epsilon",
    "gaussian_noise",
    "isotropic_noise",
    "marvell_noise",
    "moved_with",
    "papers_epsilon",
    "per_sample_gradients",
    "pld_epsilon",
    "poisson_sample",
    "private_gradient",
    "randomise",
    "rdp_epsilon",
    "refuse_epsilon",
    "refuse_short_tails",
    "standard_normals",
]
