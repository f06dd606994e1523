"""bench/mutants.py can plant what it lists."""

import pytest
from mutants import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.what)
def test_the_text_stands_once_in_its_file_and_its_tests_exist(mutant):
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.new != mutant.old and all((ROOT / t).exists() for t in mutant.tests.split())
