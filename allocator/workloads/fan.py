"""Messages through sockets: senders allocate, queues hold, receivers free on another CPU.

Tasks have a CPU and keep it until an idle CPU takes them (newidle balance). At each turn a CPU
picks one of its runnable tasks at random and runs it for a time slice's worth of messages. A
sender writes to the receivers of its group in turn; a receiver takes what its queue holds. Queues
are as long as a socket's send buffer: a sender that finds one full sleeps until three quarters of
it are read (net/unix/af_unix.c unix_write_space(), sock_wait_for_wmem()), or loses the message
(packet sockets). A share of messages is read at once, on the sender's CPU, by a receiver that
preempts it; those come from and go back to the CPU's own freelist.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.streams import Stream
from allocator.workloads.batch import Batch, slab_bytes
from allocator.workloads.pcp_front import rounds

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

PARTS = 4
"""A sleeping sender is woken when a queue holds at most one part in so many of its limit; a
receiver gets a turn when it holds at least that, or when no sender of the machine can run."""
JITTER = 0.5
"""A turn is up to this share longer or shorter than the mean one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What is sent, (lane,) where lanes may differ."""

    groups: int
    """Groups of tasks that talk among themselves."""
    senders: int
    """Senders of a group."""
    receivers: int
    """Receivers, hence sockets, of a group."""
    each: Ints
    """(lane,) messages that each sender sends in all, over all receivers."""
    limit: Ints
    """(lane,) messages that a socket holds."""
    turn: Ints
    """(lane,) messages of a mean turn."""
    direct: Floats
    """(lane,) share of messages read at once on the sender's CPU."""
    head_start: Floats
    """(lane,) messages that are in the sockets before receivers first run."""
    send_ns: Floats
    """(lane,) work of sending one message, without the slab allocator."""
    receive_ns: Floats
    """(lane,) work of receiving one."""
    switch_ns: Floats
    """(lane,) work of a turn's context switch."""
    loses: bool = False
    """A full socket loses the message rather than stop the sender."""


class Fan:
    """The tasks and sockets of a batch."""

    def __init__(self, batch: Batch, traffic: Traffic, streams: list[Stream]) -> None:
        """Place tasks on CPUs; all sockets are empty.

        Parameters
        ----------
        batch
            Its caches are those of one message, in the order in which they are allocated.
        traffic
            What is sent.
        streams
            Of each lane.
        """
        self.batch, self.traffic = batch, traffic
        lanes, groups = batch.lanes, traffic.groups
        self._sent: Ints = np.zeros((lanes, groups * traffic.senders), dtype=np.int64)
        self._sleeps_on: Ints = np.full_like(self._sent, -1)
        sockets = groups * traffic.receivers
        self._head: Ints = np.zeros((lanes, sockets), dtype=np.int64)
        self._tail: Ints = np.zeros_like(self._head)
        self._room = int(traffic.limit.max())
        self._ring = np.full((batch.caches, lanes, sockets, self._room), -1, dtype=np.int32)
        self._draws = [stream.generator("traffic") for stream in streams]
        self._tasks = self._sent.shape[1] + sockets
        order = np.array([draw.permutation(self._tasks) for draw in self._draws])
        self._cpu_of: Ints = np.empty_like(order)
        np.put_along_axis(self._cpu_of, order, np.arange(self._tasks)[None, :] % batch.cpus, axis=1)
        self._starting: Bools = traffic.head_start > 0
        self.direct: Ints = np.zeros(lanes, dtype=np.int64)
        """(lane,) messages read at once; their objects are not in the engine's counters."""
        self.lost: Ints = np.zeros(lanes, dtype=np.int64)
        """(lane,) messages that found a full socket."""
        self.peak_bytes: Ints = np.zeros(lanes, dtype=np.int64)
        """(lane,) largest memory in slabs at the end of a window."""

    def run(self) -> None:
        """Send and receive everything. The loop is over windows of time."""
        traffic, batch = self.traffic, self.batch
        slower: Floats = np.maximum(traffic.send_ns, traffic.receive_ns)
        width: Floats = (traffic.turn * slower).astype(np.float64)
        while True:
            runnable = self._runnable()
            going: Bools = np.any(runnable, axis=1)
            if not going.any():
                return
            draws = np.array([draw.random(self._tasks + batch.cpus) for draw in self._draws])
            has_task = np.zeros((batch.lanes, batch.cpus), dtype=bool)
            lane, task = np.nonzero(runnable)
            has_task[lane, self._cpu_of[lane, task]] = True
            batch.clocks.idle(has_task)
            ready = np.broadcast_to(going[:, None], has_task.shape)
            active = batch.clocks.window(ready, width)
            lane, cpu, task = self._pick(runnable, active, draws[:, : self._tasks])
            jitter = 1.0 + JITTER * (2.0 * draws[:, self._tasks :] - 1.0)
            turn = np.maximum((traffic.turn[:, None] * jitter).astype(np.int64), 1)
            senders = task < self._sent.shape[1]
            work = np.zeros((batch.lanes, batch.cpus))
            work[lane, cpu] = traffic.switch_ns[lane]
            order = np.lexsort((cpu, batch.clocks.now[lane, cpu]))
            for does, who in ((self._send, senders), (self._receive, ~senders)):
                these = order[who[order]]
                if len(these):
                    does(lane[these], cpu[these], task[these], turn, work)
            batch.settle(work)
            np.maximum(self.peak_bytes, slab_bytes(batch).sum(axis=1), out=self.peak_bytes)

    def messages(self) -> Floats:
        """Return (lane,) messages sent so far."""
        sent: Floats = self._sent.sum(axis=1).astype(np.float64)
        return sent - self.lost

    def _runnable(self) -> Bools:
        """Return (lane, task); wakes senders whose socket has room again."""
        traffic = self.traffic
        held = self._tail - self._head
        socket = np.maximum(self._sleeps_on, 0)
        low = np.take_along_axis(held, socket, axis=1) * PARTS <= traffic.limit[:, None]
        self._sleeps_on[low] = -1
        sends = (self._sent < traffic.each[:, None]) & (self._sleeps_on < 0)
        self._starting &= (held.sum(axis=1) < traffic.head_start) & sends.any(axis=1)
        worth = held * PARTS >= traffic.limit[:, None]
        worth |= (held > 0) & ~sends.any(axis=1, keepdims=True)
        receives = worth & ~self._starting[:, None]
        return np.concatenate((sends, receives), axis=1)

    def _pick(self, runnable: Bools, active: Bools, chance: Floats) -> tuple[Ints, Ints, Ints]:
        """Return who runs what: (turn,) lane, CPU and task."""
        cpus = self.batch.cpus
        lane, task = np.nonzero(runnable)
        draw = chance[lane, task]
        place = lane * cpus + self._cpu_of[lane, task]
        order = np.lexsort((draw, place))
        ranked = place[order]
        first = order[np.r_[True, ranked[1:] != ranked[:-1]]]
        own = first[active.ravel()[place[first]]]
        left = np.ones(len(lane), dtype=bool)
        left[first] = False  # a CPU that is not active keeps its next task
        idle = active.copy().ravel()
        idle[place[first]] = False
        spare, hungry = np.flatnonzero(left), np.flatnonzero(idle)
        taken, takers = _match(lane[spare], draw[spare], hungry // cpus)
        moved, taker = spare[taken], hungry[takers]
        self._cpu_of[lane[moved], task[moved]] = taker % cpus
        chosen = np.concatenate((own, moved))
        where = np.concatenate((place[own], taker))
        return where // cpus, where % cpus, task[chosen]

    def _send(self, lane: Ints, cpu: Ints, task: Ints, turn: Ints, work: Floats) -> None:
        """Let senders run; they are in order of time."""
        traffic, batch = self.traffic, self.batch
        share = traffic.direct[lane]
        left = traffic.each[lane] - self._sent[lane, task]
        total = np.minimum(turn[lane, cpu], left)
        queued = np.ceil(total * (1.0 - share)).astype(np.int64)
        count, tails, group = self._enqueue(lane, task, queued)
        stopped = count < queued
        direct = np.where(stopped, (count * share / (1.0 - share)).astype(np.int64), total - queued)
        direct = np.minimum(direct, left - count)
        first = self._sent[lane, task]
        self._sent[lane, task] += queued + direct if traffic.loses else count + direct
        self.direct += np.bincount(lane, direct, batch.lanes).astype(np.int64)
        work[lane, cpu] += (count + direct) * traffic.send_ns[lane]
        work[lane, cpu] += direct * traffic.receive_ns[lane]
        sends = np.flatnonzero(count > 0)
        who = np.repeat(sends, count[sends])
        number = np.arange(len(who)) - np.repeat(
            np.cumsum(count[sends]) - count[sends], count[sends]
        )
        which = (first[who] + number) % traffic.receivers
        socket = group[who] * traffic.receivers + which
        slot = (tails[who, which] + number // traffic.receivers) % self._room
        caches = np.arange(batch.caches)
        size = (len(sends), batch.caches)
        slabs = batch.alloc(
            np.repeat(lane[sends], batch.caches),
            np.repeat(cpu[sends], batch.caches),
            np.broadcast_to(caches, size).ravel(),
            np.repeat(count[sends], batch.caches),
            np.zeros(size[0] * size[1]),
            np.ones(size[0] * size[1]),
        )
        # requests are (sender, cache); objects of one sender and cache are together
        start = np.cumsum(count[sends]) - count[sends]
        for cache in caches.tolist():
            begin = np.repeat(start * batch.caches + cache * count[sends], count[sends])
            self._ring[cache, lane[who], socket, slot] = slabs[begin + number]

    def _enqueue(self, lane: Ints, task: Ints, wanted: Ints) -> tuple[Ints, Ints, Ints]:
        """Find how many messages each sender gets rid of, and give them places.

        Senders of a group fill the same sockets one after another: the loop is over them.

        Returns
        -------
        tuple
            (sender,) messages; (sender, receiver) tail of each socket before; (sender,) group.
        """
        traffic = self.traffic
        receivers = traffic.receivers
        group = task // traffic.senders
        count = np.zeros_like(wanted)
        tails = np.zeros((len(lane), receivers), dtype=np.int64)
        sockets = group[:, None] * receivers + np.arange(receivers)
        key = lane * traffic.groups + group
        for these in rounds(key, np.arange(len(lane))):
            where, those = lane[these, None], sockets[these]
            tails[these] = self._tail[where, those]
            room = traffic.limit[where] - (tails[these] - self._head[where, those])
            turn = (
                np.arange(receivers) - self._sent[lane[these], task[these]][:, None]
            ) % receivers
            want = wanted[these, None]
            share = want // receivers + (turn < want % receivers)
            if traffic.loses:
                # full sockets lose theirs: the others' messages stay in the order of receivers
                raise NotImplementedError
            reach = np.where(share > room, turn + room * receivers, want)
            stop = reach.min(axis=1)
            full = stop < wanted[these]
            self._sleeps_on[lane[these[full]], task[these[full]]] = np.take_along_axis(
                those, reach.argmin(axis=1)[:, None], axis=1
            )[full, 0]
            count[these] = stop
            share = stop[:, None] // receivers + (turn < stop[:, None] % receivers)
            self._tail[where, those] += share
        return count, tails, group

    def _receive(self, lane: Ints, cpu: Ints, task: Ints, turn: Ints, work: Floats) -> None:
        """Let receivers run."""
        batch = self.batch
        socket = task - self._sent.shape[1]
        head = self._head[lane, socket]
        count = np.minimum(turn[lane, cpu], self._tail[lane, socket] - head)
        self._head[lane, socket] += count
        work[lane, cpu] += count * self.traffic.receive_ns[lane]
        who, number = _spell_out(count)
        slot = (head[who] + number) % self._room
        parts = []
        for cache in range(batch.caches):
            slab = self._ring[cache, lane[who], socket[who], slot].astype(np.int64)
            new = np.r_[True, (slab[1:] != slab[:-1]) | (who[1:] != who[:-1])]
            at = np.flatnonzero(new)
            size = np.diff(np.r_[at, len(slab)])
            parts.append((at, slab[at], size, np.full(len(at), cache, dtype=np.int64)))
        at, slab, size, cache_of = (np.concatenate(column) for column in zip(*parts, strict=True))
        start = (number[at] + 0.5) / count[who[at]]
        batch.free(lane[who[at]], cpu[who[at]], cache_of, slab, size, start)


def _spell_out(count: Ints) -> tuple[Ints, Ints]:
    """Return for each of `count.sum()` things whose it is, and its number there."""
    who = np.repeat(np.arange(len(count)), count)
    return who, np.arange(len(who)) - np.repeat(np.cumsum(count) - count, count)


def _match(giver: Ints, chance: Floats, taker: Ints) -> tuple[Ints, Ints]:
    """Give each taker an item of its lane, at random, while there are any.

    Parameters
    ----------
    giver, chance
        (item,) lane of each item, and a random number that orders them.
    taker
        (taker,) lane of each, ascending.

    Returns
    -------
    Items and takers that belong together.
    """
    if not len(giver) or not len(taker):
        none = np.zeros(0, dtype=np.int64)
        return none, none
    order = np.lexsort((chance, giver))
    lanes = int(max(giver.max(), taker.max())) + 1
    first = np.searchsorted(giver[order], np.arange(lanes))
    number = np.bincount(giver, minlength=lanes)
    rank = np.arange(len(taker)) - np.searchsorted(taker, taker)
    fits = rank < number[taker]
    return order[first[taker[fits]] + rank[fits]], np.flatnonzero(fits)
