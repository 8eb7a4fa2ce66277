"""Encoders and heads: plain torch modules, useful without federation."""

from vesica.models.build import ENCODERS, EncoderSpec, MeanEncoder, build_encoder, top_of
from vesica.models.cnn import CNN0, CNN1, Normalise
from vesica.models.head import JOINS, Head
from vesica.models.mlp import MLP
from vesica.models.ncf import NCF
from vesica.models.pooled import LinearModel, PooledModel
from vesica.models.projector import Predictor, Projector
from vesica.models.quick_cnn import QuickCNN
from vesica.models.resnet import ResNet18
from vesica.models.tabular import LinearEncoder, NormedEncoder, TabularEncoder
from vesica.models.trees import Bins, TreesModel
from vesica.models.wide_resnet import WideResNet

AnyHead = Head | PooledModel | LinearModel | TreesModel  # what a host predicts with
HEADS: dict[str, type[AnyHead]] = {"head": Head, "pooled": PooledModel, "linear": LinearModel, "trees": TreesModel}

__all__ = [
    "CNN0",
    "CNN1",
    "ENCODERS",
    "HEADS",
    "JOINS",
    "MLP",
    "NCF",
    "AnyHead",
    "Bins",
    "EncoderSpec",
    "Head",
    "LinearEncoder",
    "LinearModel",
    "MeanEncoder",
    "Normalise",
    "NormedEncoder",
    "PooledModel",
    "Predictor",
    "Projector",
    "QuickCNN",
    "ResNet18",
    "TabularEncoder",
    "TreesModel",
    "WideResNet",
    "build_encoder",
    "top_of",
]
