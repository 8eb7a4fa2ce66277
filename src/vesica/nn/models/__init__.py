"""Encoders and heads: plain torch modules, useful without federation."""

from vesica.nn.models.build import ENCODERS, EncoderSpec, MeanEncoder, build_encoder, top_of
from vesica.nn.models.cnn import CNN0, CNN1, Normalise
from vesica.nn.models.head import JOINS, Head
from vesica.nn.models.mlp import MLP
from vesica.nn.models.ncf import NCF
from vesica.nn.models.pooled import LinearModel, PooledModel
from vesica.nn.models.projector import Predictor, Projector
from vesica.nn.models.quick_cnn import QuickCNN
from vesica.nn.models.resnet import ResNet18
from vesica.nn.models.tabular import LinearEncoder, NormedEncoder, TabularEncoder
from vesica.nn.models.trees import Bins, TreesModel
from vesica.nn.models.wide_resnet import WideResNet

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
