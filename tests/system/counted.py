"""A workload of the tests: numbers drawn from the stream, as slow and as fragile as asked for."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from allocator.errors import ConfigError
from allocator.point import Point
from allocator.results import Array, Results, Status, Table
from allocator.simulate import Tasks
from allocator.streams import Stream
from allocator.workloads.registry import WORKLOADS
from sweep.executors import worker

worker_work = worker.work


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    name: ClassVar[str] = "counted"
    ignores: ClassVar[frozenset[str]] = frozenset({"gfp", "slab.min_order"})
    lane_ms: float = 0.0
    batch_ms: float = 0.0
    scalars: int = 3
    fails_at: int | None = None
    kills_at: int | None = None
    die_once: str | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        known = [field.name for field in fields(cls)]
        for key in config:
            if key not in known:
                raise ConfigError(f"workload.{key}", config[key], f"one of {', '.join(known)}")
        if not isinstance(config.get("lane_ms", 0.0), int | float):
            raise ConfigError("workload.lane_ms", config["lane_ms"], "a number of ms")
        return cls(**config)

    def shape(self, point: Point) -> tuple[object, ...]:
        return (point.topology.nodes,)

    def command_line(self, point: Point) -> str:
        return "true"

    def run(self, points: Sequence[Point], streams: Sequence[Stream]) -> Results:
        time.sleep((self.batch_ms + self.lane_ms * len(points)) / 1000)
        for point in points:
            self._trouble(point)
        drawn = np.array([stream.generator("x").random(self.scalars) for stream in streams])
        orders = np.array([point.slab.max_order or 0 for point in points])
        scalars: dict[str, Array] = {"throughput": drawn[:, 0] * (1 + orders)}
        for number in range(1, self.scalars):
            whole = number % 2 == 0
            scalars[f"v{number}"] = (
                (drawn[:, number] * 1e6).astype(np.int64) if whole else drawn[:, number]
            )
        nodes = points[0].topology.nodes
        table = Table(
            labels=tuple(f"node{n}" for n in range(nodes)),
            values={"pages": np.outer(orders, np.arange(nodes)).astype(np.int64)},
        )
        status = np.full(len(points), Status.OK, dtype=np.int8)
        return Results(scalars=scalars, tables={"nodes": table}, status=status)

    def _trouble(self, point: Point) -> None:
        order = point.slab.max_order
        if order is not None and order == self.fails_at:
            raise ArithmeticError(f"order {order} is too much")
        if order is not None and order == self.kills_at:
            if self.die_once is not None:
                try:
                    Path(self.die_once).touch(exist_ok=False)
                except FileExistsError:
                    return
            os.kill(os.getpid(), signal.SIGKILL)


WORKLOADS["counted"] = Counted


def work(tasks: Tasks) -> worker.Answer:
    """Do what a worker does; a process that imports this knows the workload."""
    return worker_work(tasks)
