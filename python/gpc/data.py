"""Datasets as NumPy arrays and Arrow tables; docs/reference/formats.md has every column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpc._lib import ARRAY, HANDLE, INT, OUT, TEXT, InputError, Object, address, ask, call, create, declare, lib, text

__all__ = ["Dataset", "load"]

declare("gpc_data_read", TEXT, OUT)
declare("gpc_data_about", HANDLE, OUT)
declare("gpc_data_column", HANDLE, TEXT, ARRAY, INT)

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Dataset:
    """Pareto-optimal decisions, one a row, physical units."""

    s: Floats
    """Measured state [n, n_s]."""
    c: Floats
    """Context [n, n_c]."""
    w: Floats
    """Fixed preference [n, M]; zeros where adaptive."""
    u: Floats
    """Optimal plan [n, n_p]."""
    target: Floats
    """What D_u learns: the plan less Base [n, n_p]."""
    sigma: Floats
    """σ of the decision [n, M]."""
    J: Floats
    """Objectives [n, M]."""
    margin: Floats
    """Hard margins [n, n_m]."""
    kkt: Floats
    """Largest scaled KKT residual of the solve [n]."""
    scenario: NDArray[np.int32]
    """Number of the scenario [n]."""
    trajectory: NDArray[np.int64]
    """Samples of one trajectory with consecutive steps follow each other [n]."""
    step: NDArray[np.int32]
    """Within the trajectory [n]."""
    perturbed: Flags
    """Solved anew from a perturbed state [n]."""
    adaptive: Flags
    """The adaptive priority, not w [n]."""
    headers: list[dict[str, Any]]
    """dataset.json of each folder: provenance, layout with names and units."""
    samples_sha256: str
    """Of the content, whatever its division into parts and shards."""

    def __len__(self) -> int:
        return len(self.kkt)

    @property
    def layout(self) -> dict[str, list[dict[str, str]]]:
        """Name and unit of every component of s, c, u, objectives and margins."""
        return self.headers[0]["layout"]

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns as the parquet files name them, w_0, s_0 and so on, each [n]."""
        out: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in ("scenario", "trajectory", "step", "perturbed", "adaptive")}
        for name in ("w", "s", "c", "u", "target", "sigma", "J", "margin"):
            block = getattr(self, name)
            out.update((f"{name}_{i}", block[:, i]) for i in range(block.shape[1]))
        return {**out, "kkt": self.kkt}

    def table(self) -> Any:
        """columns() as a pyarrow.Table (the extra `arrow`), names and units as metadata of the fields."""
        import pyarrow

        said = {"w": "objectives", "sigma": "objectives", "J": "objectives", "s": "s", "c": "c", "u": "u", "target": "u", "margin": "margins"}
        arrays, fields = [], []
        for name, values in self.columns().items():
            arrays.append(pyarrow.array(np.ascontiguousarray(values)))
            block, _, i = name.rpartition("_")
            meta = self.layout[said[block]][int(i)] if block in said else {}
            if block in ("w", "sigma"):
                meta = {**meta, "unit": "1"}
            fields.append(pyarrow.field(name, arrays[-1].type, nullable=False, metadata=meta))
        return pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))


def load(*folders: str) -> Dataset:
    """Reads datasets of one case, every checksum verified: shards of one, or rounds, which get numbers of
    scenarios and trajectories of their own as `gpc train --data A --data B` gives them."""
    if not folders:
        raise InputError("gpc.data.load: no folder is given")
    with Object(create(lib.gpc_data_read, text({"folders": [str(f) for f in folders]}))) as h:
        about = ask(lib.gpc_data_about, h.handle)
        n, layout = about["rows"], about["headers"][0]["layout"]
        m = len(layout["objectives"])
        widths = {
            "s": len(layout["s"]), "c": len(layout["c"]), "w": m, "u": len(layout["u"]), "target": len(layout["u"]), "sigma": m, "J": m,
            "margin": len(layout["margins"]),
        }
        arrays: dict[str, NDArray[Any]] = {name: np.empty((n, width), np.float32) for name, width in widths.items()}
        kinds = {"kkt": np.float32, "scenario": np.int32, "trajectory": np.int64, "step": np.int32, "perturbed": np.uint8, "adaptive": np.uint8}
        arrays.update((name, np.empty(n, kind)) for name, kind in kinds.items())
        for name, a in arrays.items():
            call(lib.gpc_data_column, h.handle, text(name), address(a) if a.size else None, a.size)
        for name in ("perturbed", "adaptive"):
            arrays[name] = arrays[name].view(np.bool_)
    return Dataset(**arrays, headers=about["headers"], samples_sha256=about["samples_sha256"])
