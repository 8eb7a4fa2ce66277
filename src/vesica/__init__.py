"""Vertical federated learning with few overlapping rows and few messages."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_EXPORTS = {
    "Budget": "vesica.protocol",
    "FedBCD": "vesica.methods",
    "FedCSSL": "vesica.methods",
    "FedCVT": "vesica.methods",
    "FedGSSL": "vesica.methods",
    "FedHSSL": "vesica.methods",
    "FedLocalSSL": "vesica.methods",
    "FedOnce": "vesica.methods",
    "Federation": "vesica.data",
    "FewShot": "vesica.methods",
    "Linear": "vesica.methods",
    "LocalOnly": "vesica.methods",
    "LocalTrees": "vesica.methods",
    "OneShot": "vesica.methods",
    "Overlap": "vesica.data",
    "PartyData": "vesica.data",
    "Pooled": "vesica.methods",
    "Result": "vesica.experiment",
    "SplitNN": "vesica.methods",
    "Table": "vesica.data",
    "TestRows": "vesica.data",
    "Trees": "vesica.methods",
    "VFLHLP": "vesica.methods",
    "VFLHLPA": "vesica.methods",
    "VFLHLPP": "vesica.methods",
    "VerticalTrees": "vesica.methods",
    "VesicaError": "vesica.errors",
    "fit": "vesica.experiment",
    "make_federation": "vesica.datasets.scenario",
}
__all__ = [*_EXPORTS, "__version__"]


def __getattr__(name: str) -> Any:
    """Import on first use: to ask for the version need not wait for torch."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'vesica' has no attribute '{name}'")
    return getattr(import_module(_EXPORTS[name]), name)
