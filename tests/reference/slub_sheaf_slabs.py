"""What lies under the sheaves of 7.x: slabs, nodes' lists, refill and flush [9.4, 9.5]."""

from collections.abc import Sequence

from tests.reference.slub import Cache
from tests.reference.slub_bulk import detached_freelists
from tests.reference.slub_types import Gfp, Obj, Slab, Steps

PUT, TAKE, ANY, NEW = "PUT", "TAKE", "ANY", "NEW"

Sheaf = list[Obj]
"""A sheaf: allocation takes the last object, freeing appends."""


class SlabsUnderSheaves(Cache):
    """Slabs are on their node's list whenever they hold free objects; no CPU owns one."""

    def memory_node(self, cpu: int) -> int:
        """numa_mem_id()."""
        return self.places.mem_id[self.places.node_of_cpu[cpu]]

    # Allocation

    def from_node(self, number: int) -> Obj | None:
        """get_from_partial_node(): one object of the head slab."""
        node = self.nodes[number]
        if not node.partial:
            return None
        node.lock(1)
        slab = node.partial[0]
        self.updated(slab)
        slab.inuse += 1
        obj = Obj(slab, slab.freelist.pop())
        if not slab.freelist:
            self.remove_partial(slab)
        return obj

    def visit(self, number: int) -> Steps[Obj | None]:
        """from_node() for another node's list."""
        yield from ()
        return self.from_node(number)

    def take_from_new(self, slab: Slab, want: int) -> list[Obj]:
        """alloc_from_new_slab(): what is left goes to the head of the list."""
        objects = [Obj(slab, slab.freelist.pop()) for _ in range(min(want, slab.objects))]
        slab.inuse = len(objects)
        if slab.freelist:
            self.nodes[slab.node].lock(1)
            self.add_partial(slab, tail=False)
        return objects

    # Refill

    def refill(self, cpu: int, want: int, gfp: Gfp) -> Steps[list[Obj]]:
        """refill_objects(): `want` objects in filling order, fewer if memory ends [9.5]."""
        objects: list[Obj] = []
        local = self.memory_node(cpu)
        if self.has_list(local):
            yield TAKE
            yield from self.refill_from_node(cpu, local, objects, want)
        if len(objects) < want:
            yield from self.search_other_nodes(
                cpu, ANY, lambda node: self.refill_from_node(cpu, node, objects, want)
            )
        if len(objects) < want:
            yield NEW
            while len(objects) < want:
                slab = self.new_slab(cpu, local, gfp)
                if slab is None:
                    break
                self.stats["ALLOC_SLAB"] += 1
                objects += self.take_from_new(slab, want - len(objects))
        return objects

    def refill_from_node(
        self, cpu: int, number: int, objects: list[Obj], want: int
    ) -> Steps[bool | None]:
        """__refill_objects_node(): whole slabs from the head; a surplus goes to the tail.

        Returns whether that was enough.
        """
        node = self.nodes[number]
        if not node.partial:
            return None
        taken: list[Slab] = []
        available = len(objects)
        while node.partial and available < want:
            available += node.partial[0].free
            taken.append(node.partial[0])
            self.remove_partial(node.partial[0])
        node.lock(len(taken))
        surplus: list[int] = []
        for slab in taken:
            self.updated(slab)
            surplus, slab.freelist = slab.freelist, []
            slab.inuse = slab.objects
            while surplus and len(objects) < want:
                objects.append(Obj(slab, surplus.pop()))
        if surplus:
            yield PUT
            self.put_back(taken[-1], surplus)
        return len(objects) == want or None

    def put_back(self, slab: Slab, surplus: list[int]) -> None:
        """__slab_try_return_freelist(): objects that were taken and not needed."""
        assert not slab.freelist  # nobody frees while the request is under way
        self.updated(slab)
        slab.freelist = surplus
        slab.inuse -= len(surplus)
        self.nodes[slab.node].lock(1)
        self.add_partial(slab, tail=True)

    # Freeing

    def slab_free(self, objects: Sequence[Obj], cpu: int) -> None:
        """__slab_free() of objects of one slab [9.4]."""
        slab = objects[0].slab
        was_full = not slab.freelist
        assert not {obj.slot for obj in objects} & set(slab.freelist)
        slab.freelist += [obj.slot for obj in objects]
        slab.inuse -= len(objects)
        self.updated(slab)
        if slab.inuse and not was_full:
            return
        self.nodes[slab.node].lock(1)
        if not was_full and not slab.in_list:
            return
        if slab.inuse == 0 and self.enough_empty(slab.node):
            if not was_full:
                self.remove_partial(slab)
                self.stats["FREE_REMOVE_PARTIAL"] += 1
            self.stats["FREE_SLAB"] += 1
            self.discard(cpu, slab)
        elif was_full:
            self.add_partial(slab, tail=True)
            self.stats["FREE_ADD_PARTIAL"] += 1

    def free_array(self, cpu: int, objects: Sequence[Obj]) -> None:
        """__kmem_cache_free_bulk(): to slabs, in groups of one slab [6.2]."""
        for group in detached_freelists(self.policy, objects):
            self.slab_free(group, cpu)

    def flush_sheaf(self, cpu: int, objects: Sheaf) -> None:
        """sheaf_flush_unused()."""
        self.stats["SHEAF_FLUSH"] += len(objects)
        self.free_array(cpu, objects)
