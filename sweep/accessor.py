"""`ds.slab` in a notebook: compare, list the worst points and causes, draw.

>>> import xarray as xr
>>> import sweep.accessor  # registers ds.slab
>>> ds = xr.open_datatree(path, engine="netcdf4")
>>> print(ds.slab.report("kernel=v6_1").text(limit=1))  # doctest: +ELLIPSIS
kernel: v6_1_order_v2 against v6_1
...
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import xarray as xr

from sweep.answer import frame
from sweep.answer.cells import Cells, cells_of
from sweep.answer.compare import Comparison, compare, default_baseline
from sweep.answer.stats import summarise
from sweep.answer.tables import Report, report_of
from sweep.pictures.panels import metric_surfaces, surfaces

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sweep.fit.response import Prediction, Response


class SlabAccessor:
    """What a dataset of a sweep can be asked, as `ds.slab`.

    On a `DataTree` (`xr.open_datatree`) the tables of caches, locks, nodes and zones take part;
    on a plain `Dataset` only the scalar results do.
    """

    def __init__(self, data: "xr.Dataset | xr.DataTree") -> None:
        self._data = data

    @property
    def cells(self) -> Cells:
        """The dataset with its axes and statuses understood."""
        return cells_of(self._data)

    @property
    def provenance(self) -> dict[str, object]:
        """Where the dataset comes from: configuration, versions, revision, command line, seed.

        >>> ds.slab.provenance["schema_version"]
        1
        """
        return self.cells.provenance()

    def compare(
        self,
        baseline: str | None = None,
        *,
        metric: str | None = None,
        against: Sequence[str] = (),
    ) -> xr.Dataset:
        """Compare the other values of an axis with one of them, point by point.

        Parameters
        ----------
        baseline
            `axis=value`; any swept axis. Without it the run's own, else the first value of
            `kernel`, else of the first axis that has several.
        metric
            Variable to judge by; without it each workload's own.
        against
            Values to compare; without them all others.

        Returns
        -------
        xr.Dataset
            Means, spread, change, intervals and significance; see
            `sweep.answer.compare.Comparison.data`.

        Raises
        ------
        ConfigError
            If an axis, a value or the metric does not exist, or no run ended well.

        Examples
        --------
        >>> found = ds.slab.compare("kernel=v6_1")
        >>> at = dict(machine="icx", slab_max_order=3, gfp="kernel", workload="hackbench_sockets")
        >>> float(found["change"].sel(at).item())
        -12.5
        >>> bool(found["significant"].sel(at).item())
        True
        """
        return self._compared(baseline, metric, against).data

    def report(
        self,
        baseline: str | None = None,
        *,
        metric: str | None = None,
        against: Sequence[str] = (),
    ) -> Report:
        """Rank a comparison and lay it out as a table; the parameters are those of `compare`.

        Returns
        -------
        Report
            `print(report)` shows the start, `report.text()` has all, `report.frame()` the rows
            for pandas.

        Examples
        --------
        >>> report = ds.slab.report("kernel=v6_1")
        >>> report.frame().loc[1, ["machine", "slab_max_order", "gfp", "cause_1"]].tolist()
        ['icx', 3, '*', 'list_lock_wait']
        """
        return report_of(self._compared(baseline, metric, against))

    def worst(
        self, n: int = 10, baseline: str | None = None, *, metric: str | None = None
    ) -> xr.Dataset:
        """Return the points that became worse, or fail more often, the worst first.

        Parameters
        ----------
        n
            Most points to return.
        baseline, metric
            As for `compare`.

        Returns
        -------
        xr.Dataset
            One dim `point` with the axes as coords (an axis without effect at its first value,
            and named in `no_effect`); the columns of `sweep.answer.frame`.

        Examples
        --------
        >>> worst = ds.slab.worst(3, "kernel=v6_1").isel(point=1)
        >>> str(worst.machine.values), float(worst.change), str(worst.cause_1.values)
        ('icx', -12.5, 'list_lock_wait')
        """
        return frame.worst(self._compared(baseline, metric), n)

    def causes(self, baseline: str | None = None) -> xr.Dataset:
        """Return how far each share moved that may lie behind a change, points of percent.

        Returns
        -------
        xr.Dataset
            Dims as `compare(...)["change"]`; one variable per cause.

        Examples
        --------
        >>> moved = ds.slab.causes("kernel=v6_1")
        >>> at = dict(machine="icx", slab_max_order=3, gfp="kernel", workload="hackbench_sockets")
        >>> float(moved.list_lock_wait.sel(at).item())
        9.0
        """
        comparison = self._compared(baseline)
        shape = (*comparison.shape, len(comparison.order) - 1)
        dims = (*comparison.dims, comparison.axis)
        moved = {}
        for name, share in comparison.causes().data_vars.items():
            mean = summarise(share.values).mean
            moved[name] = (dims, (mean[:, 1:] - mean[:, :1]).reshape(shape), share.attrs)
        return xr.Dataset(moved, coords=comparison.data.coords)

    def sensitivity(
        self,
        baseline: str | None = None,
        *,
        metric: str | None = None,
        by_machine: bool = True,
    ) -> xr.Dataset:
        """Return which axes explain the change: shares of its variance.

        Parameters
        ----------
        baseline, metric
            As for `compare`.
        by_machine
            Each machine by itself; else the machine is an axis as others are.

        Returns
        -------
        xr.Dataset
            `share` by `term`, `total` by `axis`; see `sweep.fit.sensitivity.sensitivity`.

        Examples
        --------
        >>> found = ds.slab.sensitivity("kernel=v6_1").sel(machine="icx")
        >>> share = found.share.sel(workload="hackbench_sockets", term="slab_max_order")
        >>> round(float(share))
        100
        """
        from sweep.fit.sensitivity import sensitivity  # scipy is slow to import

        return sensitivity(self._compared(baseline, metric), by_machine=by_machine)

    def _compared(
        self, baseline: str | None, metric: str | None = None, against: Sequence[str] = ()
    ) -> Comparison:
        cells = self.cells
        chosen = baseline or default_baseline(cells)
        return compare(cells, chosen, metric=metric, against=against)

    def surface(
        self,
        metric: str | None = None,
        *,
        machine: str | None = None,
        workload: str | None = None,
        **at: object,
    ) -> "Response | list[Response] | Prediction | list[Prediction]":
        """Return the metric as a formula of the axes, or what the formula gives at a place.

        Parameters
        ----------
        metric
            Variable to fit; without it each workload's own.
        machine, workload
            Which ones; all without. Each has a formula of its own.
        **at
            A value, an array or a `DataArray` for each axis: predict there.

        Returns
        -------
        Response or list of Response, or Prediction or list of Prediction
            A list where several machines or workloads are meant.

        Raises
        ------
        ConfigError
            If the dataset does not have the metric, machine or workload, or a prediction is asked
            for outside of what was run.

        Examples
        --------
        >>> surface = ds.slab.surface(machine="icx", workload="hackbench_sockets")
        >>> round(float(surface.predict(kernel="v6_1_order_v2", slab_max_order=1.5).value))
        1312500
        >>> surface.predict(kernel="v6_1", slab_max_order=4)
        Traceback (most recent call last):
        allocator.errors.ConfigError: slab_max_order: found 4, expected 0 to 3, as was run
        """
        from sweep.fit.response import chosen, responses  # statsmodels is slow to import

        found = chosen(responses(self.cells, metric), machine=machine, workload=workload)
        if at:
            values = [response.predict(**at) for response in found]
            return values if len(values) > 1 else values[0]
        return found if len(found) > 1 else found[0]

    def picture(
        self, baseline: str | None = None, *, metric: str | None = None, machine: str | None = None
    ) -> "Figure":
        """Draw one machine's surface: the change against a baseline, or the metric itself.

        Parameters
        ----------
        baseline
            `axis=value`; None draws the metric.
        metric
            Variable to draw; without it each workload's own.
        machine
            Which machine, the first one if not given.

        Examples
        --------
        >>> ds.slab.picture("kernel=v6_1", machine="icx").savefig("icx.png")
        """
        from sweep.pictures.heat_map import figure_of  # matplotlib is slow to import
        from sweep.pictures.shades import colour_limit

        cells = self.cells
        found = (
            surfaces(compare(cells, baseline, metric=metric))
            if baseline
            else metric_surfaces(cells, metric)
        )
        names = [surface.machine for surface in found]
        if machine is not None:
            cells.position("machine", machine)
        chosen = found[names.index(machine)] if machine in names else found[0]
        return figure_of(chosen, colour_limit(found))


xr.register_dataset_accessor("slab")(SlabAccessor)  # type: ignore[no-untyped-call]
xr.register_datatree_accessor("slab")(SlabAccessor)  # type: ignore[no-untyped-call]
