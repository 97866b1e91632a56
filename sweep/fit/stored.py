"""A surface as an xarray dataset, and back."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep.fit.basis import Basis, Categories, Curve
from sweep.fit.design import Design
from sweep.fit.quality import Quality

if TYPE_CHECKING:
    from sweep.fit.response import Response

AXIS = "axis_"
"""What the names of the variables begin with that describe an axis."""

MEANINGS = {
    "n": "points fitted, each the mean of its runs",
    "missing": "points of the grid without a result, left out",
    "nterms": "terms of the formula",
    "r2": "share of the variance between points that the surface explains; NaN where saturated",
    "r2_adjusted": "r2 corrected for the number of terms",
    "rmse": "root mean square of the residuals",
    "loo_rmse": "root mean square error of each point predicted without itself",
    "largest_residual": "largest residual, point minus surface",
    "largest_residual_at": "where the largest residual is",
    "mean": "mean of the metric over the points",
    "noise": "standard deviation of one run about its point's mean",
    "noise_of_mean": "standard deviation of a point's mean, from noise",
}
IN_METRIC = ("rmse", "loo_rmse", "largest_residual", "mean", "noise", "noise_of_mean")
"""Figures in units of the metric."""

FORMULA = (
    "sum of coefficient times column, a column being 1 (intercept), or the product of the factors "
    "of the term's name: axis[value] is 1 at that value, else 0; axis^n is z^n with "
    "z = (axis - centre) / spread, of log2(axis) where logarithm is 1; axis@knot is the natural "
    "cubic spline in z that is 1 at that knot and 0 at the others"
)


def to_dataset(response: "Response") -> xr.Dataset:
    """Return a surface with names and units, so that a file says all that a prediction needs.

    Returns
    -------
    xr.Dataset
        `coefficient`, `stderr` (term) and `covariance` (term, with_term); the figures of
        `Quality`; a variable `axis_NAME` with the values of each axis, its attributes say how it
        takes part. Where the data do not tell all terms apart, `alias` (term, unidentified).
    """
    side = "1" if response.logarithm else response.units
    what = f"{'natural logarithm of ' if response.logarithm else ''}{response.metric}"
    data: dict[str, Any] = {
        "coefficient": (
            "term",
            response.coefficients,
            {"units": side, "long_name": f"what a term adds to {what}", "comment": FORMULA},
        ),
        "stderr": (
            "term",
            response.stderr,
            {"units": side, "long_name": "standard error of the coefficient"},
        ),
        "covariance": (
            ("term", "with_term"),
            response.covariance,
            {"units": f"({side})2", "long_name": "covariance of two coefficients"},
        ),
        "variance": (
            (),
            response.variance,
            {"units": f"({side})2", "long_name": f"variance of {what} about the surface"},
        ),
        "freedom": ((), response.freedom, {"long_name": "degrees of freedom of variance"}),
    }
    for name, meaning in MEANINGS.items():
        units = response.units if name in IN_METRIC else "1"
        data[name] = ((), getattr(response, name), {"units": units, "long_name": meaning})
    coords: dict[str, Any] = {
        "term": ("term", list(response.terms), {"long_name": "term of the formula"}),
        "with_term": ("with_term", list(response.terms), {"long_name": "term of the formula"}),
    }
    if response.unidentified:
        long_name = "share of a term that cannot be told from this one"
        data["alias"] = (("term", "unidentified"), response.alias, {"long_name": long_name})
        coords["unidentified"] = ("unidentified", list(response.unidentified))
    for basis in (*response.design.bases, *response.idle):
        data[AXIS + basis.axis] = _axis(basis, idle=basis in response.idle)
    attrs = {
        "machine": response.machine,
        "workload": response.workload,
        "metric": response.metric,
        "units": response.units,
        "long_name": response.long_name,
        "scale": response.scale,
        "interacting_axes": response.design.together,
        "axes": " ".join(basis.axis for basis in response.design.bases),
        "axes_without_effect": " ".join(response.without_effect),
    }
    return xr.Dataset(data, coords=coords, attrs=attrs)


def from_dataset(data: xr.Dataset) -> "Response":
    """Return the surface that `to_dataset` wrote, also after a file has held it."""
    from sweep.fit.response import Response  # it imports this module

    def bases(key: str) -> tuple[Basis, ...]:
        return tuple(_basis(axis, data[AXIS + axis]) for axis in str(data.attrs[key]).split())

    design = Design(bases=bases("axes"), together=int(data.attrs["interacting_axes"]))
    terms = set(map(str, data["term"].values.tolist()))
    figures = {field.name: data[field.name].values.item() for field in fields(Quality)}
    unknown = np.zeros((len(terms), 0))
    return Response(
        machine=str(data.attrs["machine"]),
        workload=str(data.attrs["workload"]),
        metric=str(data.attrs["metric"]),
        units=str(data.attrs["units"]),
        long_name=str(data.attrs["long_name"]),
        logarithm=data.attrs["scale"] == "logarithm",
        design=design,
        idle=bases("axes_without_effect"),
        kept=np.array([term in terms for term in design.terms], dtype=np.bool_),
        coefficients=np.asarray(data["coefficient"].values),
        covariance=np.asarray(data["covariance"].values),
        variance=float(data["variance"]),
        freedom=int(data["freedom"]),
        alias=np.asarray(data["alias"].values) if "alias" in data else unknown,
        **figures,
    )


def _axis(basis: Basis, *, idle: bool) -> tuple[str, Any, dict[str, Any]]:
    """Return an axis as a variable along a dim of its own."""
    dim = f"value_of_{basis.axis}"
    role = "without effect" if idle else "in the formula"
    attrs: dict[str, Any] = {"long_name": f"values of {basis.axis} that were run", "role": role}
    if isinstance(basis, Categories):
        return dim, list(basis.levels), attrs | {"kind": "categories", "baseline": basis.levels[0]}
    attrs |= {
        "kind": "spline" if basis.knots else "polynomial",
        "logarithm": int(basis.logarithm),
        "centre": basis.centre,
        "spread": basis.spread,
    }
    more = {"knots": list(basis.knots)} if basis.knots else {"degree": basis.degree}
    return dim, np.array(basis.levels), attrs | more


def _basis(axis: str, values: xr.DataArray) -> Basis:
    attrs = values.attrs
    if attrs["kind"] == "categories":
        return Categories(axis=axis, levels=tuple(map(str, values.values.tolist())))
    return Curve(
        axis=axis,
        levels=tuple(values.values.tolist()),
        logarithm=bool(attrs["logarithm"]),
        centre=float(attrs["centre"]),
        spread=float(attrs["spread"]),
        degree=int(attrs.get("degree", 0)),
        knots=tuple(float(knot) for knot in attrs.get("knots", ())),
    )
