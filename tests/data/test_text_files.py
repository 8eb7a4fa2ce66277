"""TOML and JSON that others may have written."""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vesica.data.text_files import parse_json, read_toml, shown
from vesica.errors import InputError

DOTS = "a" + ".a" * 20_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 5_000 + "]" * 5_000, "line 1 has brackets 9 deep"),
        ("\n\na = " + "{a = " * 5_000 + "1" + "}" * 5_000, "line 3 has brackets 9 deep"),
        ('a = """x"""" , ' + "[" * 5_000, "brackets 9 deep"),  # the fourth quote belongs to the text
        (f"b = 1\n{DOTS} = 1", "line 2 has a key with more than 4 dots"),
        (f"[{DOTS}]", "a key with more than 4 dots"),
        (f"[[{DOTS}]]", "a key with more than 4 dots"),
        ("a = {" + DOTS.replace("a", '"a"') + " = 1}", "a key with more than 4 dots"),
        ("a = " + "9" * 10_000, "Exceeds the limit"),
        ("a = [{b = 0x" + "f" * 10_000 + "}]", "a whole number of more than 64 bits"),
        ("#" * (2**20 + 1), "larger than 1,048,576 bytes"),
    ],
)
def test_toml_that_costs_more_than_it_may_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "some.toml"
    path.write_bytes(text.encode())
    with pytest.raises(InputError, match=f"some.toml cannot be read as TOML: .*{words}"):
        read_toml(path)


def test_brackets_and_dots_in_strings_and_comments_are_no_nesting(tmp_path: Path) -> None:
    deep = "[" * 20 + "{" * 20 + "a.b.c.d.e.f.g"
    text = (
        f'a = "{deep}\\" # {deep}"  # {deep} "\n'
        f"b = '{deep}'\n"
        f'c = """{deep}\n\\"""{deep}"""\n'
        f"d = '''{deep}\n''{deep}'''\n"
        f"e = [0.1, 0.2, 0.3, 0.4, 0.5, [1.5]]\n"
        f'[f.g.h]\n"{deep}" = 1\n'
    )
    path = tmp_path / "some.toml"
    path.write_text(text)
    assert read_toml(path) == tomllib.loads(text)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("[{.a\"'\\# =\n"), max_size=5))
def test_texts_are_read_whatever_they_hold(texts: list[str]) -> None:
    lines = [f"a{number} = {json.dumps(text)} # {text.translate({10: ' '})}" for number, text in enumerate(texts)]
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write("\n".join(lines).encode())
        file.flush()
        assert list(read_toml(Path(file.name)).values()) == texts


def test_a_key_of_40_kilobytes_takes_no_gigabyte(tmp_path: Path) -> None:
    """Before, tomllib took two: the process may have half of one more than it starts with."""
    path = tmp_path / "federation.toml"
    path.write_text(f"{DOTS} = 1")
    program = (
        "import resource, sys\nfrom pathlib import Path\nfrom vesica.data.toml import FederationFile\n"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, used + 2**29))\n"
        "try:\n    FederationFile(Path(sys.argv[1]))\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("InputError")
    assert "more than 4 dots" in ended.stdout


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5_000, "{", b"\xff"])
def test_json_that_cannot_be_read_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"deep|digits|Expecting|decode"):
        parse_json(text)


def test_a_value_in_a_message_is_short_and_on_one_line() -> None:
    assert shown("a\nb") == r"'a\nb'"
    assert len(shown(["x" * 1000])) == 80
