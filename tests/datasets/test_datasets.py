"""The table of data sets, and what every loader says when its files are not there."""

from pathlib import Path

import pytest

from vesica.datasets import DATASETS, load_dataset
from vesica.errors import InputError

WITH_FILES = sorted(set(DATASETS) - {"credit"})


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="there is no data set 'cifar-10'; did you mean 'cifar10'"):
        load_dataset("cifar-10", None)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_a_source_tells_in_one_line_what_it_is_and_where_to_get_it(name):
    source = DATASETS[name]
    for text in (source.about, source.where, *source.files):
        assert text
        assert "\n" not in text
    assert source.files
    assert bool(source.folder) == (name != "credit")


@pytest.mark.parametrize("name", WITH_FILES)
def test_a_missing_file_is_one_sentence_with_set_file_place_and_origin(name, tmp_path):
    source = DATASETS[name]
    with pytest.raises(InputError) as caught:
        load_dataset(name, tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{name}: cannot find")
    assert "\n" not in message
    for part in (*source.files, str(tmp_path / source.folder), source.where):
        assert part in message


@pytest.mark.parametrize("name", WITH_FILES)
def test_without_a_data_directory_one_is_asked_for(name):
    with pytest.raises(InputError, match=f"^{name}: give a data directory whose folder {DATASETS[name].folder}"):
        load_dataset(name, None)


def test_the_bundled_set_needs_no_data_directory():
    assert load_dataset("credit", None).sha256 == load_dataset("credit", Path("nowhere")).sha256
