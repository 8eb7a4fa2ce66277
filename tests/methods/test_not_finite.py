"""Values that are not finite are refused where they arrive, and their sender is named."""

import pytest
import torch

from federations import quick, small_federation
from vesica.engines import InProcess
from vesica.errors import ProtocolError
from vesica.experiment import fit
from vesica.methods import METHODS
from vesica.protocol.message import Message, decode, encode

# The references that talk to nobody, and the trees whose messages are XGBoost's own.
WITHOUT_VALUES = ("local-only", "local-trees", "vertical-trees")


@pytest.mark.parametrize("name", sorted(METHODS.keys() - set(WITHOUT_VALUES)))
def test_a_guest_with_values_that_are_not_finite_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = InProcess.deliver

    def spoiled(engine: InProcess, sender: str, receiver: str, sequence: int, frame: memoryview) -> None:
        message = decode(bytes(frame))
        if sender == "shop1" and any(tensor.is_floating_point() for tensor in message.tensors.values()):
            bad = {name: torch.full_like(tensor, torch.nan) for name, tensor in message.tensors.items()}
            frame = encode(Message(message.kind, bad, message.scalars))
        deliver(engine, sender, receiver, sequence, frame)

    monkeypatch.setattr(InProcess, "deliver", spoiled)
    with pytest.raises(ProtocolError, match=r"bank: '[a-z-]+' from 'shop1' has values that are not finite"):
        fit(quick(name), small_federation(guests=2))
