"""The passes that are written out, against autograd; the kernels are checked where Triton is."""

import copy
import importlib.util

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from vesica.models import WideResNet, by_hand
from vesica.models.wide_resnet_by_hand import SLOPE, ByHand, PlainPasses


class Riding(nn.Module):
    """A layer whose rows from `learn` on have no gradient."""

    def __init__(self, layer: nn.Module, learn: int) -> None:
        super().__init__()
        self.layer = layer
        self.learn = learn

    def forward(self, rows: Tensor) -> Tensor:
        outputs = self.layer(torch.cat([rows[: self.learn], rows[self.learn :].detach()]))
        return torch.cat([outputs[: self.learn], outputs[self.learn :].detach()])


def let_ride(module: nn.Module, learn: int) -> None:
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Conv2d | nn.BatchNorm2d):
            setattr(module, name, Riding(child, learn))
        else:
            let_ride(child, learn)


def network(width: int = 1) -> WideResNet:
    torch.manual_seed(0)
    made = WideResNet(16, width, channels=3, normalise=nn.BatchNorm2d(3, affine=False).eval())
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d) and module.affine:
            nn.init.normal_(module.weight, 1, 0.3)
            nn.init.normal_(module.bias, 0, 0.3)
    return made.train()


@pytest.mark.parametrize("learn", [7, 12])
@pytest.mark.parametrize("sides", [(16, 8), (14, 7)])
def test_it_is_the_network_and_its_gradient(learn: int, sides: tuple[int, int]) -> None:
    """With all rows learning, and with five that only count for the means and variances."""
    one = network()
    other = copy.deepcopy(one)
    parameters, buffers = list(other.parameters()), list(other.buffers())
    let_ride(other, learn)
    images, target = torch.rand(12, 3, *sides), torch.randn(learn, one.dim)
    features, expected = ByHand(one)(images, learn), other(images)
    torch.testing.assert_close(features, expected, atol=1e-5, rtol=1e-4)
    for outputs in (features, expected):
        (outputs[:learn] * target).sum().backward()
    for mine, theirs in zip(one.parameters(), parameters, strict=True):
        assert mine.grad is not None
        assert (mine.grad - theirs.grad).norm() < 1e-4 * theirs.grad.norm()
    for mine, theirs in zip(one.buffers(), buffers, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_gradients_stay_as_they_are_when_it_goes_on() -> None:
    made = network()
    step = ByHand(made)
    step(torch.rand(6, 3, 16, 8), 4)[:4].square().sum().backward()
    kept = [value.grad for value in made.parameters()]
    copies = [value.clone() for value in kept]
    made.zero_grad()
    step(torch.rand(6, 3, 16, 8), 4)[:4].square().sum().backward()
    assert all(torch.equal(value, copied) for value, copied in zip(kept, copies, strict=True))


def test_it_is_for_a_gpu_and_a_network_it_knows() -> None:
    assert by_hand(nn.Sequential(network(), nn.Linear(64, 10))) is None
    assert by_hand(nn.Linear(3, 2)) is None


needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or not torch.cuda.is_available(),
    reason="the kernels need Triton and a GPU",
)


@needs_triton
@pytest.mark.parametrize("channels", [16, 128])
@pytest.mark.parametrize("added", [False, True])
def test_the_kernels_of_batch_norm_are_its_formula(channels: int, added: bool) -> None:
    from vesica.models.wide_resnet_kernels import TritonPasses

    torch.manual_seed(0)

    def values(rows: int) -> Tensor:
        return torch.randn(rows, channels, 16, 8, device="cuda").contiguous(memory_format=torch.channels_last)

    one, other = nn.BatchNorm2d(channels).cuda(), nn.BatchNorm2d(channels).cuda()
    nn.init.normal_(one.weight)
    other.load_state_dict(one.state_dict())
    passes, plain = TritonPasses(one, SLOPE, torch.zeros(2, 2, channels, device="cuda")), PlainPasses(other)
    x, plus, d, d_plus = 2 * values(40) + 1, values(40), values(30), values(30)
    with torch.no_grad():
        mine, theirs = (each.forward(x, plus if added else None) for each in (passes, plain))
        back = [
            each.backward(d, total[:30], d_plus if added else None, rows=40)
            for each, (total, _) in ((passes, mine), (plain, theirs))
        ]
    for got, expected in zip((*mine, *back[0]), (*theirs, *back[1]), strict=True):
        torch.testing.assert_close(got, expected, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(one.running_mean, other.running_mean)
    torch.testing.assert_close(one.running_var, other.running_var)


@needs_triton
@pytest.mark.parametrize(("inputs", "outputs", "stride", "side"), [(8, 16, 1, 3), (64, 128, 2, 3), (16, 32, 1, 1)])
def test_the_kernel_of_a_weights_gradient_is_its_formula(inputs: int, outputs: int, stride: int, side: int) -> None:
    from vesica.models.wide_resnet_kernels import takes, weight_gradient

    torch.manual_seed(0)
    x = torch.randn(20, inputs, 16, 8, device="cuda").bfloat16().contiguous(memory_format=torch.channels_last)
    weight = torch.zeros(outputs, inputs, side, side, device="cuda", requires_grad=True)
    y = functional.conv2d(x.float(), weight, stride=stride, padding=side // 2)
    d = torch.randn_like(y).bfloat16().contiguous(memory_format=torch.channels_last)
    y.backward(d.float())
    assert weight.grad is not None
    assert takes(d, x, weight)
    assert (weight_gradient(d, x, weight) - weight.grad).norm() < 1e-2 * weight.grad.norm()
