"""One batch gives one noisy gradient: of threads, of calls within calls and of copies of the process, only one continues."""

from __future__ import annotations

import os
import threading

import pytest

from dpcli.base.errors import InputError
from dpcli.train.step.loop import Trainer
from tests.train.loop.conftest import Begin, model_of, records


def test_of_two_threads_one_has_the_gradient(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes while the first is at work."""
    private, real, inside, go_on = begin(model_of(), records()), Trainer.backward, threading.Event(), threading.Event()

    def slow(*given: object) -> None:
        inside.set()
        go_on.wait(30.0)
        real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(Trainer, "backward", slow)
    batch = next(private)
    first = threading.Thread(target=private.backward, args=(batch,))
    first.start()
    assert inside.wait(30.0)
    for call in (lambda: private.backward(batch), private.optimizer.step, private.finish, lambda: next(private)):
        with pytest.raises(InputError):
            call()
    go_on.set()
    first.join()
    private.optimizer.step()
    assert private.taken == 1


def test_a_call_within_a_call_is_refused(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    private, real = begin(model_of(), records()), Trainer.backward

    def twice(*given: object) -> None:
        monkeypatch.setattr(Trainer, "backward", real)
        private.backward(batch)

    batch = next(private)
    monkeypatch.setattr(Trainer, "backward", twice)
    with pytest.raises(InputError, match="the previous call has not returned"):
        private.backward(batch)
    with pytest.raises(InputError, match="broke off"):
        private.finish()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be copied here")
def test_a_copy_of_the_process_takes_no_step(begin: Begin) -> None:
    private = begin(model_of(), records())
    private.step(next(private))
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (lambda: next(private), private.finish):
            try:
                call()
            except InputError:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    for batch in private:
        private.step(batch)
    assert private.finish().steps == 4
