"""Clustering rows into classes."""

import torch
from sklearn.cluster import KMeans
from torch import Tensor


def cluster(rows: Tensor, classes: int) -> Tensor:
    """k-means on (rows, dim): each row's cluster, 0..classes-1, in no particular order.

    Ten starts: one alone now and then splits a class and joins two others.
    """
    seed = int(torch.randint(2**31, ()))
    means = KMeans(n_clusters=min(classes, len(rows)), n_init=10, random_state=seed)
    return torch.from_numpy(means.fit_predict(rows.detach().float().cpu().numpy())).long().to(rows.device)


def purity(clusters: Tensor, labels: Tensor) -> float:
    """The share of rows whose cluster is mostly of their own class: 1 where the clusters give the labels away."""
    table = torch.zeros(int(clusters.max()) + 1, int(labels.max()) + 1)
    table.index_put_((clusters.cpu(), labels.cpu()), torch.ones(len(labels)), accumulate=True)
    return float(table.amax(dim=1).sum() / len(labels))
