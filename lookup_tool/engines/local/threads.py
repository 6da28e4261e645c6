"""How many threads faiss uses."""

from collections.abc import Iterator
from contextlib import contextmanager

import faiss


@contextmanager
def one_thread() -> Iterator[None]:
    """Let faiss use one OpenMP thread in this block.

    The setting is per calling thread, and faiss's default is several times slower for a single
    query. What the user had set is put back.
    """
    before = faiss.omp_get_max_threads()
    if before == 1:
        yield
        return
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
