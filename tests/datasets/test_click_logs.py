"""Avazu and Criteo in their official formats, written small."""

import numpy as np
import pytest

from vesica.data.table import Text
from vesica.datasets import load_dataset
from vesica.datasets.avazu import ACTIVE, FIELDS, NUMERIC, PASSIVE
from vesica.errors import InputError

HEADER = (
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,device_id,"
    "device_ip,device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21"
)
ROWS = (
    "1000009418151094273,0,14102100,1005,0,1fbe,f384,2890,ecad,7801,07d7,a99f,ddd2,4495,1,2,15706,320,50,1722,0,35,-1,79",
    "10000169349117863715,1,14102123,1002,1,1fbe,f384,2890,ecad,7801,07d7,a99f,9680,711e,1,0,15704,300,250,1722,0,35,100084,79",
)


@pytest.fixture
def put(tmp_path):
    def put(path, *lines):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("\n".join(lines) + "\n")
        return tmp_path

    return put


def strings(column):
    return [None if code < 0 else column.values[code] for code in column.codes]


def test_avazu_has_two_views_of_mixed_type_as_in_fedhssl(put):
    data = load_dataset("avazu", put("avazu/train.csv", HEADER, *ROWS))
    active, passive = data.views["active"].columns, data.views["passive"].columns
    assert (tuple(active), tuple(passive)) == (ACTIVE, PASSIVE)
    for name, column in {**active, **passive}.items():
        assert isinstance(column, Text) != (name in NUMERIC)
    assert active["C15"].tolist() == [320, 300]
    assert strings(active["C20"]) == ["-1", "100084"]
    assert data.label.tolist() == [0, 1]


def test_avazu_three_has_the_fields_in_order_with_the_hour_of_the_day(put):
    data = load_dataset("avazu-three", put("avazu/train.csv", HEADER, *ROWS))
    assert [len(view.columns) for view in data.views.values()] == [7, 7, 8]
    assert tuple(name for view in data.views.values() for name in view.columns) == FIELDS
    assert all(isinstance(column, Text) for view in data.views.values() for column in view.columns.values())
    assert strings(data.views["first"].columns["hour"]) == ["0", "23"]


@pytest.mark.parametrize("name", ["avazu", "avazu-three"])
@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ((HEADER.replace("C14,", ""), *ROWS), "lacks the column 'C14'"),
        ((HEADER, ROWS[0][:60]), "has 10 fields in line 2 where 24 are expected"),
        ((HEADER,), "has no rows"),
        ((HEADER, ROWS[0].replace(",0,14102100", ",2,14102100")), "has a label 2 where only 0, 1 are known"),
        (
            (HEADER, ROWS[0].replace(",0,14102100", ",x,14102100")),
            "a value in column 'click' that is not a number",
        ),
    ],
)
def test_a_truncated_or_wrong_avazu_file_is_one_sentence(put, name, lines, problem):
    with pytest.raises(InputError, match=rf"^{name}: .*train\.csv .*{problem}.*; replace it"):
        load_dataset(name, put("avazu/train.csv", *lines))


def test_a_foreign_hour_is_refused(put):
    with pytest.raises(InputError, match="'hour' that is not YYMMDDHH"):
        load_dataset("avazu-three", put("avazu/train.csv", HEADER, ROWS[0].replace("14102100", "noon")))


def criteo_line(click, counts, categories):
    return "\t".join([str(click), *counts, *categories])


def test_criteo_has_categories_and_raw_counts_with_missing_values(put):
    lines = (
        criteo_line(1, ["", "-2", *["7"] * 11], ["68fd1e64", "", *["aa"] * 24]),
        criteo_line(0, ["1382", *["0"] * 12], ["287e684f", *["bb"] * 24, ""]),
    )
    data = load_dataset("criteo", put("criteo/dac_sample.txt", *lines))
    active, passive = data.views["active"].columns, data.views["passive"].columns
    assert list(active) == [f"C{number}" for number in range(1, 27)]
    assert list(passive) == [f"I{number}" for number in range(1, 14)]
    assert strings(active["C1"]) == ["68fd1e64", "287e684f"]
    assert (strings(active["C2"]), strings(active["C26"])) == ([None, "bb"], ["aa", None])
    assert np.isnan(passive["I1"][0])
    assert passive["I1"][1] == 1382
    assert passive["I2"].tolist() == [-2, 0]
    assert data.label.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1\t2\t3", "has 3 fields in line 1 where 40 are expected"),
        (criteo_line(1, ["x"] * 13, ["a"] * 26), "has a value among label and counts that is not a number"),
        (criteo_line("", ["1"] * 13, ["a"] * 26), "has a label nan where only 0, 1 are known"),
    ],
)
def test_a_truncated_or_wrong_criteo_file_is_one_sentence(put, line, problem):
    with pytest.raises(InputError, match=rf"^criteo: .*dac_sample\.txt {problem}"):
        load_dataset("criteo", put("criteo/dac_sample.txt", line))
