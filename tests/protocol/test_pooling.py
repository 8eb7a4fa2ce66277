"""The columns that the references pool: what a guest may say of them, and what is refused."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from conversations import Talk
from vesica.errors import ProtocolError
from vesica.metrics import Task
from vesica.nn.models import EncoderSpec, PooledModel
from vesica.protocol import Host, Link, Rows
from vesica.protocol.pooling import MOST_CODES, Pool, gather_columns
from vesica.protocol.prediction import predict
from vesica.schema import ImageSchema, Schema, TableSchema

NONE = torch.zeros(0, dtype=torch.long)
ALL = torch.arange(3)
ROWS = Rows(ALL, NONE, ALL, ALL, ALL[:1])
TABLE = TableSchema(2, (4,))
COLUMNS = torch.tensor([[0.5, -1.0, 0.0], [2.0, 0.0, 3.0], [1.0, 1.0, 1.0]])
IMAGE = ImageSchema(1, 8, 8, (0.5,), (0.25,))
PIXELS = torch.zeros(3, 1, 8, 8, dtype=torch.uint8)


def host_of(talk: Talk, links: Mapping[str, Link], *, dim: int = 8) -> Host:
    task = Task("classification", "auc", ("no", "yes"))
    return Host("bank", task, ROWS, torch.empty(3, 0), None, talk.talks["bank"], links, labels=ALL, dims={"shop": dim})


def pool_what_a_guest_says(spec: object, columns: Tensor, *, dim: int = 8) -> tuple[Pool | ProtocolError, Talk]:
    talk = Talk(["bank", "shop"])

    def lead(links: Mapping[str, Link]) -> Pool | ProtocolError:
        try:
            return gather_columns(host_of(talk, links, dim=dim))
        except ProtocolError as error:
            return error

    def follow(links: Mapping[str, Link]) -> None:
        links["bank"].send("columns", columns, scalars={"encoder": json.dumps(spec)})

    return talk.run({"bank": lead, "shop": follow})["bank"], talk


def spec_of(schema: Schema, *, name: str | None = None, dim: int = 8) -> dict[str, Any]:
    return EncoderSpec.choose(name, schema, dim=dim).to_json()


@pytest.mark.parametrize(("schema", "columns"), [(TABLE, COLUMNS), (IMAGE, PIXELS)])
def test_columns_that_fit_what_is_said_of_them_are_pooled(schema: Schema, columns: Tensor) -> None:
    pool, _ = pool_what_a_guest_says(spec_of(schema), columns)
    assert isinstance(pool, Pool)
    assert pool.specs["shop"].schema == schema
    assert torch.equal(pool.columns[0], columns)


def with_categories(*sizes: int) -> dict[str, Any]:
    """As in a message; a spec of that size is not made here."""
    return spec_of(TABLE) | {"schema": {"kind": "table", "numeric": 3 - len(sizes), "categories": list(sizes)}}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (with_categories(10**8), f"a column has 100,000,000 categories, expected at most {MOST_CODES:,}"),
        (with_categories(10**10), "has 10,000,000,000 categories"),
        (with_categories(3), "has category codes that are not whole numbers below the number of categories"),
        (spec_of(TABLE, dim=9), "describes 1 encoders of dim 9 and agreed on one of dim 8"),
        (spec_of(TABLE) | {"dim": 10**12}, "describes 1 encoders of dim 1000000000000 and agreed on one of dim 8"),
        (spec_of(TABLE) | {"copies": 10**9}, "describes 1000000000 encoders of dim 8"),
        (spec_of(TABLE) | {"copies": "x"}, "copies is 'x' and should be a whole number"),
        (spec_of(TABLE) | {"output": 3}, "output is 3 and should be one of halves, whole"),
        (spec_of(TABLE) | {"name": "n" * 200_000}, "cannot be used"),
        (spec_of(TABLE) | {"more": 1}, "it has an unknown field 'more'"),
        ([], "it is \\[\\] and should be an object"),
    ],
)
def test_what_a_guest_says_of_its_table_is_refused_before_anything_is_built(spec: object, sentence: str) -> None:
    error, talk = pool_what_a_guest_says(spec, COLUMNS)
    assert isinstance(error, ProtocolError)
    with pytest.raises(ProtocolError, match=f"'shop'.*{sentence}"):
        raise error
    assert len(str(error)) < 400
    assert not talk.ledger("bank").entries


def with_code(code: float) -> Tensor:
    columns = COLUMNS.clone()
    columns[1, 2] = code
    return columns


@pytest.mark.parametrize("code", [-1.0, 4.0, 0.5])
def test_a_category_code_that_the_sizes_do_not_allow_is_refused_in_training(code: float) -> None:
    error, talk = pool_what_a_guest_says(spec_of(TABLE), with_code(code))
    assert isinstance(error, ProtocolError)
    assert not talk.ledger("bank").entries


@pytest.mark.parametrize("code", [-1.0, 4.0, 0.5])
def test_a_category_code_that_the_sizes_do_not_allow_is_refused_in_prediction(code: float) -> None:
    talk = Talk(["bank", "shop"])

    def lead(links: Mapping[str, Link]) -> Tensor:
        me = host_of(talk, links)
        me.head = PooledModel({"shop": EncoderSpec.choose(None, TABLE)}, 2)
        return predict(me, ALL)

    def follow(links: Mapping[str, Link]) -> None:
        links["bank"].receive("request")
        links["bank"].send("columns", with_code(code))

    with pytest.raises(ProtocolError, match="bank: 'columns' from 'shop' has category codes"):
        talk.run({"bank": lead, "shop": follow})


def wide_image(schema: ImageSchema) -> dict[str, Any]:
    return spec_of(schema, name="linear", dim=65_536)


@pytest.mark.parametrize(
    ("spec", "columns", "dim", "sentence"),
    [
        (wide_image(ImageSchema(1, 128, 128, (0.5,), (0.5,))), (1, 128, 128), 65_536, "1,073,807,360 parameters"),
        (spec_of(IMAGE, name="raw"), (1, 8, 8), 8, "an encoder 'raw' that is none for training"),
        (spec_of(IMAGE, name="bins"), (1, 8, 8), 8, "an encoder that does not fit its columns"),
        (spec_of(replace(IMAGE, std=(0.0,))), (1, 8, 8), 8, "an encoder that does not fit its columns"),
        (spec_of(replace(IMAGE, mean=(0.5,) * 3, std=(1.0,) * 3)), (1, 8, 8), 8, "does not fit its columns"),
    ],
    ids=["too large", "raw", "bins", "std 0", "three means for one channel"],
)
def test_an_encoder_of_images_that_the_host_cannot_build_is_refused(
    spec: object, columns: tuple[int, ...], dim: int, sentence: str
) -> None:
    error, talk = pool_what_a_guest_says(spec, torch.zeros(3, *columns, dtype=torch.uint8), dim=dim)
    assert isinstance(error, ProtocolError)
    assert sentence in str(error)
    assert not talk.ledger("bank").entries
