"""What a search may try: along one axis at a time, from the choice that is best so far.

The axes are those of Triton's Model Analyzer in its quick mode (instances, batch, dynamic
batching), and the model's own: its variants' precision, and threads by the machine's cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gateway.models.declaration.tensors import Precision
from gateway.models.profiling.run import doubling
from gateway.models.profiling.search import ServingChoice

AXES = ("precision", "delay", "placement", "preferred", "batch")
DELAYS_US = (0, 100, 500, 2000)
_SMALLEST_PREFERRED = 4


@dataclass(frozen=True, slots=True)
class SearchSpace:
    cores: int
    precisions: tuple[Precision, ...] = ()  # of the variants that are there
    coupled: frozenset[Precision] = frozenset()  # of which rows of one batch influence each other
    batches: tuple[int, ...] = ()  # the largest batch; empty: as declared

    def along(self, axis: str, start: ServingChoice) -> list[ServingChoice]:
        """The choices that differ from `start` on the axis alone."""
        choices = dict.fromkeys(getattr(self, f"_{axis}")(start))
        choices.pop(start, None)
        return list(choices)

    def _precision(self, start: ServingChoice) -> Iterator[ServingChoice]:
        for precision in self.precisions:
            if precision in self.coupled:
                yield replace(start, precision=precision, dynamic=False, preferred=(), delay_us=0)
            else:
                yield replace(start, precision=precision, dynamic=start.max_batch > 0)

    def _placement(self, start: ServingChoice) -> Iterator[ServingChoice]:
        """Instances share the cores, or have one each."""
        for instances in doubling(self.cores):
            for threads in sorted({self.cores // instances, 1}, reverse=True):
                yield replace(start, instances=instances, threads=threads)

    def _delay(self, start: ServingChoice) -> Iterator[ServingChoice]:
        for delay_us in DELAYS_US if start.dynamic else ():
            preferred = start.preferred if delay_us else ()
            yield replace(start, delay_us=delay_us, preferred=preferred)

    def _preferred(self, start: ServingChoice) -> Iterator[ServingChoice]:
        """Without a delay nothing waits for a size."""
        if start.dynamic and start.delay_us:
            yield replace(start, preferred=())
            for rows in doubling(start.max_batch):
                if rows >= _SMALLEST_PREFERRED:
                    yield replace(start, preferred=(rows,))

    def _batch(self, start: ServingChoice) -> Iterator[ServingChoice]:
        for rows in self.batches if start.max_batch else ():
            preferred = tuple(size for size in start.preferred if size <= rows)
            yield replace(start, max_batch=rows, preferred=preferred)
