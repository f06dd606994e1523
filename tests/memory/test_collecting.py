import gc
import os
import threading

import pytest

from layoutkit.memory.collecting import collection_paused


def test_the_collector_is_as_it_was():
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled(), "the outer one ends it"
    assert gc.isenabled()
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_ends_it():
    with pytest.raises(ZeroDivisionError), collection_paused():
        1 / 0  # noqa: B018
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_forked_meanwhile_by_another_thread_collects():
    paused, forked = threading.Event(), threading.Event()

    def plan():
        with collection_paused():
            paused.set()
            forked.wait()

    thread = threading.Thread(target=plan)
    thread.start()
    paused.wait()
    assert not gc.isenabled()
    child = os.fork()
    if not child:
        os._exit(not gc.isenabled())
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()
