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
from allocator.workloads.socket_queues import Mail, SocketQueues

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
    cpus: int
    """CPUs that tasks run on, the first ones by number."""
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
    copies: bool = False
    """Each message goes to all sockets, and a full one loses it rather than stop the sender."""
    copy_ns: Floats | None = None
    """(lane,) work of each copy, with `copies`; `send_ns` is then that of a message."""


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
        self.queues = SocketQueues(
            traffic.limit, groups=groups, receivers=traffic.receivers, caches=batch.caches
        )
        sockets = groups * traffic.receivers
        self._draws = [stream.generator("traffic") for stream in streams]
        self._tasks = self._sent.shape[1] + sockets
        order = np.array([draw.permutation(self._tasks) for draw in self._draws])
        self._cpu_of: Ints = np.empty_like(order)
        np.put_along_axis(
            self._cpu_of, order, np.arange(self._tasks)[None, :] % traffic.cpus, axis=1
        )
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
        usable = np.arange(batch.cpus) < traffic.cpus
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
            active = batch.clocks.window(going[:, None] & usable, width)
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
        """Return (lane,) messages that were read so far; of copies, each one."""
        read: Floats = self.queues.head.sum(axis=1).astype(np.float64)
        return read if self.traffic.copies else read + self.direct

    def _runnable(self) -> Bools:
        """Return (lane, task); wakes senders whose socket has room again."""
        traffic = self.traffic
        held = self.queues.held
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
        traffic = self.traffic
        left = traffic.each[lane] - self._sent[lane, task]
        if traffic.copies:
            assert traffic.copy_ns is not None
            packets = np.clip(turn[lane, cpu] // traffic.receivers, 1, left)
            count, mail = self.queues.scatter(lane, packets)
            direct = packets
            self.lost += _sums(lane, packets * traffic.receivers - count, len(self.lost))
            self._sent[lane, task] += packets
            work[lane, cpu] += packets * traffic.send_ns[lane] + count * traffic.copy_ns[lane]
        else:
            share = traffic.direct[lane]
            total = np.minimum(turn[lane, cpu], left)
            queued = np.ceil(total * (1.0 - share)).astype(np.int64)
            first = self._sent[lane, task] % traffic.receivers
            count, full, mail = self.queues.post(lane, task // traffic.senders, first, queued)
            self._sleeps_on[lane, task] = full
            stopped = (count * share / (1.0 - share)).astype(np.int64)
            direct = np.where(count < queued, np.minimum(stopped, left - count), total - queued)
            self._sent[lane, task] += count + direct
            work[lane, cpu] += (count + direct) * traffic.send_ns[lane]
            work[lane, cpu] += direct * traffic.receive_ns[lane]
        self.direct += _sums(lane, direct, len(self.direct))
        self._fill(lane, cpu, count, mail)

    def _fill(self, lane: Ints, cpu: Ints, count: Ints, mail: Mail) -> None:
        """Allocate the objects of messages, one request per sender and cache."""
        batch = self.batch
        caches = batch.caches
        sends = np.flatnonzero(count > 0)
        requests = len(sends) * caches
        slabs = batch.alloc(
            np.repeat(lane[sends], caches),
            np.repeat(cpu[sends], caches),
            np.tile(np.arange(caches), len(sends)),
            np.repeat(count[sends], caches),
            np.zeros(requests),
            np.ones(requests),
        )
        # objects come by (sender, cache); messages are by sender
        start = np.cumsum(count) - count
        number = np.arange(len(mail.sender)) - start[mail.sender]
        for cache in range(caches):
            begin = start[mail.sender] * caches + cache * count[mail.sender]
            self.queues.put(lane, mail, cache, slabs[begin + number])

    def _receive(self, lane: Ints, cpu: Ints, task: Ints, turn: Ints, work: Floats) -> None:
        """Let receivers run."""
        socket = task - self._sent.shape[1]
        count = np.minimum(turn[lane, cpu], self.queues.held[lane, socket])
        work[lane, cpu] += count * self.traffic.receive_ns[lane]
        parts = []
        for cache, (reader, number, slab) in enumerate(self.queues.take(lane, socket, count)):
            new = np.r_[True, (slab[1:] != slab[:-1]) | (reader[1:] != reader[:-1])]
            at = np.flatnonzero(new)
            size = np.diff(np.r_[at, len(slab)])
            start = (number[at] + 0.5) / count[reader[at]]
            parts.append((reader[at], np.full(len(at), cache), slab[at], size, start))
        reader, cache_of, slab, size, start = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        self.batch.free(lane[reader], cpu[reader], cache_of, slab, size, start)


def _sums(lane: Ints, number: Ints, lanes: int) -> Ints:
    """Return (lane,) sums."""
    return np.bincount(lane, number, lanes).astype(np.int64)


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
