"""Maps as arrays, to PyTorch and back; docs/reference/formats.md has every tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpc._lib import ARRAY, HANDLE, INT, OUT, TEXT, InputError, Object, address, ask, call, create, declare, lib, text

__all__ = ["Model", "load", "save", "state_dict", "to_torch"]

declare("gpc_model_read", TEXT, OUT)
declare("gpc_model_about", HANDLE, OUT)
declare("gpc_model_tensor", HANDLE, TEXT, ARRAY, INT)
declare("gpc_model_save", HANDLE, TEXT, ARRAY, INT, OUT)


class Model(Object):
    """A map that load has read, every checksum verified."""

    def about(self) -> dict[str, Any]:
        """Case, sha256 of the file, latent dimension, calibration, provenance, navigation and the tensors with their shapes."""
        return ask(lib.gpc_model_about, self.handle)

    def state_dict(self) -> dict[str, NDArray[np.float32]]:
        """The tensors by their names in the file, float32: weights [out, in], biases [out], norm_NAME.mean
        and norm_NAME.scale, codes [N, n_z]."""
        arrays = {}
        for tensor in self.about()["tensors"]:
            a = np.empty(tensor["shape"], np.float32)
            call(lib.gpc_model_tensor, self.handle, text(tensor["name"]), address(a), a.size)
            arrays[tensor["name"]] = a
        return arrays


def load(file: str | None = None, *, case: str = "") -> Model:
    """Reads the map of a file, or the bundled one of a case. With both the map has to be one of the case."""
    if file is None and not case:
        raise InputError("gpc.models.load: give a file, or a case for its bundled map")
    return Model(create(lib.gpc_model_read, text({"case": case, "file": "" if file is None else str(file)})))


def state_dict(file: str | None = None, *, case: str = "") -> dict[str, NDArray[np.float32]]:
    """Model.state_dict of load."""
    with load(file, case=case) as m:
        return m.state_dict()


def save(state: Mapping[str, Any], template: str | Model, out: str, *, command: str = "", calibration: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Writes a map of tensors from outside, NumPy's or PyTorch's, and returns its about.

    state has every tensor of the template, a file or a Model, but for decoder_u_manifold and
    codes, which the new map is without where they are not given; they may have other widths
    where these fit each other. Case, navigation and the problem's hash are the template's. So
    is the calibration, but for what calibration says: it was estimated with the template's
    weights, and tells the monitor how far off an observation may be (`gpc-lab certify` measures a map).
    The provenance says that the tensors came from outside, by command, and names the template.
    """
    arrays = {name: _values(name, value) for name, value in state.items()}
    flat = np.concatenate([a.ravel() for a in arrays.values()]) if arrays else np.empty(0, np.float32)
    options = {
        "file": str(out), "command": command, "tensors": [{"name": name, "shape": list(a.shape)} for name, a in arrays.items()],
        "calibration": None if calibration is None else dict(calibration),
    }
    of = template if isinstance(template, Model) else load(template)
    try:
        return ask(lib.gpc_model_save, of.handle, text(options), address(flat), flat.size)
    finally:
        if of is not template:
            of.close()


def _values(name: str, value: Any) -> NDArray[np.float32]:
    if hasattr(value, "detach"):  # PyTorch's
        value = value.detach().cpu().numpy()
    a = np.asarray(value)
    if a.dtype.kind != "f" or a.ndim not in (1, 2):
        raise InputError(f"{name} is an array of {a.dtype} with shape {a.shape}, want floating-point numbers in one or two dimensions")
    if not np.isfinite(a).all() or np.abs(a, dtype=np.float64).max(initial=0) > np.finfo(np.float32).max:
        raise InputError(f"{name} has entries that are not finite float32 numbers")
    return np.ascontiguousarray(a, np.float32)


def to_torch(source: str | Model | Mapping[str, NDArray[np.float32]]) -> Any:
    """The map as a torch.nn.Module whose state_dict has the names of the file, so that save takes it back.

    Networks are modules encoder_x, encoder_o, decoder_s and decoder_u, in normalised units; norm_NAME
    have mean and scale as buffers, and codes is one. encode(x) takes [s, c, slot] in physical units,
    [n, n_x], and gives z; plan(z, base) and state(z) decode to physical units, before the clip.
    Weights are parameters that require gradients.
    """
    import torch

    if isinstance(source, Mapping):
        arrays: Mapping[str, Any] = source
    elif isinstance(source, Model):
        arrays = source.state_dict()
    else:
        arrays = state_dict(source)

    class Network(torch.nn.ModuleList):
        def forward(self, x: Any) -> Any:
            for layer in self[:-1]:
                x = torch.relu(layer(x))
            return self[-1](x)

    class Normal(torch.nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.register_buffer("mean", torch.tensor(arrays[f"{name}.mean"]))
            self.register_buffer("scale", torch.tensor(arrays[f"{name}.scale"]))

    class Map(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in ("encoder_x", "encoder_o", "decoder_s", "decoder_u", "decoder_u_manifold"):
                layers: list[Any] = []
                while (weight := arrays.get(f"{name}.{len(layers)}.weight")) is not None:
                    layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
                    with torch.no_grad():
                        layer.weight.copy_(torch.tensor(weight))
                        layer.bias.copy_(torch.tensor(arrays[f"{name}.{len(layers)}.bias"]))
                    layers.append(layer)
                if layers:
                    self.add_module(name, Network(layers))
                if f"norm_{name}.mean" in arrays:
                    self.add_module(f"norm_{name}", Normal(f"norm_{name}"))
            if "codes" in arrays:
                self.register_buffer("codes", torch.tensor(arrays["codes"]))

        def encode(self, x: Any) -> Any:
            return self.encoder_x((x - self.norm_encoder_x.mean) / self.norm_encoder_x.scale)

        def plan(self, z: Any, base: Any = 0) -> Any:
            return base + self.norm_decoder_u.mean + self.norm_decoder_u.scale * self.decoder_u(z)

        def state(self, z: Any) -> Any:
            return self.norm_decoder_s.mean + self.norm_decoder_s.scale * self.decoder_s(z)

    return Map()
