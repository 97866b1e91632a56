"""Freeing under sheaves: free_to_pcs() and what it falls back on (mm/slub.c v7.3; slub.md 9.4).

The requests of one CPU in a call form a sequence. Sequences advance together, in rounds of phases
as allocations do; loops are over rounds and over the requests of one CPU.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from allocator.slabs.free import free as free_to_slabs
from allocator.slabs.ranks import group_starts, ragged, rank_among_equals, stable_order
from allocator.slabs.sheaf_alloc import free_arrays, sheaves_of
from allocator.slabs.sheaf_overflow import Ahead, overflow
from allocator.slabs.sheaves import MAX_FULL_SHEAVES
from allocator.slabs.state import State
from allocator.slabs.statistics import Stat
from allocator.slabs.window import Stage

Ints = NDArray[np.int64]


class Sequences:
    """Frees of one call, by the CPU that does them.

    Parameters
    ----------
    state
        The batch.
    place
        (request,) CPU of each request.
    first
        (request,) first of its objects in `slab`.
    count
        (request,) how many.
    slab
        (object,) slab of each object.
    bulk
        A request is one kmem_cache_free_bulk(); otherwise a run of single frees to one slab.
    """

    def __init__(
        self, state: State, place: Ints, first: Ints, count: Ints, slab: Ints, *, bulk: bool
    ) -> None:
        self.bulk = bulk
        self.slab = slab
        self.first, self.count = first.copy(), count.copy()
        """(request,): what of it is still to be freed."""
        order = stable_order(place, len(state.row_of))
        starts = group_starts(place[order])
        self.requests: Ints = order
        """Requests, those of a CPU together and in order."""
        self.place: Ints = place[order[starts]]
        """(sequence,): CPU."""
        self.next: Ints = starts.copy()
        """(sequence,): place in `requests` that it has reached."""
        self.end: Ints = np.append(starts[1:], len(order)).astype(np.int64)
        """(sequence,): place after its last request."""
        self.stage: NDArray[np.int8] = np.zeros(len(starts), dtype=np.int8)
        """(sequence,): `Stage`."""
        self.far_first: Ints = first
        """(request,): first of the objects of a bulk call that may not enter sheaves."""
        self.far: Ints = np.zeros(len(place), dtype=np.int64)
        """(request,): how many there are; they are freed last."""

    def request(self, who: Ints) -> Ints:
        """Return the request that sequences are at."""
        request: Ints = self.requests[self.next[who]]
        return request

    def waiting(self, stage: Stage) -> Ints:
        """Return the sequences that wait for a phase, in order of the requests they are at."""
        who: Ints = (self.stage == stage).nonzero()[0]
        return who[np.argsort(self.request(who))]

    def consume(self, who: Ints, objects: Ints) -> None:
        """Take objects off the front of what is left of sequences; some must stay."""
        left = self.end[who] - self.next[who]
        requests = self.requests[ragged(self.next[who], left)]
        of = np.repeat(np.arange(len(who)), left)
        count = self.count[requests]
        before = np.cumsum(count) - count
        before -= before[np.cumsum(left) - left][of]
        gone = np.clip(objects[of] - before, 0, count)
        self.first[requests] += gone
        self.count[requests] -= gone
        np.add.at(self.next, who[of], (gone == count) & (count > 0))

    def advance(self, who: Ints) -> None:
        """Go on to the next request."""
        self.next[who] += 1


def free(state: State, place: Ints, slab: Ints, count: Ints) -> None:
    """Free runs of objects one by one; the requests of a CPU in array order."""
    ends = np.cumsum(count)
    sequences = Sequences(state, place, ends - count, count, np.repeat(slab, count), bulk=False)
    _run(state, sequences)


def bulk_free(state: State, place: Ints, request: Ints, slab: Ints) -> None:
    """Free arrays of objects by one call each; parameters as for `Slub.bulk_free()`."""
    count = np.bincount(request, minlength=len(place))
    first = np.cumsum(count) - count
    arranged, far = _remote_first(state, place, request, slab, first, count)
    sequences = Sequences(state, place, first + far, count - far, arranged, bulk=True)
    sequences.far, sequences.far_first = far, first
    _run(state, sequences)


def _remote_first(
    state: State, place: Ints, request: Ints, slab: Ints, first: Ints, count: Ints
) -> tuple[Ints, Ints]:
    """Move objects that may not enter sheaves to the front of their arrays.

    Each changes places with the first object that stays (kmem_cache_free_bulk()); the loop is
    over places of an array.

    Returns
    -------
    tuple
        (object,) the arrays; (request,) how many stand in front.
    """
    sheaves = sheaves_of(state)
    arranged, far = slab.copy(), np.zeros_like(first)
    local = sheaves.local[place][request]
    remote = (local >= 0) & (state.pool.home[slab] % state.nr_nodes != local)
    remote &= sheaves.capacity[place][request] > 0
    rank = np.arange(len(slab)) - first[request]
    for depth in range(int(count.max(initial=0))):
        at = (remote & (rank == depth)).nonzero()[0]
        front = first[request[at]] + far[request[at]]
        arranged[at], arranged[front] = arranged[front], arranged[at]
        far[request[at]] += 1
    return arranged, far


def _run(state: State, sequences: Sequences) -> None:
    """Let all sequences come to their end."""
    _run_locally(state, sequences, np.arange(len(sequences.place)))
    phases: tuple[tuple[Stage, Callable[[State, Sequences, Ints], None]], ...] = (
        (Stage.BARN, _visit_barn_in_bulk if sequences.bulk else _visit_barn),
        (Stage.SLAB, _rest_to_slabs if sequences.bulk else _run_to_slab),
        (Stage.FLUSH, _flush_old_spare),
    )
    while sequences.stage.any():
        for stage, serve in phases:
            who = sequences.waiting(stage)
            if len(who):
                serve(state, sequences, who)


def _run_locally(state: State, sequences: Sequences, who: Ints) -> None:
    """Put objects in sheaves until a sequence ends or waits for a phase."""
    sheaves = sheaves_of(state)
    sequences.stage[who] = Stage.DONE
    while True:
        who = who[sequences.next[who] < sequences.end[who]]
        if not len(who):
            return
        request, place = sequences.request(who), sequences.place[who]
        direct = sheaves.capacity[place] == 0
        if not sequences.bulk:
            home = state.pool.home[sequences.slab[sequences.first[request]]] % state.nr_nodes
            local = sheaves.local[place]
            direct |= (local >= 0) & (home != local)
        sequences.stage[who[direct]] = Stage.SLAB
        who, request, place = who[~direct], request[~direct], place[~direct]
        _append(state, sequences, request, place)
        full = sequences.count[request] > 0
        done = who[~full]
        leaves = sequences.far[request[~full]] > 0
        sequences.stage[done[leaves]] = Stage.SLAB
        sequences.advance(done[~leaves])
        stuck, place = who[full], place[full]
        swap = sheaves.has_spare[place] & (sheaves.nr_spare[place] < sheaves.capacity[place])
        here = place[swap]
        sheaves.swap(here)
        sheaves.nr_main[here], sheaves.nr_spare[here] = (
            sheaves.nr_spare[here],
            sheaves.nr_main[here],
        )
        sequences.stage[stuck[~swap]] = Stage.BARN
        who = np.sort(np.concatenate((done[~leaves], stuck[swap])))


def _append(state: State, sequences: Sequences, request: Ints, place: Ints) -> None:
    """Append objects to main sheaves as far as there is room."""
    sheaves = sheaves_of(state)
    room = sheaves.capacity[place] - sheaves.nr_main[place]
    count = np.minimum(room, sequences.count[request])
    first = sequences.first[request]
    objects = sequences.slab[ragged(first, count)]
    sheaves.write(sheaves.main[place], sheaves.nr_main[place], count, objects)
    sheaves.nr_main[place] += count
    sequences.first[request] += count
    sequences.count[request] -= count
    state.statistics.add(Stat.FREE_FASTPATH, state.row_of[place], count)


def _visit_barn(state: State, sequences: Sequences, who: Ints) -> None:
    """Phase BARN: make room in main (__pcs_replace_full_main())."""
    sheaves, statistics = sheaves_of(state), state.statistics
    place = sequences.place[who]
    barn, row = sheaves.barn[place], state.row_of[place]
    spared = sheaves.has_spare[place]
    rank = np.zeros(len(who), dtype=np.int64)
    rank[spared] = rank_among_equals(barn[spared], len(sheaves.nr_full))
    put = spared & (sheaves.nr_full[barn] + rank < MAX_FULL_SHEAVES)
    statistics.add(Stat.BARN_PUT, row[put])
    statistics.add(Stat.BARN_PUT_FAIL, row[spared & ~put])
    seeking = put | ~spared
    found = np.zeros(len(who), dtype=bool)
    turn = rank_among_equals(barn[seeking], len(sheaves.nr_full))
    found[seeking] = turn < sheaves.nr_empty[barn[seeking]]
    statistics.add(Stat.SHEAF_ALLOC, row[seeking & ~found])
    np.add.at(statistics.barn_locks, barn[put | found], 1)
    _move_main(state, place, barn, put, rank, ~spared)
    np.subtract.at(sheaves.nr_empty, barn[found], 1)
    flushing = spared & ~put  # the old spare sheaf, now in main's place, is flushed in its phase
    sheaves.swap(place[flushing])
    sheaves.nr_main[place[flushing]] = 0
    sequences.stage[who[flushing]] = Stage.FLUSH
    _run_locally(state, sequences, who[~flushing])


def _move_main(
    state: State,
    place: Ints,
    barn: Ints,
    put: NDArray[np.bool_],
    rank: Ints,
    keep: NDArray[np.bool_],
) -> None:
    """Make main empty: its sheaf goes to the barn (`put`) or becomes the spare one (`keep`)."""
    sheaves = sheaves_of(state)
    sheaves.swap_with_barn(place[put], barn[put], sheaves.nr_full[barn[put]] + rank[put])
    np.add.at(sheaves.nr_full, barn[put], 1)
    new = place[keep]
    sheaves.swap(new)
    sheaves.nr_spare[new] = sheaves.nr_main[new]
    sheaves.has_spare[new] = True
    sheaves.nr_main[place[put | keep]] = 0


def _visit_barn_in_bulk(state: State, sequences: Sequences, who: Ints) -> None:
    """Phase BARN of a bulk call: only an empty sheaf of the barn makes room."""
    sheaves, statistics = sheaves_of(state), state.statistics
    place = sequences.place[who]
    barn, row = sheaves.barn[place], state.row_of[place]
    spared = sheaves.has_spare[place]
    rank = np.zeros(len(who), dtype=np.int64)
    rank[spared] = rank_among_equals(barn[spared], len(sheaves.nr_full))
    may = ~spared | (sheaves.nr_full[barn] + rank < MAX_FULL_SHEAVES)
    moves = np.zeros(len(who), dtype=bool)
    turn = rank_among_equals(barn[may], len(sheaves.nr_full))
    moves[may] = turn < sheaves.nr_empty[barn[may]]
    put = moves & spared
    statistics.add(Stat.BARN_PUT, row[put])
    statistics.add(Stat.BARN_PUT_FAIL, row[spared & ~moves])
    np.add.at(statistics.barn_locks, barn[moves], 1)
    _move_main(state, place, barn, put, rank, moves & ~spared)
    np.subtract.at(sheaves.nr_empty, barn[moves], 1)
    sequences.stage[who[~moves]] = Stage.SLAB
    _run_locally(state, sequences, who[moves])


def _run_to_slab(state: State, sequences: Sequences, who: Ints) -> None:
    """Phase SLAB: a run of objects that may not enter sheaves is freed object by object."""
    request, place = sequences.request(who), sequences.place[who]
    count = sequences.count[request]
    state.statistics.add(Stat.FREE_SLOWPATH, state.row_of[place], count)
    with state.events.named(request):
        free_to_slabs(state, place, sequences.slab[sequences.first[request]], count)
    sequences.count[request] = 0
    sequences.advance(who)
    _run_locally(state, sequences, who)


def _rest_to_slabs(state: State, sequences: Sequences, who: Ints) -> None:
    """Phase SLAB of a bulk call: what found no room, then the objects of other nodes."""
    request, place = sequences.request(who), sequences.place[who]
    near, far = sequences.count[request], sequences.far[request]
    state.statistics.add(Stat.FREE_SLOWPATH, state.row_of[place], near + far)
    first = np.stack((sequences.first[request], sequences.far_first[request]), axis=1).reshape(-1)
    count = np.stack((near, far), axis=1).reshape(-1)
    array = np.repeat(np.arange(2 * len(who)), count)
    slab = sequences.slab[ragged(first, count)]
    free_arrays(state, np.repeat(place, 2), array, slab, np.repeat(request, 2))
    sequences.count[request] = 0
    sequences.far[request] = 0
    sequences.advance(who)
    _run_locally(state, sequences, who)


def _flush_old_spare(state: State, sequences: Sequences, who: Ints) -> None:
    """Phase FLUSH: the sheaf that was spare goes back to slabs; it is main and empty now.

    A CPU that frees alone on its machine makes all further flushes at once.
    """
    sheaves, place, row = sheaves_of(state), sequences.place[who], state.row_of
    request = sequences.request(who)
    flushes = overflow(sheaves, place, request, _ahead(state, sequences, who))
    by = place[flushes.cpu]
    state.statistics.add(Stat.SHEAF_FLUSH, row[by], sheaves.capacity[by])
    state.statistics.add(Stat.BARN_PUT_FAIL, row[place], flushes.more)
    entered = flushes.more * sheaves.capacity[place]
    state.statistics.add(Stat.FREE_FASTPATH, row[place], entered)
    free_arrays(state, by, flushes.array, flushes.slab, flushes.request)
    sequences.consume(who, entered)
    _run_locally(state, sequences, who)


def _ahead(state: State, sequences: Sequences, who: Ints) -> Ahead:
    """Return what is left of sequences that are alone in their lane, up to a remote object."""
    lane = state.rows.lane[state.row_of[sequences.place]]
    alone = np.bincount(lane)[lane[who]] == 1
    left = np.where(alone, sequences.end[who] - sequences.next[who], 0)
    requests = sequences.requests[ragged(sequences.next[who], left)]
    count = sequences.count[requests]
    cpu = np.repeat(np.repeat(np.arange(len(who)), left), count)
    slab = sequences.slab[ragged(sequences.first[requests], count)]
    local = sheaves_of(state).local[sequences.place[who]][cpu]
    remote = (local >= 0) & (state.pool.home[slab] % state.nr_nodes != local)
    return Ahead.until_remote(len(who), cpu, slab, np.repeat(requests, count), remote)
