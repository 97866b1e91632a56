"""Drives the scalar SLUB through generated operations and windows."""

from itertools import cycle

from tests.laws.slub_strategies import Setting, Step, Window
from tests.reference.slub import Cache
from tests.reference.slub_build import cache
from tests.reference.slub_pages import Pages
from tests.reference.slub_types import Obj, Places
from tests.reference.slub_window import AllocRequest, FreeRequest, alloc_window, free_window


class Driver:
    """A cache of the reference, and the objects held, oldest first."""

    def __init__(self, setting: Setting) -> None:
        draws = cycle(setting.draws)
        places = Places.of(setting.kernel, setting.topology)
        self.cache: Cache = cache(
            setting.kernel,
            setting.topology,
            setting.geometry,
            pages=Pages(places, setting.limits, setting.largest_order),
            draw=lambda: next(draws),
        )
        self.held: list[Obj] = []

    def step(self, step: Step) -> list[Obj]:
        """Carry out one operation; return the objects it gave or took."""
        match step.op:
            case "alloc":
                got = self.cache.alloc(step.cpu, step.count, step.node, frozenset(step.gfp))
                self.held += got
                return got
            case "balloc":
                got = self.cache.bulk_alloc(step.cpu, step.count) or []
                self.held += got
                return got
            case "free" | "bfree":
                objects = self.take(step)
                free = self.cache.free if step.op == "free" else self.cache.bulk_free
                free(step.cpu, objects)
                return objects
            case "shrink":
                self.cache.shrink(step.cpu)
            case "flush":
                self.cache.flush_cpu(step.cpu)
            case "offline":
                self.cache.offline_cpu(step.cpu)
            case _:
                self.cache.write_sysfs(step.op, step.count)
        return []

    def window(self, window: Window) -> list[list[Obj]]:
        """Serve a window; return the objects of each request."""
        bulk = window.op in ("balloc", "bfree")
        if window.op in ("alloc", "balloc"):
            got = alloc_window(
                [
                    AllocRequest(self.cache, ask.cpu, ask.count, ask.node, frozenset(ask.gfp), bulk)
                    for ask in window.requests
                ]
            )
            for objects in got:
                self.held += objects
            return got
        taken = [self.take(ask) for ask in window.requests]
        free_window(
            [
                FreeRequest(self.cache, ask.cpu, objects, bulk)
                for ask, objects in zip(window.requests, taken, strict=True)
            ]
        )
        return taken

    def take(self, step: Step) -> list[Obj]:
        """Give up the objects that a step picks."""
        objects = step.pick.of(self.held)
        gone = set(objects)
        self.held = [obj for obj in self.held if obj not in gone]
        return objects
