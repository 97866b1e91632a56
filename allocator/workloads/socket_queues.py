"""The sockets of a batch: queues of messages, known by the slabs that their objects lie in."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.workloads.pcp_front import rounds

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mail:
    """Messages on their way into sockets, (message,) each, a sender's together and in order."""

    sender: Ints
    """Number of the sender in the call's arrays."""
    socket: Ints
    """Socket."""
    slot: Ints
    """Place in the socket's ring."""


class SocketQueues:
    """Queues of all lanes' sockets; socket number group * receivers + receiver."""

    def __init__(self, limit: Ints, *, groups: int, receivers: int, caches: int) -> None:
        """Create empty queues.

        Parameters
        ----------
        limit
            (lane,) messages that a socket holds.
        groups, receivers
            Groups of a lane, and sockets of a group.
        caches
            Objects of a message.
        """
        self.limit, self._receivers, self._groups = limit, receivers, groups
        sockets = groups * receivers
        self._size = int(limit.max())
        self.head: Ints = np.zeros((len(limit), sockets), dtype=np.int64)
        self.tail: Ints = np.zeros_like(self.head)
        self._ring = np.full((caches, len(limit), sockets, self._size), -1, dtype=np.int32)

    @property
    def held(self) -> Ints:
        """(lane, socket): messages that wait to be read."""
        return self.tail - self.head

    def post(self, lane: Ints, group: Ints, first: Ints, wanted: Ints) -> tuple[Ints, Ints, Mail]:
        """Let senders write to their group's sockets in turn, up to the first full one.

        Senders of a group fill the same sockets one after another: the loop is over them.

        Parameters
        ----------
        lane, group
            (sender,) whose sockets.
        first, wanted
            (sender,) receiver that is written to first, and messages to write.

        Returns
        -------
        tuple
            (sender,) messages written; (sender,) socket that was full, -1 if none; the messages.
        """
        receivers = self._receivers
        count, full = np.zeros_like(wanted), np.full_like(wanted, -1)
        tails = np.zeros((len(lane), receivers), dtype=np.int64)
        sockets = group[:, None] * receivers + np.arange(receivers)
        turn = (np.arange(receivers) - first[:, None]) % receivers
        for these in rounds(lane * self._groups + group, np.arange(len(lane))):
            where, those = lane[these, None], sockets[these]
            tails[these] = self.tail[where, those]
            room = self.limit[where] - (tails[these] - self.head[where, those])
            want, order = wanted[these, None], turn[these]
            share = want // receivers + (order < want % receivers)
            reach = np.where(share > room, order + room * receivers, want)
            stop = reach.min(axis=1)
            at = reach.argmin(axis=1)
            full[these] = np.where(stop < wanted[these], those[np.arange(len(at)), at], -1)
            count[these] = stop
            self.tail[where, those] += stop[:, None] // receivers + (
                order < stop[:, None] % receivers
            )
        sender, number = spell_out(count)
        which = (first[sender] + number) % receivers
        slot = (tails[sender, which] + number // receivers) % self._size
        return count, full, Mail(sender, sockets[sender, which], slot)

    def scatter(self, lane: Ints, packets: Ints) -> tuple[Ints, Mail]:
        """Let senders send packets to all sockets of their lane; full sockets lose theirs.

        Parameters
        ----------
        lane, packets
            (sender,) whose sockets, and how many packets.

        Returns
        -------
        (sender,) copies that found room; the copies, packet by packet.
        """
        sockets = self.head.shape[1]
        tails = np.zeros((len(lane), sockets), dtype=np.int64)
        taken = np.zeros_like(tails)
        for these in rounds(lane, np.arange(len(lane))):
            where = lane[these]
            tails[these] = self.tail[where]
            room = self.limit[where, None] - (tails[these] - self.head[where])
            taken[these] = np.minimum(packets[these, None], room)
            self.tail[where] += taken[these]
        which, packet = spell_out(taken.ravel())
        sender, socket = which // sockets, which % sockets
        order = np.lexsort((socket, packet, sender))
        sender, socket, packet = sender[order], socket[order], packet[order]
        slot = (tails[sender, socket] + packet) % self._size
        return taken.sum(axis=1), Mail(sender, socket, slot)

    def put(self, lane: Ints, mail: Mail, cache: int, slabs: Ints) -> None:
        """Store the slabs of the messages' objects of one cache; `lane` is the senders'."""
        self._ring[cache, lane[mail.sender], mail.socket, mail.slot] = slabs

    def take(self, lane: Ints, socket: Ints, count: Ints) -> list[tuple[Ints, Ints, Ints]]:
        """Read messages from sockets, each named once.

        Returns
        -------
        For each cache: (object,) number of the reader, number of the message there, slab.
        """
        head = self.head[lane, socket]
        reader, number = spell_out(count)
        slot = (head[reader] + number) % self._size
        self.head[lane, socket] += count
        return [
            (reader, number, ring[lane[reader], socket[reader], slot].astype(np.int64))
            for ring in self._ring
        ]


def spell_out(count: Ints) -> tuple[Ints, Ints]:
    """Return for each of `count.sum()` things whose it is, and its number there."""
    who = np.repeat(np.arange(len(count)), count)
    return who, np.arange(len(who)) - np.repeat(np.cumsum(count) - count, count)
