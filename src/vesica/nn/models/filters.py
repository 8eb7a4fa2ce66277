"""Encoders that are the same whatever the rows are: edges of images, and turned columns of tables."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from vesica.errors import InputError
from vesica.nn.models.tabular import LinearEncoder
from vesica.schema import ImageSchema, TableSchema

LENGTH = 2.5  # of every row's outputs: DP-SGD then clips all rows alike
_SIZE, _WIDTH = 5, 1.2  # of an edge filter, in pixels
_LEAST = 1e-6


class EdgeFilters(nn.Module):
    """How strong the edges in each direction are, in each cell of a square grid over the image."""

    kernels: Tensor

    def __init__(self, schema: ImageSchema, dim: int) -> None:
        super().__init__()
        directions = next((count for count in (8, 4) if math.isqrt(dim // count) ** 2 * count == dim), None)
        if directions is None:
            raise InputError(f"encoder 'filters' has 4 or 8 directions a cell and no dim {dim}: use 16, 32, 64 or 128")
        self.cells = math.isqrt(dim // directions)
        if self.cells > min(schema.height, schema.width):
            raise InputError(f"the images have fewer pixels than the dim {dim} of encoder 'filters' needs: use 16")
        self.register_buffer("kernels", edge_kernels(directions), persistent=False)
        self.dim = dim

    def forward(self, images: Tensor) -> Tensor:
        values = images.to(self.kernels.dtype).mean(dim=1, keepdim=True)
        framed = functional.pad(values, [_SIZE // 2] * 4, mode="replicate")  # the border of an image is no edge
        edges = functional.conv2d(framed, self.kernels).relu()
        strengths = functional.adaptive_avg_pool2d(edges, self.cells).flatten(1).sqrt()
        return LENGTH * functional.normalize(strengths, eps=_LEAST)


class TurnedColumns(nn.Module):
    """The columns, turned at random, so that the first `dim` directions are all alike."""

    def __init__(self, schema: TableSchema, dim: int) -> None:
        super().__init__()
        self.columns = LinearEncoder(schema, dim).requires_grad_(False)
        width = schema.numeric + sum(schema.categories)
        turn = torch.linalg.qr(torch.randn(max(width, dim), min(width, dim)))[0]
        turn = turn if width >= dim else turn.T
        numbers, categories = turn.split([schema.numeric, sum(schema.categories)])
        if self.columns.linear is not None:
            self.columns.linear.weight.copy_(numbers.T)
            self.columns.linear.bias.zero_()
        if self.columns.table is not None:
            self.columns.table.embedding.weight.copy_(categories)
        self.dim = dim

    def forward(self, rows: Tensor) -> Tensor:
        return LENGTH * functional.normalize(self.columns(rows), eps=_LEAST)


def edge_kernels(directions: int) -> Tensor:
    """The slopes of a Gaussian in so many directions around the circle: (directions, 1, size, size)."""
    across = torch.arange(_SIZE) - _SIZE // 2
    y, x = torch.meshgrid(across, across, indexing="ij")
    bell = torch.exp(-(x**2 + y**2) / (2 * _WIDTH**2))
    angles = torch.arange(directions) * (2 * math.pi / directions)
    slopes = (x * angles.cos()[:, None, None] + y * angles.sin()[:, None, None]) * bell
    return (slopes / slopes.abs().sum(dim=(1, 2), keepdim=True))[:, None]
