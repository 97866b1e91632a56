"""What a CPU does by itself in a burst of allocations that name no node (slub.md 4.2 to 4.4).

The freelist, objects that others freed into the cpu slab, and the CPU's partial list are used up
without touching anything shared. Most requests end here, so this is the engine's hot path: whole
arrays while many requests go on, one pass over all partial lists for the last few. What it counts
follows from sums over the whole window.
"""

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.get_partial import Taken, choose_list, count_taken, stack
from allocator.slabs.pool import CPU, FREE, LOST, NONE, PARTIAL
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Stage, Window

Ints = NDArray[np.int64]
Words = NDArray[np.int32]
Marks = NDArray[np.int8]

FEW = 700
"""Requests below which all partial lists are read at once rather than slab by slab."""

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
        rest = left.nonzero()[0]
        if len(rest):
            who, place, left = self._leave_slabs(rest, place[rest], slab[rest], left[rest])
            who = self._use_partial_lists(who, place, left)
            choose_list(self.state, window, who)

    def use_taken(self, taken: Taken) -> None:
        """Serve requests from slabs that they took off a node list.

        A CPU uses the first of its slabs, then the others, the last one first, as they lie on its
        partial list; those that it does not need stay there.
        """
        if not len(taken.who):
            return
        state, window = self.state, self.window
        cpu, pool = state.cpu, state.pool
        count_taken(state, window, taken)
        who, share, slabs = taken.who, taken.share, taken.slabs
        place, need = window.place[who], window.need[who]
        share, slabs = self._keep_extras(place, share, slabs)
        ends = share.cumsum()
        first = ends - share
        owner = self._all[: len(who)].repeat(share)
        turned = (first + ends)[owner] - np.arange(len(slabs))  # the order of use
        turned[first] = first
        slab = slabs[turned]
        free = pool.word[slab] & FREE
        upto = free.cumsum()
        base = upto[first] - free[first]
        missing = (need + base)[owner] - upto + free
        used = missing > 0
        last = used & (free >= missing)
        pool.word[slab] = (free | PARTIAL) * ~used + last * ON_CPU
        consumed = np.add.reduceat(used, first, dtype=np.int64)
        cpu.nr[place] = share - consumed
        chosen, done = used.nonzero()[0], last.nonzero()[0]
        by = who[owner[chosen]]
        count = np.minimum(free, missing)[chosen].astype(np.int32)
        window.emit_all(by, slab[chosen], count)
        loads = 2 - last.view(np.int8)
        loads[first] -= 1
        self._note(by, slab[chosen], loads[chosen])
        np.add.at(self._popped, window.row[who], consumed - 1)
        at = place[owner[done]]
        cpu.slab[at], cpu.free[at] = slab[done], (free - missing)[done]
        left = np.maximum(need - (upto[ends - 1] - base), 0).astype(np.int32)
        self._go_on(who, left)

    def use_new(self, who: Ints, slab: Ints) -> None:
        """Serve requests from new slabs."""
        state, window = self.state, self.window
        place, need = window.place[who], window.need[who]
        state.statistics.stats[_ALLOC_SLAB] += self._by_row(who)
        free = state.pool.objects[slab]
        count = np.minimum(free, need)
        left = need - count
        ended = left == 0
        state.pool.word[slab] = ended * ON_CPU
        window.emit_all(who, slab, count)
        self._note(who, slab, 1 - ended.view(np.int8))
        state.cpu.slab[place], state.cpu.free[place] = slab, free - count
        self._go_on(who, left)

    def _go_on(self, who: Ints, left: Words) -> None:
        """Send requests that need more, and whose CPU has used up all it had, to a list."""
        window = self.window
        window.need[who] = left
        window.stage[who] = Stage.DONE
        short = who[left.nonzero()[0]]
        if len(short):
            self.state.cpu.slab[window.place[short]] = NONE
            self.state.cpu.free[window.place[short]] = 0
            short.sort()
            choose_list(self.state, window, short)

    def _keep_extras(self, place: Ints, share: Ints, slabs: Ints) -> tuple[Ints, Ints]:
        """Put all but the first slab of each visitor on its CPU's partial list.

        Returns what each visitor may use, and those slabs.
        """
        state = self.state
        first = share.cumsum() - share
        extra = np.ones(len(slabs), dtype=bool)
        extra[first] = False
        rest = slabs[extra]
        if state.policy.config_cpu_partial:
            stack(state, place, share - 1, rest)
            return share, slabs
        state.pool.word[rest] = state.pool.word[rest] & FREE | LOST
        return np.ones_like(share), slabs[first]

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
        none = (slab == NONE).nonzero()[0]
        if len(none):
            self._without_slab += self._by_row(who[none])
        self._note(who, slab, np.ones(len(slab), dtype=np.int8))
        own = (word > CPU).nonzero()[0]
        if not len(own):
            return who, place, need
        self._refilled += self._by_row(who[own])
        free, wanted = word[own] & FREE, need[own]
        count = np.minimum(free, wanted)
        left = wanted - count
        ended = left == 0
        pool.word[slab[own]] = ended * ON_CPU
        state.cpu.free[place[own]] = free - count
        window.emit(who[own], slab[own], count)
        window.need[who[own]] = left
        self._note(who[own], slab[own], 1 - ended.view(np.int8))
        need[own] = left
        going = need.nonzero()[0]
        return who[going], place[going], need[going]

    def _use_partial_lists(self, who: Ints, place: Ints, need: Words) -> Ints:
        """Use slabs of the CPUs' partial lists, top first; return requests that need more."""
        cpu, pool, window = self.state.cpu, self.state.pool, self.window
        height = cpu.nr[place]
        unserved = []
        while len(who) > FEW:
            empty = height == 0
            if empty.any():
                unserved.append(self._without_partial(who, place, need, empty.nonzero()[0]))
                some = (~empty).nonzero()[0]
                who, place, need, height = who[some], place[some], need[some], height[some]
            height -= 1
            slab = cpu.partial[place * cpu.width + height]
            free = pool.word[slab] & FREE
            count = np.minimum(free, need)
            left = need - count
            ended = left == 0
            pool.word[slab] = ended * ON_CPU
            window.emit_all(who, slab, count)
            self._popped += self._by_row(who)
            self._note(who, slab, 2 - ended.view(np.int8))
            done = ended.nonzero()[0]
            at = place[done]
            cpu.slab[at], cpu.free[at], cpu.nr[at] = slab[done], (free - count)[done], height[done]
            window.need[who[done]] = 0
            going = left.nonzero()[0]
            who, place, need, height = who[going], place[going], left[going], height[going]
        unserved.append(self._finish_partial_lists(who, place, need, height))
        if len(unserved) == 1:
            return unserved[0]
        every = np.concatenate(unserved)
        every.sort()
        return every

    def _finish_partial_lists(self, who: Ints, place: Ints, need: Words, height: Ints) -> Ints:
        """Do the same for few requests in one pass over all their slabs."""
        if not len(who):
            return who
        cpu, pool, window = self.state.cpu, self.state.pool, self.window
        ends = np.cumsum(height)
        first = ends - height
        owner = np.repeat(np.arange(len(who)), height)
        depth = np.arange(len(owner)) - first[owner]
        slab = cpu.partial[(place * cpu.width + height - 1)[owner] - depth]
        free = (pool.word[slab] & FREE).astype(np.int64)
        total = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(free)))
        before = total[:-1] - total[first][owner]
        wanted = need[owner]
        used = (before < wanted).nonzero()[0]
        slab, owner, free, missing = slab[used], owner[used], free[used], (wanted - before)[used]
        last = free >= missing
        pool.word[slab] = last * ON_CPU
        window.emit_all(who[owner], slab, np.minimum(free, missing).astype(np.int32))
        self._popped += self._by_row(who[owner])
        self._note(who[owner], slab, 2 - last.view(np.int8))
        done = last.nonzero()[0]
        at = place[owner[done]]
        cpu.slab[at], cpu.free[at] = slab[done], (free - missing)[done]
        cpu.nr[place] = height - np.bincount(owner, minlength=len(who))
        window.need[who[owner[done]]] = 0
        got = total[ends] - total[first]
        short = (got < need).nonzero()[0]
        left = need[short] - got[short]
        window.need[who[short]] = left
        cpu.slab[place[short]] = NONE
        unserved: Ints = who[short]
        return unserved

    def _without_partial(self, who: Ints, place: Ints, need: Words, which: Ints) -> Ints:
        """Leave requests whose CPU holds nothing any more."""
        who, place = who[which], place[which]
        self.window.need[who] = need[which]
        self.state.cpu.nr[place] = 0
        self.state.cpu.slab[place] = NONE
        return who

    def _note(self, who: Ints, slab: Ints, times: Marks) -> None:
        """Note updates of slabs, to be counted at the end."""
        self._by.append(who)
        self._slabs.append(slab)
        self._updates.append(times)

    def _count_updates(self) -> None:
        """Count updates by the node of the slab; slab 0, none, does not count."""
        if not self._slabs:
            return
        state = self.state
        slab, times = np.concatenate(self._slabs), np.concatenate(self._updates)
        home = state.pool.home[slab]
        amount = times.astype(np.int64)
        amount[slab == NONE] = 0
        state.statistics.update(home, amount)
        if state.events.record:
            some = amount.nonzero()[0]
            by = np.concatenate(self._by)[some]
            state.note_updates(by, slab[some], self.window.place[by], amount[some])

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
