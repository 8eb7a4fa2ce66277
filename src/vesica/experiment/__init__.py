"""Runs: a method on a federation, its result, and predictions from it."""

from vesica.experiment.fit import fit
from vesica.experiment.predict import predict, predict_from
from vesica.experiment.predictions import Predictions
from vesica.experiment.result import Result

__all__ = ["Predictions", "Result", "fit", "predict", "predict_from"]
