"""Which functions take a lock outside of the database, as they are written."""

from __future__ import annotations

import pytest

from auditor.program.tree import words_of
from auditor.program.turns import takes_turns
from auditor.python import nodes
from tests.python.compact import facts_of


def _takes(source: str) -> bool:
    body = facts_of(source).module.body
    (function,) = (part for part in body if isinstance(part, nodes.Function))
    return takes_turns(function, words_of(body)[1][id(function)])


@pytest.mark.parametrize(
    "source",
    [
        "def send():\n    if redis.set('sends', token, nx=True, ex=60): work()",
        "def send():\n    if not self.client.setnx('sends', 1): return",
        "def send():\n    if caches['default'].add('sends', 1): work()",
        "async def send():\n    async with redis.lock('sends', timeout=60): work()",
        "def send():\n    with FileLock('/run/sends'): work()",
        "def send():\n    fcntl.flock(file, fcntl.LOCK_EX)",
        "def send():\n    if try_acquire_lock('sends'): work()",
        "def send():\n    if elector.is_leader(): work()",
        "@with_lock('sends')\ndef send(): work()",
        "@singleton\ndef send(): work()",
        "@task(base=Singleton)\ndef send(): work()",
        "@app.task(lock_expiry=60)\ndef send(): work()",
    ],
)
def test_a_lock_that_is_kept_elsewhere(source: str) -> None:
    assert _takes(source)


@pytest.mark.parametrize(
    "source",
    [
        "def send():\n    lock = threading.Lock()\n    with lock: work()",
        "async def send():\n    async with self._lock: work()",
        "def send():\n    self._lock.acquire(timeout=5)",
        "def send():\n    seen.add(1)",
        "def send():\n    Job.objects.select_for_update(skip_locked=True).first()",
        "def send():\n    if is_locked('sends'): return",
        "def send():\n    with block('sends'): work()",
        "@task(queue='sends')\ndef send(): work()",
    ],
)
def test_none_that_keeps_other_processes_out(source: str) -> None:
    assert not _takes(source)
