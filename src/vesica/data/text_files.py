"""TOML and JSON that others may have written: whatever a file holds, it takes little memory and one kind of error."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from vesica.errors import InputError

LARGEST_TOML = 2**20  # bytes
DEEPEST = 8  # brackets within brackets; a federation.toml needs three
MOST_DOTS = 4  # of one key: tomllib takes memory by their square
_WORDS = re.compile(
    r'"""(?>\\.?|[^\\])*?(?:"{3,5}|\Z)'  # strings, also those that nothing ends
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"(?>\\[^\n]?|[^"\\\n])*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*"
    r"|[\[\]{}.,=\n]",
    re.DOTALL,
)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. Its size and its nesting are checked before it is parsed."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_TOML + 1)
        if len(content) > LARGEST_TOML:
            raise ValueError(f"it is larger than {LARGEST_TOML:,} bytes")
        text = content.decode("utf-8").replace("\r\n", "\n")
        _check_nesting(text)
        values = tomllib.loads(text)
        _check_numbers(values)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: correct the path") from None
    except (OSError, ValueError) as error:  # tomllib's own error is a ValueError too
        raise InputError(f"{path} cannot be read as TOML: {error}") from error
    return values


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; a ValueError says what is wrong, also where Python would go too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def shown(value: object) -> str:
    """A value for a message: on one line, and not too long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def is_utf8(path: Path) -> bool:
    """Whether libraries can open it that take no other names."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_nesting(text: str) -> None:
    depth = dots = 0
    for match in _WORDS.finditer(text):
        word = match[0]
        if word in "[{":
            depth += 1
        elif word in "]}":
            depth -= 1
        dots = dots + 1 if word == "." else 0 if word in "[]{},=\n" else dots
        if depth > DEEPEST or dots > MOST_DOTS:
            line = text.count("\n", 0, match.start()) + 1
            what = f"brackets {depth} deep" if depth > DEEPEST else f"a key with more than {MOST_DOTS} dots"
            raise ValueError(f"line {line} has {what}, which no file of Vesica needs")


def _check_numbers(value: object) -> None:
    """TOML's whole numbers have 64 bits; tomllib takes longer ones, which can then not even be printed."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _check_numbers(each)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("it has a whole number of more than 64 bits")
