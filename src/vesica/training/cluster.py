"""Clustering rows into classes, and how much of the classes the clusters give away."""

import torch
from scipy.optimize import linear_sum_assignment
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
    """The share of rows whose cluster is mostly of their own class: 1 where the clusters give the labels away.

    Clusters that say nothing have the share of the largest class.
    """
    return float(_contingency(clusters, labels).amax(dim=1).sum() / len(labels))


def mean_recall(clusters: Tensor, labels: Tensor) -> float:
    """The share of a class that is in the cluster matched to it, one to one, as well as can be; the mean over classes.

    Clusters that say nothing have 1 / classes, however unequal the classes are.
    """
    table = _contingency(clusters, labels)
    shares = (table / table.sum(dim=0)).numpy()
    return float(shares[linear_sum_assignment(shares, maximize=True)].sum() / shares.shape[1])


def majority_classes(clusters: Tensor, labels: Tensor) -> Tensor:
    """Each row's cluster by the class that most of it is of."""
    classes: Tensor = labels.unique()[_contingency(clusters, labels).argmax(dim=1).to(labels.device)]
    return classes[clusters]


def matched_classes(clusters: Tensor, labels: Tensor) -> Tensor:
    """Each row's cluster by the class matched to it, one to one, as `mean_recall` does; -1 where there is none."""
    table = _contingency(clusters, labels)
    matched = torch.full((len(table),), -1, dtype=labels.dtype, device=labels.device)
    rows, columns = linear_sum_assignment((table / table.sum(dim=0)).numpy(), maximize=True)
    matched[torch.from_numpy(rows)] = labels.unique()[torch.from_numpy(columns)]
    return matched[clusters]


def _contingency(clusters: Tensor, labels: Tensor) -> Tensor:
    """How many rows of each class (a column each, of those that occur) are in each cluster."""
    classes, columns = labels.cpu().unique(return_inverse=True)
    table = torch.zeros(int(clusters.max()) + 1, len(classes), dtype=torch.float64)
    return table.index_put_((clusters.cpu(), columns), torch.ones(len(labels), dtype=torch.float64), accumulate=True)
