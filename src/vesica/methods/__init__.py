"""The methods, one file a paper, and the one table of them."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, Literal, Protocol, get_args, get_origin, get_type_hints

from vesica.errors import InputError, nearest
from vesica.methods.fedbcd import FedBCD
from vesica.methods.fedcvt import FedCVT
from vesica.methods.fedhssl import FedCSSL, FedGSSL, FedHSSL, FedLocalSSL
from vesica.methods.fedonce import FedOnce
from vesica.methods.linear import Linear
from vesica.methods.local_only import LocalOnly
from vesica.methods.one_shot import FewShot, OneShot
from vesica.methods.pooled import Pooled
from vesica.methods.split_nn import SplitNN
from vesica.methods.trees import LocalTrees, Trees, VerticalTrees
from vesica.methods.vflhlp import VFLHLP, VFLHLPA, VFLHLPP
from vesica.protocol import Guest, Host

METHODS: dict[str, type[Any]] = {
    "local-only": LocalOnly,
    "pooled": Pooled,
    "linear": Linear,
    "local-trees": LocalTrees,
    "trees": Trees,
    "vertical-trees": VerticalTrees,
    "split-nn": SplitNN,
    "fedbcd": FedBCD,
    "fedcvt": FedCVT,
    "one-shot": OneShot,
    "few-shot": FewShot,
    "fedonce": FedOnce,
    "fedhssl": FedHSSL,
    "fedgssl": FedGSSL,
    "fedcssl": FedCSSL,
    "fedlocalssl": FedLocalSSL,
    "vflhlp": VFLHLP,
    "vflhlp-a": VFLHLPA,
    "vflhlp-p": VFLHLPP,
}

# The least a field may be, where that is not 0.
_LEAST = {"batch_size": 1, "frequency": 1, "local_updates": 1, "local_steps": 1, "width": 1, "finetune_batch_size": 1}
_LEAST |= {"host_batch_size": 1, "guest_batch_size": 2, "max_bin": 2}


class Method(Protocol):
    """A frozen dataclass of hyper-parameters with two blocking functions, one a role.

    It may also say, where that is so: `title`, what a table calls its result; `simulation_only`; `stands_missing`, that
    guests may be left out; `stops_at_bytes`, that its training can end at a number of bytes; `hides_labels`, that no
    message may show the labels, for which `fit` draws the validation rows without a look at them;
    `representation_noise`, which end-to-end training refuses, and without which nothing leaves `Party.represent`.
    """

    def guest(self, me: Guest) -> None: ...

    def host(self, me: Host) -> None: ...


def name_of(method: Method) -> str:
    return next((name for name, kind in METHODS.items() if type(method) is kind), type(method).__name__)


def config_of(method: Method) -> dict[str, Any]:
    """A method's hyper-parameters, ready for JSON."""
    return json.loads(json.dumps(dataclasses.asdict(method)))  # type: ignore[call-overload, no-any-return]


def make_method(name: str, settings: Mapping[str, str] | None = None) -> Method:
    """A method by name, some of its fields set from text."""
    if name not in METHODS:
        raise InputError(f"there is no method '{name}'{nearest(name, METHODS)}")
    return change(METHODS[name](), settings or {})


def read_method(name: str, config: Mapping[str, Any]) -> Method:
    """A method from its hyper-parameters as `config_of` gave them."""
    for field in config.keys() - {field.name for field in dataclasses.fields(METHODS[name])}:
        raise InputError(f"method '{name}' has no field '{field}' here: it was run by another version, run it anew")
    made: Method = METHODS[name](
        **{k: tuple(value) if isinstance(value, list) else value for k, value in config.items()}
    )
    check_fields(made)
    return made


def change(method: Method, settings: Mapping[str, str]) -> Method:
    """The method with some of its fields set from text."""
    name = name_of(method)
    fields = {field.name: field for field in dataclasses.fields(method)}  # type: ignore[arg-type]
    values = {}
    for field, text in settings.items():
        if field not in fields:
            raise InputError(f"method '{name}' has no field '{field}'{nearest(field, fields)}")
        values[field] = _parse(name, fields[field], text)
    changed: Method = dataclasses.replace(method, **values)  # type: ignore[type-var]
    check_fields(changed)
    return changed


def check_fields(method: Method) -> None:
    """Refuse what no method could run with, however it was made."""
    types = get_type_hints(type(method))
    for field in dataclasses.fields(method):  # type: ignore[arg-type]
        value = getattr(method, field.name)
        words = get_args(types[field.name])
        if get_origin(types[field.name]) is Literal and value not in words:
            raise InputError(
                f"field '{field.name}' of method '{name_of(method)}' is '{value}'{nearest(str(value), words)}"
            )
        least = _LEAST.get(field.name, 0)
        if isinstance(value, int | float) and not least <= value < math.inf:
            raise InputError(f"field '{field.name}' of method '{name_of(method)}' is {value}: it is {least} or more")
        if isinstance(value, tuple) and not all(size >= (1 if type(size) is int else 0) for size in value):
            raise InputError(f"field '{field.name}' of method '{name_of(method)}' is {value}: each is 1 or more")


def _parse(method: str, field: dataclasses.Field[Any], text: str) -> Any:
    """A field's value from text, of the type its default has: 0.01, 64, true, 30,30 or a word."""
    default = field.default
    try:
        match default:
            case bool():
                return {"true": True, "false": False}[text.lower()]
            case int() | float():
                return type(default)(text)
            case None:
                return None if text.lower() == "none" else float(text)
            case tuple():
                number = float if any(isinstance(part, float) for part in default) else int
                return tuple(number(part) for part in text.split(",") if part.strip())
            case _:
                return text
    except (ValueError, KeyError):
        wanted = {
            bool: "true or false",
            int: "a whole number",
            float: "a number",
            tuple: "numbers with commas",
            type(None): "a number or none",
        }
        raise InputError(
            f"field '{field.name}' of method '{method}' is {text!r} and should be {wanted[type(default)]}, "
            "as in --set " + f"{field.name}={_as_text(default)}"
        ) from None


def _as_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
