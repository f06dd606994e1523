"""The tables that come with the package: small, of candidates that there are, and a damaged one stops nothing."""

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import IDENTITY, TABLE

from layoutkit._core.runtime import registry
from layoutkit.bench.listed import candidates_of, shipped_features, shipped_log_errors
from layoutkit.choosing import keys, model, packaged, ranking, shipped
from layoutkit.choosing.cache import MAX_PLANS, Cache
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.shipped import Shipped, dump

MOST = 250_000  # bytes of one, and
MOST_TOGETHER = 1_000_000  # of all
SOME = 150  # of a table's problems: drawn anew each time
FILES = sorted(packaged.DATA.glob("costs-*"))


def test_there_is_one_for_each_instruction_set():
    assert {packaged.file(isa) for isa in registry.isas()} <= set(FILES)
    assert sum(file.stat().st_size for file in FILES) < MOST_TOGETHER


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_is_small_and_whole(file):
    assert file.stat().st_size < MOST
    text = file.read_text()
    found = Shipped(text)
    assert file.name.startswith(f"costs-{found.machine['isa']}-") and found.machine == shipped.machine(file)
    assert 2 * len(found) == text.count(" | ") > 200, "every key is one"
    assert all(found.values()), "every line is one"
    assert dump(found, found.machine, found.log_errors, found.features) == text


def runs(file) -> bool:
    """Whether this machine has, or emulates, the instruction set of a table."""
    return shipped.machine(file)["isa"] in {
        isa.removesuffix("_emulated") for isa in (*registry.isas(), *registry.isas(emulated=True))
    }


HERE = [file for file in FILES if runs(file)]


@pytest.mark.parametrize("file", HERE, ids=lambda file: file.name)
def test_its_names_are_candidates(file, monkeypatch, some):
    """On the machine where it was measured: what is a candidate depends on the sizes of caches."""
    monkeypatch.setattr(ranking, "plans", Cache(MAX_PLANS))
    found = shipped.read(file)
    for key in some(found):
        assert model.problem_of(key, registry.isa()), key
        unknown = found[key].keys() - candidates_of(found.machine, key)
        assert not unknown, f"{key}: {unknown}; python bench/choice.py --renew leaves them out"


@pytest.mark.parametrize("file", HERE, ids=lambda file: file.name)
def test_it_says_how_far_the_estimates_of_today_are_off(file):
    seed = random.randrange(2**32)
    table = shipped.read(file)
    for key in random.Random(seed).sample(list(table), SOME):
        today = shipped_log_errors(table, table.machine, key)
        told = table.log_errors(key)
        renew = f"{key}, seed {seed}: run python bench/choice.py --renew"
        assert table.features(key) == pytest.approx(shipped_features(key), abs=0.0051), renew
        assert told.keys() == today.keys(), renew
        assert all(abs(told[name] - today[name]) < 0.0051 for name in told), renew


@given(st.dictionaries(
    st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=20)
    .filter(lambda key: not keys.why_invalid(key)),
    st.dictionaries(st.text("a >(,)7|\\", max_size=9), st.floats(1e-12, 1e6), min_size=1, max_size=5), max_size=5,
), st.data())  # fmt: skip
def test_what_is_written_is_read(seconds, data):
    costs = {key: {name: Cost(s, 2 * s, s, 7) for name, s in some.items()} for key, some in seconds.items()}
    errors = {
        key: data.draw(st.dictionaries(st.sampled_from(sorted(some)), st.floats(-9.2, 9.2)))
        for key, some in seconds.items()
    }
    features = {key: data.draw(st.lists(st.floats(-1e6, 1e6), max_size=3)) for key in seconds}
    text = dump(costs, IDENTITY, errors.__getitem__, features.__getitem__)
    found = Shipped(text)
    assert found.machine == IDENTITY and found.keys() == costs.keys()
    for key, some in costs.items():
        assert found[key].keys() == some.keys()
        for name, cost in some.items():
            assert found[key][name].min == pytest.approx(cost.min, rel=0.0051)
        assert found.log_errors(key) == pytest.approx(errors[key], abs=0.0051)
        assert found.features(key) == pytest.approx(features[key], abs=0.0051)
    assert dump(found, IDENTITY, found.log_errors, found.features) == text


def test_people_can_read_it():
    errors = {"direct": -0.2, "store": 1.234, "im2col": 0.0}
    assert dump(TABLE, IDENTITY, lambda key: errors, lambda key: (0, 1.234, -2)).splitlines()[1:-1] == [
        "0 direct",
        "1 im2col",
        "2 store",
        "",
        "filter o1 c1 k1 g1 f32 | 0:1.5:-20 1:2.5:0 | 0 123 -200",
        "reorder 2x3 ab>ba x32 t1 | 2:0.1:123 | 0 123 -200",
    ]


@pytest.mark.parametrize("costs", [{"a\nb": {"x": 1}}, {"a": {"x\ny": 1}}, {"conv nonsense": {"x": 1}}])
def test_what_no_text_can_hold_is_not_written(costs):
    with pytest.raises(ValueError, match="a key"):
        dump({key: {name: Cost(s, s, 0.0, 1) for name, s in some.items()} for key, some in costs.items()}, IDENTITY)


def sealed(body: str) -> str:
    return f"{body}crc32 {zlib.crc32(body.encode())}\n"


BODY = dump(TABLE, IDENTITY).rpartition("crc32")[0]


@pytest.mark.parametrize("text", [
    "", "\n", "{}", BODY, sealed(BODY)[:-5], sealed(BODY).replace("2.5", "3.5"), sealed(BODY).replace("2.5", "\ud800"),
    sealed(BODY.replace("costs 3", "costs 2")), sealed(BODY.replace("1 im2col", "2 im2col")),
    sealed(BODY.replace("\n\n", "\n")), sealed(BODY.replace('{"cpu"', "{cpu")),
    sealed(BODY.replace("{", "[" * 9999 + "{")), sealed(BODY.splitlines()[0].partition("{")[0] + "3\n\n"),
])  # fmt: skip
def test_what_is_damaged_is_refused(text):
    with pytest.raises(ValueError):
        Shipped(text)


@given(st.integers(0, len(BODY) - 1), st.characters(codec="utf-8"))
def test_what_is_changed_is_refused(at, c):
    if BODY[at] != c:
        with pytest.raises(ValueError):
            Shipped(sealed(BODY).replace(BODY, BODY[:at] + c + BODY[at + 1 :]))


NONE = [
    "2:0",
    "2:-1",
    "3:1",
    "-1:1",
    "2:nan",
    "2:1e999",
    "2:1e13",
    "2:.",
    "2",
    "2:1,2:1",
    "2:1:",
    "2:1:x",
    "2:1:0.5",
    "2:1:99999",
    "",
    " ",
]


@pytest.mark.parametrize("line", NONE)
def test_costs_that_are_none_are_left_out(line):
    found = Shipped(sealed(BODY.replace("2:0.1", line)))
    assert found["reorder 2x3 ab>ba x32 t1"] == {} and len(found["filter o1 c1 k1 g1 f32"]) == 2


def test_keys_that_are_none_are_left_out():
    found = Shipped(sealed(BODY.replace("reorder 2x3", "reorder 0x3") + "no line of a table\n"))
    assert list(found) == ["filter o1 c1 k1 g1 f32"] and "reorder 0x3 ab>ba x32 t1" not in found


def test_a_file_that_cannot_be_is_not_read(tmp_path):
    (tmp_path / "large").write_bytes(bytes(shipped.MAX_BYTES + 1))
    for path in (tmp_path, tmp_path / "large", tmp_path / "none"):
        with pytest.raises((OSError, ValueError)):
            shipped.read(path)


def test_neighbours_are_found_by_the_features_that_it_tells():
    isa = registry.isa()
    table = packaged.read(packaged.file(isa))
    for what in ("conv", "reorder", "filter"):
        told, parsed = model.Neighbours.shipped(table, what, isa), model.Neighbours(list(table), what, isa)
        key = random.choice([key for key in table if keys.operation(key) == what])
        features = model.problem_of(key, isa)[1]
        assert [d for _, d in told.nearest(features)] == pytest.approx(
            [d for _, d in parsed.nearest(features)], abs=0.0051 * len(features)
        )


@pytest.mark.parametrize("features", ["", "1 2 3", "x"])
def test_without_features_it_parses_its_problems(features):
    def of(key):
        return [1.0, 2.0] if key.startswith("reorder") else []

    text = dump({"reorder 2x3 ab>ba x32 t1": {}, "reorder 2x4 ab>ba x32 t1": {}}, IDENTITY, features=of)
    body = text.rpartition("crc32")[0].replace("100 200", features, 1)
    table = Shipped(sealed(body))
    found = model.Neighbours.shipped(table, "reorder", registry.isa())
    assert [key for key, _ in found.nearest(model.problem_of("reorder 2x4 ab>ba x32 t1", registry.isa())[1])] == [
        "reorder 2x4 ab>ba x32 t1", "reorder 2x3 ab>ba x32 t1",
    ]  # fmt: skip
