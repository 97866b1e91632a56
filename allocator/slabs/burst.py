"""What a CPU does by itself in a burst of allocations that name no node (slub.md 4.2 to 4.4).

The freelist, objects that others freed into the cpu slab, and the CPU's partial list are used up
without touching anything shared. Most requests end here, so this is the engine's hot path: one
pass each over the freelists, the cpu slabs, and all slabs of the partial lists that may be needed.
What it counts follows from sums over the whole window.
"""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.get_partial import Taken, choose_list, count_taken, stack
from allocator.slabs.pool import CPU, FREE, LOST, NONE
from allocator.slabs.ranks import counted, gathered, stable_order
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Stage, Window

Ints = NDArray[np.int64]
Words = NDArray[np.int32]
Marks = NDArray[np.int8]

ON_CPU = np.int32(CPU)
_ALLOC_SLAB, _FROM_PARTIAL = int(Stat.ALLOC_SLAB), int(Stat.ALLOC_FROM_PARTIAL)


class Burst:
    """The local part of a window whose requests name no node.

    Parameters
    ----------
    state
        The batch.
    window
        The requests.
    """

    def __init__(self, state: State, window: Window) -> None:
        self.state, self.window = state, window
        rows = state.nr_rows
        self._bounds = window.row_bounds(rows)
        self._asked = window.need.copy()
        self._found_before = self._found_elsewhere()
        self._refilled: Ints = np.zeros(rows, dtype=np.int64)
        self._popped: Ints = np.zeros(rows, dtype=np.int64)
        self._without_slab: Ints = np.zeros(rows, dtype=np.int64)
        self._all: Ints = np.arange(len(window.place))
        self._slabs: list[Ints] = []
        self._updates: list[Marks] = []
        self._by: list[Ints] = []

    def start(self) -> None:
        """Serve all requests from what their CPUs hold; send the others to a node list."""
        cpu, window, place = self.state.cpu, self.window, self.window.place
        free, need = cpu.free[place], window.need
        slab = cpu.slab[place]
        count = np.minimum(free, need)
        left = need - count
        cpu.free[place] = free - count
        window.need = left
        window.emit(self._all, slab, count)
        rest = (left != 0).nonzero()[0]
        if len(rest):
            who, place, left = self._leave_slabs(rest, place[rest], slab[rest], left[rest])
            who = self._use_partial_lists(who, place, left)
            choose_list(self.state, window, who)

    def use_taken(self, taken: Taken) -> None:
        """Serve requests from slabs that they took off a node list.

        A CPU uses the first of its slabs; the others go on its partial list, the last one on top.
        """
        who = taken.who
        if not len(who):
            return
        count_taken(self.state, self.window, taken)
        place = self.window.place[who]
        first = taken.share.cumsum() - taken.share
        self._keep_extras(place, taken.share, taken.slabs, first)
        slab = taken.slabs[first]
        free = self.state.pool.word[slab] & FREE
        going, left = self._load(who, place, slab, free)
        if len(going):
            order = stable_order(who[going], len(self._all))
            going, left = going[order], left[order]
            short = self._use_partial_lists(who[going], place[going], left)
            choose_list(self.state, self.window, short)

    def use_new(self, who: Ints, slab: Ints) -> None:
        """Serve requests from new slabs."""
        state, window = self.state, self.window
        place = window.place[who]
        state.statistics.stats[_ALLOC_SLAB] += self._by_row(who)
        going, left = self._load(who, place, slab, state.pool.objects[slab])
        if len(going):
            who, place = who[going], place[going]
            window.need[who] = left
            state.cpu.slab[place] = NONE
            choose_list(state, window, who)

    def _load(self, who: Ints, place: Ints, slab: Ints, free: Words) -> tuple[Ints, Words]:
        """Hand out slabs that come from beyond the CPU, one to each request.

        Returns which of the requests need more, and how much.
        """
        state, window = self.state, self.window
        need = window.need[who]
        count = np.minimum(free, need)
        left = need - count
        ended = left == 0
        state.pool.word[slab] = ended * ON_CPU
        state.cpu.slab[place], state.cpu.free[place] = slab, free - count
        window.emit_all(who, slab, count)
        window.need[who] = 0
        window.stage[who] = Stage.DONE
        going = (~ended).nonzero()[0]
        self._note(who, slab, (~ended).view(np.int8))
        return going, left[going]

    def _keep_extras(self, place: Ints, share: Ints, slabs: Ints, first: Ints) -> None:
        """Put all but the first slab of each visitor on its CPU's partial list."""
        extra = np.ones(len(slabs), dtype=bool)
        extra[first] = False
        rest = slabs[extra.nonzero()[0]]
        if self.state.policy.config_cpu_partial:
            stack(self.state, place, share - 1, rest)
        else:
            self.state.pool.word[rest] = self.state.pool.word[rest] & FREE | LOST

    def count(self) -> None:
        """Count what the window did."""
        state, window = self.state, self.window
        stats, policy = state.statistics.stats, state.policy
        failed = self._by_row((window.need > 0).nonzero()[0])
        other = self._found_elsewhere() - self._found_before
        found = self._refilled + self._popped + other
        dropped = self._popped + other + failed - self._without_slab
        if policy.bulk_counts_fastpath or not window.bulk:
            served = np.zeros(state.nr_rows, dtype=np.int64)
            np.add.at(served, window.row, (self._asked - window.need).astype(np.int64))
            stats[Stat.ALLOC_FASTPATH] += served - found
        again = self._popped if policy.freezing == "taken" else 0  # popped, then refilled
        stats[Stat.ALLOC_REFILL] += self._refilled + again
        stats[Stat.DEACTIVATE_BYPASS] += dropped
        stats[Stat.CPU_PARTIAL_ALLOC] += self._popped
        if policy.slowpath_counts == "calls":
            stats[Stat.ALLOC_SLOWPATH] += found + failed
        else:
            stats[Stat.ALLOC_SLOWPATH] += self._refilled + dropped + again
        self._count_updates()

    def _leave_slabs(
        self, who: Ints, place: Ints, slab: Ints, need: Words
    ) -> tuple[Ints, Ints, Words]:
        """Take what others freed into exhausted cpu slabs; drop those slabs that are full."""
        state, window, pool = self.state, self.window, self.state.pool
        word = pool.word[slab]
        pool.word[slab] = 0
        some = slab != NONE
        if not some.all():
            self._without_slab += self._by_row(who[~some])
        self._note(who, slab, some.view(np.int8))
        own = (word > CPU).nonzero()[0]
        if not len(own):
            return who, place, need
        by, at, slab = who[own], place[own], slab[own]
        self._refilled += self._by_row(by)
        free, wanted = word[own] & FREE, need[own]
        count = np.minimum(free, wanted)
        left = wanted - count
        ended = left == 0
        pool.word[slab] = ended * ON_CPU
        state.cpu.free[at] = free - count
        window.emit_all(by, slab, count)
        window.need[by] = left
        self._note(by, slab, (~ended).view(np.int8))
        need[own] = left
        going = (need != 0).nonzero()[0]
        return who[going], place[going], need[going]

    def _use_partial_lists(self, who: Ints, place: Ints, need: Words) -> Ints:
        """Use slabs of the CPUs' partial lists, top first; return requests that need more.

        `who` ascends. Every slab there has a free object, so that no request looks at more slabs
        than it needs objects.
        """
        if not len(who):
            return who
        cpu, pool, window = self.state.cpu, self.state.pool, self.window
        height = cpu.nr[place]
        seen = np.minimum(height, need)
        ends = seen.cumsum()
        first = ends - seen
        owner = self._all[: len(who)].repeat(seen)
        slab = cpu.partial[(place * cpu.width + height - 1 + first)[owner] - counted(len(owner))]
        free = gathered(pool.word, slab) & FREE
        total = np.zeros(len(owner) + 1, dtype=np.int64)
        free.cumsum(out=total[1:])
        before = total[first]
        missing = (need + before)[owner] - total[:-1]
        used = (missing > 0).nonzero()[0]
        slab, owner, free, missing = slab[used], owner[used], free[used], missing[used]
        last = free >= missing
        pool.word[slab] = last * ON_CPU
        by = who[owner]
        window.emit_all(by, slab, np.minimum(free, missing).astype(np.int32))
        self._popped += self._by_row(by)
        self._note(by, slab, 2 - last.view(np.int8))
        cpu.nr[place] = height - np.bincount(owner, minlength=len(who))
        done = last.nonzero()[0]
        at = place[owner[done]]
        cpu.slab[at], cpu.free[at] = slab[done], (free - missing)[done]
        left = np.maximum(need - (total[ends] - before), 0)
        window.need[who] = left
        short = (left != 0).nonzero()[0]
        cpu.slab[place[short]] = NONE
        unserved: Ints = who[short]
        return unserved

    def _note(self, who: Ints, slab: Ints, times: Marks) -> None:
        """Note updates of slabs, to be counted at the end."""
        self._by.append(who)
        self._slabs.append(slab)
        self._updates.append(times)

    def _count_updates(self) -> None:
        """Count updates by the node of the slab."""
        if not self._slabs:
            return
        state = self.state
        slab, times = np.concatenate(self._slabs), np.concatenate(self._updates)
        state.statistics.update(gathered(state.pool.home, slab), times.astype(np.int64))
        if state.events.record:
            by = np.concatenate(self._by)
            some = (times != 0).nonzero()[0]
            if not self.window.bulk:  # by request: the same order whoever else is in the window
                some = some[stable_order(by[some], len(self._all))]
            by = by[some]
            state.note_updates(by, slab[some], self.window.place[by], times[some])

    def _found_elsewhere(self) -> Ints:
        """Return slabs found on node lists or made new so far, (row,)."""
        stats = self.state.statistics.stats
        found: Ints = stats[_FROM_PARTIAL] + stats[_ALLOC_SLAB]
        return found

    def _by_row(self, who: Ints) -> Ints:
        """Return how many of these requests, ascending, each row has."""
        if self._bounds is None:
            count: Ints = np.bincount(self.window.row[who], minlength=self.state.nr_rows)
            return count
        at: Ints = who.searchsorted(self._bounds)
        return at[1:] - at[:-1]
