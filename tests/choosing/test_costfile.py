"""The text of a cost table: what is written is read, what is damaged, foreign or nonsense is refused."""

import json
import zlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tables import IDENTITY, TABLE

from layoutkit.choosing import costfile, keys
from layoutkit.choosing.costfile import Cost, CostFile, dump, merge, parse

seconds = st.floats(1e-9, 1e3)
a_cost = st.builds(Cost.of, st.lists(seconds, min_size=1, max_size=9))
texts = st.text(max_size=20) | st.sampled_from(['": {', '": {\n', '\\": {', ',\n  "', "}}\n", "\ud800"])
problems = texts.filter(lambda key: keys.why_invalid(key) is None)  # "conv" alone is none
some_costs = st.dictionaries(problems, st.dictionaries(texts, a_cost), max_size=5)


@given(some_costs)
def test_what_is_written_is_read(costs):
    text = dump(costs, IDENTITY)
    assert parse(text, IDENTITY) == costs
    assert json.loads(text)["costs"].keys() == costs.keys(), "JSON to everyone else"
    assert dump(parse(text, IDENTITY), IDENTITY) == text


def test_people_can_read_it():
    assert dump(TABLE, IDENTITY).splitlines()[1:] == [
        ' "machine": {"cpu": "a", "caches": [1, 2], "cores": 2, "isa": "avx2", "version": "0", "build": "00"},',
        ' "microseconds": ["least", "median", "spread", "count"],',
        ' "costs": {',
        '  "filter o1 c1 k1 g1 f32": {',
        '   "direct": [1.5, 2, 0.1, 3],',
        '   "im2col": [2.5, 3, 0, 7]},',
        '  "reorder 2x3 ab>ba x32 t1": {',
        '   "store": [0.1, 0.2, 0.03, 100]}}}',
    ]


def test_every_truncation_is_refused():
    text = dump(TABLE, IDENTITY)
    for end in range(len(text)):
        with pytest.raises(ValueError):
            parse(text[:end], IDENTITY)


def test_every_bit_flip_is_refused():
    good = dump(TABLE, IDENTITY).encode()
    assert parse(good.decode(), IDENTITY) == TABLE
    for at in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[at] ^= 1 << bit
            try:
                found = CostFile(bad.decode())
            except ValueError:
                continue
            pytest.fail(f"byte {at}, bit {bit}: {dict(found)} from {bytes(bad)!r}")


@given(st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_any_text_is_refused(text):
    with pytest.raises(ValueError):
        parse(text, IDENTITY)


def sealed(body):
    """The text of `body` with a head and a checksum that fit, for an adversary who can compute them."""
    crc = zlib.crc32(body.encode(errors="surrogatepass"))
    return f'{{"layoutkit": {costfile.VERSION}, "crc32": {crc},\n{body}'


def sealed_costs(problems):
    """The same, around what stands between the braces of the costs."""
    return sealed(f' "machine": {json.dumps(IDENTITY)},\n{costfile._FIELDS}\n "costs": {{\n{problems}}}}}\n')


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(max_size=5), x, max_size=4),
    max_leaves=10,
)  # fmt: skip
snippets = st.sampled_from(['  "p": {\n', '   "c": [1, 2, 3, 4]', "}", ",\n", '  "q": {\n', "{", '"', "\\", "[" * 5000])
nonsense = (
    st.lists(snippets | values.map(json.dumps), max_size=8).map("".join)
    | values.map(lambda v: f'  "p": {{\n   "c": {json.dumps(v)}}}')
    | st.text()
)


@given(nonsense)
def test_sealed_nonsense_is_refused_or_is_costs(problems):
    try:
        found = parse(sealed_costs(problems), IDENTITY)
    except ValueError:
        return
    for candidates in found.values():
        for c in candidates.values():
            assert 0 < c.min <= c.median <= costfile.MAX_SECONDS and c.spread >= 0 and c.count >= 1
    assert parse(dump(found, IDENTITY), IDENTITY) == found


@given(st.text() | values.map(json.dumps))
def test_sealed_text_is_refused(body):
    with pytest.raises(ValueError):
        parse(sealed(body), IDENTITY)


@pytest.mark.parametrize("fields", [
    [1, 2, 0], [1, 2, 0, 0], [1, 2, 0, True], [0, 2, 0, 1], [-1, 2, 0, 1], [2, 1, 0, 1], [1, 1e300, 0, 1],
    [float("nan"), 1, 0, 1], [1, 1, float("inf"), 1], [1, 2, -1, 1], [10**400, 10**400, 0, 1], [1, 2, 0, 2**60],
    ["1", 2, 0, 1], None,
])  # fmt: skip
def test_no_cost_is_made_of(fields):
    line = '   "c": [1, 2, 0, 3]'
    text = sealed_costs(f'  "problem": {{\n{line},\n   "candidate": {json.dumps(fields)}}},\n  "good": {{\n{line}}}')
    assert parse(text, IDENTITY) == {"good": {"c": Cost(1e-6, 2e-6, 0.0, 3)}}
    book = CostFile(text)
    assert not book.describe_dropped() and book["problem"] == {} == book["problem"]
    text = book.describe_dropped()
    assert "1 of its problems are not used, such as 'problem': cost of 'candidate' for 'problem'" in text
    assert list(book) == ["good"]


@pytest.mark.parametrize("lines, why", [
    ('"c": [1, 2, 0, 3], "c": [1, 2, 0, 3]', "a candidate stands twice"),
    (", ".join(f'"{i}": [1, 2, 0, 3]' for i in range(600)), "over 512 candidates"),
    (f'"{"c" * 300}": [1, 2, 0, 3]', "names of over 200 characters"),
    ('"c": [1, 2, 0, 3]}, {', "Extra data"),
    ('"c": {"c": [1, 2, 0, 3]}', "expected [least, median, spread, count]"),
])  # fmt: skip
def test_a_problem_of_nonsense_is_dropped_and_counted(lines, why):
    book = CostFile(sealed_costs(f'  "bad": {{\n{lines}}},\n  "good": {{\n"c": [1, 2, 0, 3]}}'))
    assert list(book.all_costs()) == ["good"]
    assert list(book.dropped) == ["bad"] and why in book.describe_dropped()


def test_keys_are_checked_when_a_table_is_read():
    line = '{\n   "c": [1, 2, 0, 3]}'
    bad = ["conv n1 t-1", "reorder 1x2 ab>ba x32 t0", "k" * 5000]
    book = CostFile(sealed_costs(",\n".join(f'  "{key}": {line}' for key in [*bad, "good"])))
    assert list(book) == ["good"] and list(book.dropped) == bad
    assert "3 of its problems are not used, such as 'conv n1 t-1': not the key of a conv" in book.describe_dropped()
    assert len(book.describe_dropped()) < 500


def test_errors_about_large_nonsense_are_short():
    body = f' "machine": {{"cpu": "{"x" * 10**6}"}},\n{costfile._FIELDS}\n "costs": {{\n}}}}\n'
    with pytest.raises(ValueError, match="another machine") as caught:
        parse(sealed(body), IDENTITY)
    assert len(str(caught.value)) < 3000


def test_nothing_is_parsed_before_it_is_asked_for():
    line = '   "c": [1, 2, 0, 3]'
    book = CostFile(sealed_costs(f'  "good": {{\n{line}}},\n  "bad": {{\n   "c": 7}}'))
    assert sorted(book) == ["bad", "good"] and len(book) == 2 and "good" in book and "c" not in book
    assert book["good"] == {"c": Cost(1e-6, 2e-6, 0.0, 3)} and book["good"] is book["good"]
    assert not book.dropped


def test_a_problem_twice_is_refused():
    line = '  "p": {\n   "c": [1, 2, 0, 3]}'
    with pytest.raises(ValueError, match="'p': twice"):
        CostFile(sealed_costs(f"{line},\n{line}"))


@given(some_costs, st.sampled_from(sorted(IDENTITY)), st.integers())
def test_another_machines_table_is_refused_and_told_why(costs, field, value):
    assume(value != IDENTITY[field])
    with pytest.raises(ValueError, match=f"another machine or build: {field} .* there and {value} here"):
        parse(dump(costs, IDENTITY), IDENTITY | {field: value})


def test_nesting_without_end_is_refused():
    with pytest.raises(ValueError):
        parse("[" * 200_000, IDENTITY)
    for text in ("[" * 200_000, f'   "c": {"[" * 200_000}}}'):
        book = CostFile(sealed_costs(f'  "p": {{\n{text}'))
        assert book.all_costs() == {} and len(book.dropped) == 1
    assert "nested too deeply" in book.describe_dropped()


def test_a_table_without_its_end_is_refused():
    with pytest.raises(ValueError, match="laid out as"):
        CostFile(sealed(f' "machine": {json.dumps(IDENTITY)},\n{costfile._FIELDS}\n "costs": {{\n  "p": {{\n'))


def test_what_is_too_much_for_a_file_keeps_the_best_of_each_problem():
    costs = {f"p{i}": {f"c{k}": Cost.of([k + 1.0]) for k in range(40)} for i in range(50)}
    whole = costfile.dump_within(10**9, costs, IDENTITY)
    assert whole == dump(costs, IDENTITY).encode()
    for most in (len(whole) - 1, len(whole) // 8, len(whole) // 20):
        text = costfile.dump_within(most, costs, IDENTITY)
        assert most / 5 < len(text) <= most
        found = parse(text.decode(), IDENTITY)
        assert all(found[p] == {name: costs[p][name] for name in list(costs[p])[: len(found[p])]} for p in costs)
    with pytest.raises(ValueError, match="50 problems take more than 100 bytes"):
        costfile.dump_within(100, costs, IDENTITY)


# ---- costs


def test_least_median_spread_and_count():
    assert Cost.of([4e-6, 1e-6, 2e-6, 9e-6, 3e-6]) == Cost(1e-6, 3e-6, 1e-6, 5)
    assert Cost.of([0.0]).min > 0


@given(a_cost, a_cost, a_cost)
def test_merging_costs_is_a_mean_and_a_least(a, b, c):
    assert a.merge(b) == b.merge(a)
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    assert left.min == right.min == min(a.min, b.min, c.min)
    assert left.count == right.count == a.count + b.count + c.count
    assert left.median == pytest.approx(right.median, rel=2e-3)
    for k in (1, 2):
        ends = sorted((a[k], b[k]))
        assert ends[0] * 0.999 <= a.merge(b)[k] <= ends[1] * 1.001
    assert parse(dump({"p": {"c": left}}, IDENTITY), IDENTITY) == {"p": {"c": left}}


@given(some_costs, some_costs)
def test_merging_tables_loses_nothing(a, b):
    def union(x, y):
        out = {}
        merge(out, x)
        merge(out, y)
        return out

    both = union(a, b)
    assert both == union(b, a)
    assert set(both) == set(a) | set(b)
    assert all(set(both[p]) == set(a.get(p, {})) | set(b.get(p, {})) for p in both)
    assert union(a, {}) == a


def test_counts_never_outgrow_the_format():
    c = Cost(1.0, 1.0, 0.0, costfile.MAX_COUNT)
    assert parse(dump({"p": {"c": c.merge(c)}}, IDENTITY), IDENTITY)
