"""The one way in: a batch of points becomes named arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.point import GROUPS, Point, parse_group
from allocator.results import Results, Status, stack
from allocator.streams import SCENARIO, Stream, scenario_key

MODEL_VERSION = 1
"""Raised whenever the same point may give other results; known points of an older one are stale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Lanes to simulate, as small tables and an index into them."""

    tables: Mapping[str, Sequence[Mapping[str, object]]]
    """Distinct resolved configurations of each group of `GROUPS`."""
    index: NDArray[np.int64]
    """(lane, group): which entry of each table the lane uses."""
    replicate: NDArray[np.int64]
    """(lane,): number of the replicate."""
    seed: int
    """Root seed of the run."""


def simulate(tasks: Tasks) -> Results:
    """Simulate a batch of lanes.

    A lane's results depend on its own configuration, seed and replicate only.

    Raises
    ------
    ConfigError
        If a configuration cannot be used. Nothing is simulated then.
    """
    parsed = {
        group: [parse_group(group, config) for config in tasks.tables[group]] for group in GROUPS
    }
    points, streams = _lanes(tasks, parsed)
    batches: dict[tuple[object, ...], list[int]] = {}
    for lane, point in enumerate(points):
        shape = (type(point.workload), *point.workload.shape(point))
        batches.setdefault(shape, []).append(lane)
    parts = []
    for lanes in batches.values():
        parts += _run(lanes, points, streams)
    return stack(parts, len(points))


def effective(config: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    """Return a point's configuration without what its workload ignores.

    Points of equal effective configuration, seed and replicate have equal results.
    """
    workload = parse_group("workload", config["workload"])
    ignored: frozenset[str] = type(workload).ignores  # type: ignore[attr-defined]
    return {
        group: {
            key: value for key, value in config[group].items() if f"{group}.{key}" not in ignored
        }
        for group in GROUPS
        if group not in ignored
    }


def _lanes(
    tasks: Tasks, parsed: Mapping[str, Sequence[object]]
) -> tuple[list[Point], list[Stream]]:
    """Build the point and the random stream of each lane; equal points are built once."""
    points: dict[tuple[int, ...], Point] = {}
    scenarios: dict[tuple[int, ...], int] = {}
    lane_points, lane_streams = [], []
    for row, replicate in zip(tasks.index.tolist(), tasks.replicate.tolist(), strict=True):
        which = tuple(row)
        chosen = dict(zip(GROUPS, row, strict=True))
        if which not in points:
            points[which] = Point.of(**{g: parsed[g][i] for g, i in chosen.items()})
        scenario = tuple(chosen[group] for group in SCENARIO)
        if scenario not in scenarios:
            config = {group: tasks.tables[group][i] for group, i in chosen.items()}
            scenarios[scenario] = scenario_key(effective(config))
        lane_points.append(points[which])
        lane_streams.append(Stream(tasks.seed, scenarios[scenario], replicate))
    return lane_points, lane_streams


def _run(
    lanes: list[int], points: list[Point], streams: list[Stream]
) -> list[tuple[NDArray[np.int64], Results]]:
    """Run lanes of one shape; if the batch fails, each on its own, to find the one to blame."""
    workload = points[lanes[0]].workload  # each lane's own parameters are in its point
    where = np.array(lanes, dtype=np.int64)
    try:
        part = workload.run([points[i] for i in lanes], [streams[i] for i in lanes])
    except Exception as error:  # a fault in one lane must not lose the others
        if len(lanes) > 1:
            return [pair for lane in lanes for pair in _run([lane], points, streams)]
        status = np.array([Status.FAILED], dtype=np.int8)
        part = Results(scalars={}, status=status, errors={0: f"{type(error).__name__}: {error}"})
    return [(where, part)]
