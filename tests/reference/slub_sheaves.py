"""SLUB with per-CPU sheaves and per-node barns: 7.2, 7.3 [9]."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.reference.slub_sheaf_slabs import ANY, NEW, PUT, TAKE, Sheaf, SlabsUnderSheaves
from tests.reference.slub_types import KERNEL, TRYNODE, Gfp, Obj, Slab, Steps

BARN, POP, ANY_POP, NEW_ONE, SLAB, FLUSH = "BARN", "POP", "ANY_POP", "NEW_ONE", "SLAB", "FLUSH"

MAX_FULL_SHEAVES = 10
"""Full sheaves that a barn takes."""
MAX_EMPTY_SHEAVES = 10
"""Empty sheaves that a barn takes from a finished grace period."""
PCS_BATCH_MAX = 32
"""Objects of a main sheaf flushed in one go."""


@dataclass(slots=True)
class CpuSheaves:
    """struct slub_percpu_sheaves."""

    main: Sheaf = field(default_factory=list)
    spare: Sheaf | None = None
    rcu_free: Sheaf | None = None


@dataclass(slots=True)
class Barn:
    """struct node_barn."""

    full: list[Sheaf] = field(default_factory=list)
    """Full sheaves, the newest last."""
    empty: int = 0
    """Empty sheaves."""
    lock: int = 0
    """Times that its lock was taken."""


@dataclass(slots=True)
class Request:
    """What an allocation under way remembers from object to object."""

    node: int | None
    gfp: Gfp
    popping: bool = False
    """The last shared action took an object off a slab directly and may take more [POP]."""


class Sheaves(SlabsUnderSheaves):
    """A cache whose CPUs hold arrays of objects; without capacity all work is on slabs."""

    phases = (BARN, PUT, TAKE, POP, ANY, ANY_POP, NEW, NEW_ONE, SLAB, FLUSH)

    def set_up(self) -> None:
        self.capacity = self.geometry.sheaf_capacity
        self.cpus = [CpuSheaves() for _ in self.places.node_of_cpu]
        self.barns = [Barn() for _ in self.nodes]
        if self.capacity:
            self.stats["SHEAF_ALLOC"] += self.nr_cpu_ids

    def barn(self, cpu: int) -> Barn:
        """get_barn(): the barn of numa_node_id(), with or without memory."""
        return self.barns[self.places.node_of_cpu[cpu]]

    # Allocation

    def alloc_steps(self, cpu: int, count: int, node: int | None, gfp: Gfp) -> Steps[list[Obj]]:
        request = Request(node, gfp)
        objects: list[Obj] = []
        while len(objects) < count:
            obj = yield from self.alloc_one(cpu, request)
            if obj is None:
                break
            objects.append(obj)
        return objects

    def alloc_one(self, cpu: int, request: Request) -> Steps[Obj | None]:
        """alloc_from_pcs(), or ___slab_alloc() of one object [9.3]."""
        node = request.node
        if node is not None and node != self.memory_node(cpu):
            self.stats["ALLOC_NODE_MISMATCH"] += 1
            return (yield from self.direct(cpu, request))
        here = self.cpus[cpu]
        if not here.main and not (yield from self.replace_empty(cpu, request.gfp)):
            return (yield from self.direct(cpu, request))
        if node not in (None, here.main[-1].slab.node):
            self.stats["ALLOC_NODE_MISMATCH"] += 1
            return (yield from self.direct(cpu, request))
        self.stats["ALLOC_FASTPATH"] += 1
        return here.main.pop()

    def replace_empty(self, cpu: int, gfp: Gfp) -> Steps[bool]:
        """__pcs_replace_empty_main(): get a sheaf with objects, or fail [9.3]."""
        here, barn = self.cpus[cpu], self.barn(cpu)
        if not self.capacity:
            return False
        if here.spare:
            here.main, here.spare = here.spare, here.main
            return True
        yield BARN
        if self.swap_for_full(cpu):
            return True
        if here.spare is not None:
            here.spare = None  # this one will be filled
        elif barn.empty:
            barn.lock += 1
            barn.empty -= 1
        else:
            self.stats["SHEAF_ALLOC"] += 1
        sheaf: Sheaf = yield from self.refill(cpu, self.capacity, gfp)
        self.stats["SHEAF_REFILL"] += len(sheaf)
        if len(sheaf) < self.capacity:
            self.flush_sheaf(cpu, sheaf)
            self.stats["SHEAF_FREE"] += 1
            return False
        here.spare, here.main = here.main, sheaf
        return True

    def swap_for_full(self, cpu: int) -> bool:
        """barn_replace_empty_sheaf(): the empty main sheaf for a full one of the barn."""
        here, barn = self.cpus[cpu], self.barn(cpu)
        if not barn.full:
            self.stats["BARN_GET_FAIL"] += 1
            return False
        barn.lock += 1
        barn.empty += 1
        here.main = barn.full.pop()
        self.stats["BARN_GET"] += 1
        return True

    def direct(self, cpu: int, request: Request) -> Steps[Obj | None]:
        """___slab_alloc(): one object straight from a slab [9.3]."""
        self.stats["ALLOC_SLOWPATH"] += 1
        passes = [request.gfp]
        if request.node is not None and "THISNODE" not in request.gfp:
            passes = [TRYNODE, request.gfp]
        for flags in passes:
            obj = yield from self.direct_pass(cpu, request, flags)
            if obj is not None:
                return obj
        return None

    def direct_pass(self, cpu: int, request: Request, flags: Gfp) -> Steps[Obj | None]:
        """Try lists and new pages with the flags of one pass."""
        node, local = request.node, self.memory_node(cpu)
        search = local if node is None else node
        if self.has_list(search):
            if not request.popping:
                yield POP
            obj = self.from_node(search)
            if obj is not None:
                request.popping = node not in (None, local)
                return obj
        request.popping = False
        if node is None or "THISNODE" not in flags:
            obj = yield from self.search_other_nodes(cpu, ANY_POP, self.visit)
            if obj is not None:
                return obj
        yield NEW_ONE
        slab = self.new_slab(cpu, node, flags)
        if slab is None:
            return None
        self.stats["ALLOC_SLAB"] += 1
        return self.take_from_new(slab, 1)[0]

    # Freeing

    def free_steps(self, cpu: int, objects: Sequence[Obj]) -> Steps[None]:
        previous: Slab | None = None
        for obj in objects:
            if self.is_remote(cpu, obj.slab) or not self.capacity:
                if obj.slab is not previous:
                    yield SLAB
                previous = obj.slab
                self.slab_free([obj], cpu)
                self.stats["FREE_SLOWPATH"] += 1
                continue
            previous = None
            here = self.cpus[cpu]
            if len(here.main) == self.capacity:
                yield from self.replace_full(cpu)
            here.main.append(obj)
            self.stats["FREE_FASTPATH"] += 1

    def is_remote(self, cpu: int, slab: Slab) -> bool:
        """Tell whether an object of the slab may not enter the CPU's sheaves [9.4]."""
        here = self.places.node_of_cpu[cpu]
        if self.memoryless_nodes:
            return slab.node != self.places.mem_id[here]
        return slab.node != here and self.has_list(here)

    def replace_full(self, cpu: int) -> Steps[None]:
        """__pcs_replace_full_main(): make room in main [9.4]."""
        here, barn = self.cpus[cpu], self.barn(cpu)
        if here.spare is not None and len(here.spare) < self.capacity:
            here.main, here.spare = here.spare, here.main
            return
        yield BARN
        if here.spare is None:
            if barn.empty:
                barn.lock += 1
                barn.empty -= 1
            else:
                self.stats["SHEAF_ALLOC"] += 1
            here.spare, here.main = here.main, []
        elif len(barn.full) >= MAX_FULL_SHEAVES:
            self.stats["BARN_PUT_FAIL"] += 1
            flushed, here.spare, here.main = here.spare, here.main, []
            yield FLUSH
            self.flush_sheaf(cpu, flushed)
        else:
            barn.lock += 1
            if barn.empty:
                barn.empty -= 1
            else:
                self.stats["SHEAF_ALLOC"] += 1
            barn.full.append(here.main)
            self.stats["BARN_PUT"] += 1
            here.main = []

    # Bulk

    def bulk_alloc_steps(self, cpu: int, count: int, gfp: Gfp = KERNEL) -> Steps[list[Obj] | None]:
        """kmem_cache_alloc_bulk(): what sheaves hold, the rest from slabs [9.5]."""
        objects: list[Obj] = []
        here = self.cpus[cpu]
        while len(objects) < count and (yield from self.some_main(cpu)):
            batch = min(len(here.main), count - len(objects))
            objects += here.main[-batch:]  # in the order of the array
            del here.main[-batch:]
            self.stats["ALLOC_FASTPATH"] += batch
        if len(objects) == count:
            return objects
        rest = yield from self.refill(cpu, count - len(objects), gfp)
        if len(objects) + len(rest) < count:
            self.free_array(cpu, rest)
            self.free_array(cpu, objects)
            return None
        self.stats["ALLOC_SLOWPATH"] += len(rest)
        return objects + rest

    def some_main(self, cpu: int) -> Steps[bool]:
        """Have a main sheaf with objects, unless only slabs have any."""
        here = self.cpus[cpu]
        if here.main:
            return True
        if here.spare:
            here.main, here.spare = here.spare, here.main
            return True
        if not self.capacity:
            return False
        yield BARN
        return self.swap_for_full(cpu)

    def bulk_free_steps(self, cpu: int, objects: Sequence[Obj]) -> Steps[None]:
        """kmem_cache_free_bulk(): to sheaves while they have room, then to slabs [9.5]."""
        array = list(objects)
        remote = 0  # remote objects change places with the first local ones
        for place, obj in enumerate(array):
            if self.capacity and self.is_remote(cpu, obj.slab):
                array[remote], array[place] = obj, array[remote]
                remote += 1
        local, far = array[remote:], array[:remote]
        here = self.cpus[cpu]
        while local and (yield from self.room_in_main(cpu)):
            batch = min(self.capacity - len(here.main), len(local))
            here.main += local[:batch]
            del local[:batch]
            self.stats["FREE_FASTPATH"] += batch
        if local or far:
            yield SLAB
            self.stats["FREE_SLOWPATH"] += len(local) + len(far)
            self.free_array(cpu, local)
            self.free_array(cpu, far)

    def room_in_main(self, cpu: int) -> Steps[bool]:
        """Have a main sheaf with room, without making one or flushing one."""
        here, barn = self.cpus[cpu], self.barn(cpu)
        if len(here.main) < self.capacity:
            return True
        if not self.capacity:
            return False
        if here.spare is not None and len(here.spare) < self.capacity:
            here.main, here.spare = here.spare, here.main
            return True
        yield BARN
        if here.spare is not None and (len(barn.full) >= MAX_FULL_SHEAVES or not barn.empty):
            self.stats["BARN_PUT_FAIL"] += 1
            return False
        if not barn.empty:
            return False
        barn.lock += 1
        barn.empty -= 1
        if here.spare is None:
            here.spare = here.main
        else:
            barn.full.append(here.main)
            self.stats["BARN_PUT"] += 1
        here.main = []
        return True

    # kfree_rcu

    def kfree_rcu(self, cpu: int, objects: Sequence[Obj]) -> None:
        """__kfree_rcu_sheaf() of each object; those that it refuses wait in an array [9.6]."""
        here, refused = self.cpus[cpu], []
        for obj in objects:
            if not self.capacity or obj.slab.node != self.memory_node(cpu):
                self.stats["FREE_RCU_SHEAF_FAIL"] += obj.slab.node == self.memory_node(cpu)
                refused.append(obj)
                continue
            if here.rcu_free is None:
                here.rcu_free = self.empty_for_rcu(cpu)
            here.rcu_free.append(obj)
            self.stats["FREE_RCU_SHEAF"] += 1
            if len(here.rcu_free) == self.capacity:
                self.waiting.append((cpu, "sheaf", here.rcu_free))
                here.rcu_free = None
        if refused:
            self.waiting.append((cpu, "array", refused))

    def empty_for_rcu(self, cpu: int) -> Sheaf:
        here, barn = self.cpus[cpu], self.barn(cpu)
        if here.spare is not None and not here.spare:
            here.spare = None
        elif barn.empty:
            barn.lock += 1
            barn.empty -= 1
        else:
            self.stats["SHEAF_ALLOC"] += 1
        return []

    def after_grace(self, cpu: int, kind: str, objects: Sheaf) -> None:
        """rcu_free_sheaf()."""
        barn = self.barns[self.memory_node(cpu)]
        if kind == "sheaf" and len(barn.full) < MAX_FULL_SHEAVES:
            barn.lock += 1
            barn.full.append(objects)
            self.stats["BARN_PUT"] += 1
            return
        self.stats["BARN_PUT_FAIL"] += kind == "sheaf"
        self.flush_sheaf(cpu, objects)
        if kind == "sheaf" and barn.empty < MAX_EMPTY_SHEAVES:
            barn.lock += 1
            barn.empty += 1
        else:
            self.stats["SHEAF_FREE"] += 1

    def kvfree_rcu_bulk(self, cpu: int, objects: list[Obj]) -> None:
        """Past all sheaves."""
        self.stats["FREE_SLOWPATH"] += len(objects)
        self.free_array(cpu, objects)

    def hand_over(self, cpu: int) -> None:
        """Give the sheaf of a flushed CPU to RCU; it goes to slabs afterwards."""
        here = self.cpus[cpu]
        if here.rcu_free is not None:
            self.waiting.append((cpu, "flushed", here.rcu_free))
            here.rcu_free = None

    # Flush

    def flush_cpu(self, cpu: int) -> None:
        """pcs_flush_all(): the spare sheaf as one array, main in batches from its top [9.6]."""
        here = self.cpus[cpu]
        if here.spare is not None:
            self.drop_spare(cpu)
        self.hand_over(cpu)
        while here.main:
            batch = here.main[-PCS_BATCH_MAX:]
            del here.main[-PCS_BATCH_MAX:]
            self.flush_sheaf(cpu, batch)

    def offline_cpu(self, cpu: int) -> None:
        """slub_cpu_dead(): main, then the spare sheaf, each as one array."""
        here = self.cpus[cpu]
        self.flush_sheaf(cpu, here.main)
        here.main = []
        if here.spare is not None:
            self.drop_spare(cpu)
        self.hand_over(cpu)

    def drop_spare(self, cpu: int) -> None:
        """Flush the spare sheaf and free it."""
        here = self.cpus[cpu]
        assert here.spare is not None
        spare, here.spare = here.spare, None
        self.flush_sheaf(cpu, spare)
        self.stats["SHEAF_FREE"] += 1

    def shrink(self, cpu: int = 0, flush_order: Sequence[int] | None = None) -> None:
        self.flush_all(flush_order)
        for barn in self.barns if self.capacity else ():
            barn.lock += 1
            full, barn.full = barn.full[::-1], []
            for sheaf in full:
                self.flush_sheaf(cpu, sheaf)
            self.stats["SHEAF_FREE"] += len(full) + barn.empty
            barn.empty = 0
        self.shrink_lists(cpu)
