"""The cache of plans: bounded, counted, the oldest first, one value a key whatever threads do."""

import gc
import threading
import weakref
from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from layoutkit.choosing.cache import MAX_PLANS, Cache, plans

steps = st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60)


@given(st.integers(1, 6), steps)
def test_it_is_a_bounded_dictionary_whose_oldest_entries_go_first(most, steps):
    cache, model, made = Cache(most), OrderedDict(), 0
    for put, key in steps:
        if put and key not in model:
            made += 1
            if len(model) == most:
                model.popitem(last=False)
            model[key] = made
        if put:
            assert cache.put(key, made) == model[key], "what is there stays"
        else:
            assert cache.get(key) == model.get(key)
        assert list(cache.items()) == list(model.items())
        assert (cache.made, cache.dropped) == (made, made - len(model))


def test_what_is_made_is_made_once_until_it_is_dropped():
    calls, cache = [], Cache(2)

    def make(*given):
        calls.append(given)
        return object()

    first = cache.of(make, 1, "a")
    assert cache.of(make, 1, "a") is first and calls == [(1, "a")]
    other = cache.of(lambda *given: object(), 1, "a")
    assert other is not first, "another maker, another entry"
    cache.of(make, 2)
    assert cache.of(make, 1, "a") is not first and calls == [(1, "a"), (2,), (1, "a")]


def test_what_fails_is_not_kept():
    cache = Cache(2)
    for _ in range(2):
        try:
            cache.of(lambda: 1 // 0)
        except ZeroDivisionError:
            continue
    assert not cache and cache.made == 0


def test_what_is_dropped_is_let_go():
    class Value:
        pass

    cache = Cache(1)
    gone = weakref.ref(cache.put(1, Value()))
    cache.put(2, Value())
    gc.collect()
    assert gone() is None


def test_threads_that_make_the_same_get_the_same():
    cache, n = Cache(64), 8
    together, found = threading.Barrier(n), [[] for _ in range(n)]

    def make(key):
        together.wait()  # all of them have looked, and none has put anything there
        return object()

    def work(mine):
        mine.extend(cache.of(make, key) for key in range(20))

    run(*((work, mine) for mine in found))
    assert all(mine == found[0] for mine in found)
    assert (cache.made, len(cache)) == (20, 20)


def test_threads_never_make_it_larger_nor_miscount():
    class Key:
        """A key whose comparison is Python, so that threads take turns in the middle of an insertion."""

        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return self.n % 3

        def __eq__(self, other):
            return self.n == other.n

    cache, n, each, sizes = Cache(16), 4, 300, []

    def work(first):
        for i in range(each):
            cache.put(Key(first + i), i)
            sizes.append(len(cache))

    run(*((work, each * t) for t in range(n)))
    assert max(sizes) <= 16
    assert cache.made == n * each and cache.dropped == n * each - len(cache)


def run(*works):
    threads = [threading.Thread(target=work, args=args) for work, *args in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def test_plans_are_kept_in_one_that_is_bounded():
    assert isinstance(plans, Cache) and plans.most == MAX_PLANS and len(plans) <= MAX_PLANS
