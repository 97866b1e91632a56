"""SLUB with cpu slabs and per-CPU partial lists: 3.13 to 6.12 [4, 5, 6].

What differs between these kernels is a choice of `allocator.slabs.policy.SlabPolicy`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.reference.slub import Cache
from tests.reference.slub_bulk import detached_freelists
from tests.reference.slub_types import KERNEL, TRYNODE, Gfp, Obj, Slab, Steps, finish

PUT, TAKE, ANY, NEW = "PUT", "TAKE", "ANY", "NEW"


@dataclass(slots=True)
class Cpu:
    """struct kmem_cache_cpu."""

    slab: Slab | None = None
    freelist: list[int] = field(default_factory=list)
    """Free objects of `slab` that only this CPU may take, top last."""
    partial: list[Slab] = field(default_factory=list)
    """The per-CPU partial list, top last."""


class CpuSlabs(Cache):
    """A cache whose CPUs hold a slab each."""

    phases = (PUT, TAKE, ANY, NEW)

    def set_up(self) -> None:
        self.cpus = [Cpu() for _ in self.places.node_of_cpu]
        self.delayed = self.policy.freezing == "delayed"

    # Allocation

    def alloc_steps(self, cpu: int, count: int, node: int | None, gfp: Gfp) -> Steps[list[Obj]]:
        objects: list[Obj] = []
        while len(objects) < count:
            obj = yield from self.alloc_one(cpu, node, gfp)
            if obj is None:
                break
            objects.append(obj)
        return objects

    def alloc_one(self, cpu: int, node: int | None, gfp: Gfp) -> Steps[Obj | None]:
        """slab_alloc_node(): the fast path, or ___slab_alloc() [4.2]."""
        here = self.cpus[cpu]
        if here.freelist and here.slab is not None and node in (None, here.slab.node):
            self.stats["ALLOC_FASTPATH"] += 1
            return self.pop(here)
        return (yield from self.slow(cpu, node, gfp))

    def pop(self, here: Cpu) -> Obj:
        """Take the top of the cpu freelist."""
        assert here.slab is not None
        return Obj(here.slab, here.freelist.pop())

    def slow(self, cpu: int, node: int | None, gfp: Gfp) -> Steps[Obj | None]:
        """___slab_alloc() [4.3, 4.4]."""
        here = self.cpus[cpu]
        if self.policy.slowpath_counts == "calls":
            self.stats["ALLOC_SLOWPATH"] += 1
        if here.slab is None:
            node = self.drop_memoryless(node)
        while True:
            if here.slab is not None:
                suits, node = self.suits(cpu, here.slab, node)
                if not suits:
                    yield from self.deactivate(cpu)
                elif here.freelist or self.refill_from_slab(here):
                    return self.pop(here)
            if not here.partial:
                return (yield from self.new_objects(cpu, node, gfp))
            if not self.delayed:
                here.slab = here.partial.pop()
                self.stats["CPU_PARTIAL_ALLOC"] += 1
            elif (yield from self.use_partial(cpu, node)):
                return self.pop(here)

    def drop_memoryless(self, node: int | None) -> int | None:
        """Forget a wanted node that has no memory (5.6)."""
        if self.policy.memoryless == "any_node" and node is not None and not self.has_list(node):
            return None
        return node

    def suits(self, cpu: int, slab: Slab, node: int | None) -> tuple[bool, int | None]:
        """Tell whether the cpu slab serves the node, and which node is wanted then [4.7]."""
        node = self.drop_memoryless(node)
        if node in (None, slab.node):
            return True, node
        self.stats["ALLOC_NODE_MISMATCH"] += 1
        if node is None or self.has_list(node):
            return False, node
        if self.policy.memoryless == "blanchard":
            return True, node
        if self.policy.memoryless in ("rientjes", "joonsoo"):
            node = self.places.mem_id[self.places.node_of_cpu[cpu]]
        return slab.node == node, node

    def refill_from_slab(self, here: Cpu) -> bool:
        """get_freelist(): take what others freed into the cpu slab, or drop an exhausted one."""
        slab = here.slab
        assert slab is not None
        if self.policy.slowpath_counts == "attempts":
            self.stats["ALLOC_SLOWPATH"] += 1
        self.load(here, slab)
        if not here.freelist:
            here.slab = None
            self.stats["DEACTIVATE_BYPASS"] += 1
            return False
        self.stats["ALLOC_REFILL"] += 1
        return True

    def load(self, here: Cpu, slab: Slab, *, updates: int = 1) -> None:
        """Make it the cpu slab: its whole freelist becomes the CPU's, with one update."""
        self.updated(slab, updates)
        here.slab = slab
        here.freelist, slab.freelist = slab.freelist, []
        slab.inuse = slab.objects
        slab.frozen = bool(here.freelist)

    def use_partial(self, cpu: int, node: int | None) -> Steps[bool]:
        """Pop slabs of the CPU's partial list until one suits (6.8); put back the others."""
        here = self.cpus[cpu]
        while here.partial:
            slab = here.partial.pop()
            suits = node in (None, slab.node)
            if suits or self.policy.cpu_partial_alloc_counts == "pops":
                self.stats["CPU_PARTIAL_ALLOC"] += 1
            if suits:
                self.load(here, slab)
                return True
            yield PUT
            self.put_partials(cpu, [slab])
        return False

    def new_objects(self, cpu: int, node: int | None, gfp: Gfp) -> Steps[Obj | None]:
        """A slab of a node's list, or a new one, becomes the cpu slab."""
        here = self.cpus[cpu]
        passes = [gfp]
        if self.policy.trynode and node is not None and "THISNODE" not in gfp:
            passes = [TRYNODE, gfp]
        for flags in passes:
            if (yield from self.get_partial(cpu, node, flags)):
                return self.pop(here)
            yield NEW
            slab = self.new_slab(cpu, node, flags)
            if slab is not None:
                self.stats["ALLOC_SLAB"] += 1
                self.load(here, slab, updates=0)  # nobody else knows a new slab
                return self.pop(here)
        return None

    # Partial lists

    def get_partial(self, cpu: int, node: int | None, gfp: Gfp) -> Steps[bool]:
        """get_partial(): the wanted or local node's list, then perhaps the others' [4.5]."""
        search = self.local_node(cpu) if node is None else node
        if self.policy.memoryless == "joonsoo" and (node is None or not self.has_list(node)):
            search = self.places.mem_id[self.places.node_of_cpu[cpu]]
        if self.has_list(search):
            yield TAKE
            if self.from_node(cpu, search):
                return True
        if node is not None and (not self.policy.remote_search_for_node or "THISNODE" in gfp):
            return False
        return bool((yield from self.search_other_nodes(cpu, ANY, lambda n: self.visit(cpu, n))))

    def visit(self, cpu: int, number: int) -> Steps[bool | None]:
        """from_node() for another node's list."""
        yield from ()
        return self.from_node(cpu, number) or None

    def from_node(self, cpu: int, number: int) -> bool:
        """get_partial_node(): the head becomes the cpu slab, some more go to the CPU's list."""
        here, node = self.cpus[cpu], self.nodes[number]
        if not node.partial:
            return False
        taken: list[Slab] = []
        available = 0
        while node.partial:
            if taken and not self.policy.config_cpu_partial:
                if self.policy.partial_refill == "rfc_leak":
                    taken.append(self.lose(node.partial[0]))
                break
            slab = node.partial[0]
            available += slab.free
            self.remove_partial(slab)
            taken.append(slab)
            if len(taken) > 1:
                self.stats["CPU_PARTIAL_NODE"] += 1
                if not self.delayed:
                    slab.frozen = True
                    self.updated(slab)
                self.push_partial(cpu, slab, drain=False)
            if self.policy.config_cpu_partial and self.enough_taken(len(taken) - 1, available):
                break
        node.lock(len(taken))
        self.stats["ALLOC_FROM_PARTIAL"] += 1
        self.load(here, taken[0])
        return True

    def enough_taken(self, extra: int, available: int) -> bool:
        """Tell whether get_partial_node() stops here."""
        rule = self.policy.partial_refill
        if rule == "half_objects":
            return available > self.cpu_partial // 2
        if rule == "half_slabs_or_first" and self.cpu_partial_slabs == 0:
            return True
        return extra > self.cpu_partial_slabs // 2

    def lose(self, slab: Slab) -> Slab:
        """Take the second slab off the list and forget it: the leak of the 6.6 RFC [5.4]."""
        self.remove_partial(slab)
        self.stats["CPU_PARTIAL_NODE"] += 1
        return slab

    def push_partial(self, cpu: int, slab: Slab, *, drain: bool) -> None:
        """put_cpu_partial() [5.2]."""
        partial = self.cpus[cpu].partial
        if drain and partial and self.is_long(partial[-1]):
            self.drain_partial(cpu)
            self.stats["CPU_PARTIAL_DRAIN"] += 1
        slab.stored_objects = slab.free + (partial[-1].stored_objects if partial else 0)
        slab.stored_slabs = 1 + (partial[-1].stored_slabs if partial else 0)
        partial.append(slab)
        if self.policy.cpu_partial_zero_drains and self.cpu_partial == 0:
            self.drain_partial(cpu)

    def is_long(self, top: Slab) -> bool:
        """Tell from its top slab whether a CPU's partial list takes no more."""
        if self.policy.cpu_partial_counts == "objects":
            return top.stored_objects > self.cpu_partial
        return top.stored_slabs >= self.cpu_partial_slabs

    def drain_partial(self, cpu: int) -> None:
        """Put a CPU's whole partial list on the nodes' lists."""
        slabs = self.cpus[cpu].partial[::-1]
        self.cpus[cpu].partial.clear()
        self.put_partials(cpu, slabs)

    def put_partials(self, cpu: int, slabs: Sequence[Slab]) -> None:
        """unfreeze_partials() / __put_partials(): slabs, top first, to their nodes' lists."""
        empty: list[Slab] = []
        held: int | None = None
        for slab in slabs:
            node = self.nodes[slab.node]
            if slab.node != held:
                held = slab.node
                node.lock(0)
            node.list_slabs += 1
            if not self.delayed:
                slab.frozen = False
                self.updated(slab)
            if slab.inuse == 0 and self.enough_empty(slab.node):
                empty.append(slab)
            else:
                self.add_partial(slab, tail=True)
                self.stats["FREE_ADD_PARTIAL"] += 1
        for slab in reversed(empty):
            self.stats["DEACTIVATE_EMPTY"] += 1
            self.discard(cpu, slab)
            self.stats["FREE_SLAB"] += 1

    def deactivate(self, cpu: int) -> Steps[None]:
        """deactivate_slab() of the cpu slab [5.2]."""
        here = self.cpus[cpu]
        slab, returned = here.slab, here.freelist
        assert slab is not None
        here.slab, here.freelist = None, []
        remote_frees = bool(slab.freelist)
        if returned or remote_frees:
            yield PUT
        if remote_frees:
            self.stats["DEACTIVATE_REMOTE_FREES"] += 1
        by_object = self.policy.deactivate_updates == "object"
        self.updated(slab, max(1, len(returned)) if by_object else 1)
        slab.freelist.extend(returned)
        slab.inuse -= len(returned)
        slab.frozen = False
        if slab.inuse == 0 and self.enough_empty(slab.node):
            self.stats["DEACTIVATE_EMPTY"] += 1
            self.discard(cpu, slab)
            self.stats["FREE_SLAB"] += 1
        elif slab.freelist:
            self.nodes[slab.node].lock(1)
            self.add_partial(slab, tail=remote_frees)
            self.stats["DEACTIVATE_TO_TAIL" if remote_frees else "DEACTIVATE_TO_HEAD"] += 1
        else:
            self.stats["DEACTIVATE_FULL"] += 1

    # Freeing

    def free_steps(self, cpu: int, objects: Sequence[Obj]) -> Steps[None]:
        yield from ()
        for obj in objects:
            self.free_group(cpu, [obj])

    def free_group(self, cpu: int, objects: Sequence[Obj]) -> None:
        """do_slab_free(): objects of one slab, in one go [5.1]."""
        here, slab = self.cpus[cpu], objects[0].slab
        indices = [obj.slot for obj in objects]
        assert not set(indices) & {*slab.freelist, *(here.freelist if here.slab is slab else ())}
        if slab is here.slab:
            here.freelist += indices
            self.stats["FREE_FASTPATH"] += len(indices) if self.policy.bulk_counts_fastpath else 1
        else:
            self.free_slow(cpu, slab, indices)

    def free_slow(self, cpu: int, slab: Slab, indices: Sequence[int]) -> None:
        """__slab_free() [5.2, 5.3]."""
        self.stats["FREE_SLOWPATH"] += 1
        was_full = not slab.freelist
        slab.freelist += indices
        slab.inuse -= len(indices)
        self.updated(slab)
        if slab.frozen:
            self.stats["FREE_FROZEN"] += 1
            return
        if was_full and self.policy.config_cpu_partial:
            slab.frozen = not self.delayed
            self.push_partial(cpu, slab, drain=True)
            self.stats["CPU_PARTIAL_FREE"] += 1
            return
        if not was_full and slab.inuse:
            return
        self.nodes[slab.node].lock(1)
        if not was_full and not slab.in_list:
            return  # on a cpu partial list, unfrozen (6.8), or lost
        if slab.inuse == 0 and self.enough_empty(slab.node):
            if not was_full:
                self.remove_partial(slab)
                self.stats["FREE_REMOVE_PARTIAL"] += 1
            self.stats["FREE_SLAB"] += 1
            self.discard(cpu, slab)
        elif was_full:
            self.add_partial(slab, tail=True)
            self.stats["FREE_ADD_PARTIAL"] += 1

    # Bulk and flush

    def bulk_alloc_steps(self, cpu: int, count: int, gfp: Gfp = KERNEL) -> Steps[list[Obj] | None]:
        """kmem_cache_alloc_bulk() [6.1]."""
        here = self.cpus[cpu]
        objects: list[Obj] = []
        while len(objects) < count:
            obj: Obj | None
            if here.freelist:
                obj = self.pop(here)
                if self.policy.bulk_counts_fastpath:
                    self.stats["ALLOC_FASTPATH"] += 1
            else:
                obj = yield from self.slow(cpu, None, gfp)
            if obj is None:
                self.free_detached(cpu, objects)
                return None
            objects.append(obj)
        return objects

    def bulk_free_steps(self, cpu: int, objects: Sequence[Obj]) -> Steps[None]:
        """kmem_cache_free_bulk() [6.2]."""
        yield from ()
        self.free_detached(cpu, objects)

    def free_detached(self, cpu: int, objects: Sequence[Obj]) -> None:
        """Free an array in groups of one slab."""
        for group in detached_freelists(self.policy, objects):
            self.free_group(cpu, group)

    def flush_cpu(self, cpu: int) -> None:
        """__flush_cpu_slab() [6.4]."""
        here = self.cpus[cpu]
        if here.slab is not None:
            self.stats["CPUSLAB_FLUSH"] += 1
            finish(self.deactivate(cpu))
        self.drain_partial(cpu)

    def offline_cpu(self, cpu: int) -> None:
        """slub_cpu_dead(): the same, run by another CPU."""
        self.flush_cpu(cpu)
