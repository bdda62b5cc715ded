"""A map in NumPy alone: the model file read by hand, an observation encoded and its plan decoded,
as `direct` decides before projection (docs/reference/formats.md).

    python decode.py MODEL.safetensors < OBSERVATIONS

One JSON object a line, {"s": […], "c": […]}, with "w" for a fixed preference, "base" where the
case's Base is not zero, and "lo" and "hi" of the actions' box; a line {"z": …, "s": …, "plan": …} for each.
"""
import json
import sys

import numpy as np


def read(path):
    """The tensors by name, as float32, and the metadata."""
    with open(path, "rb") as f:
        header, data = json.loads(f.read(int.from_bytes(f.read(8), "little"))), f.read()
    metadata, kinds = header.pop("__metadata__"), {"F32": "<f4", "F16": "<f2"}
    arrays = {name: np.frombuffer(data[slice(*t["data_offsets"])], kinds[t["dtype"]]) for name, t in header.items()}
    return {name: a.astype(np.float32).reshape(header[name]["shape"]) for name, a in arrays.items()}, metadata


def forward(tensors, network, x):
    for i in range(sum(name.startswith(network + ".") and name.endswith(".weight") for name in tensors)):
        x = np.maximum(x, 0) if i else x
        x = x @ tensors[f"{network}.{i}.weight"].T + tensors[f"{network}.{i}.bias"]
    return x


def encode(tensors, metadata, s, c, w=None):
    """z of an observation; w None: the adaptive priority."""
    slot = np.zeros(tensors["norm_encoder_x.mean"].size - len(s) - len(c))
    if w is not None:
        floor = json.loads(metadata["calibration"]).get("preference_floor", 0)
        slot[0], slot[1:] = 1, 1 + np.log10(np.add(w, floor)) if floor else w
    x = (np.concatenate([s, c, slot]).astype(np.float32) - tensors["norm_encoder_x.mean"]) / tensors["norm_encoder_x.scale"]
    return forward(tensors, "encoder_x", x)


def decode(tensors, z, output="u", base=0, lo=-np.inf, hi=np.inf):
    """The plan at z, clipped, or with output "s" the state."""
    y = tensors[f"norm_decoder_{output}.scale"] * forward(tensors, f"decoder_{output}", z)
    return np.clip(np.add(base, tensors[f"norm_decoder_{output}.mean"]) + y, lo, hi)


if __name__ == "__main__":
    tensors, metadata = read(sys.argv[1])
    for o in map(json.loads, sys.stdin):
        z = encode(tensors, metadata, o["s"], o["c"], o.get("w"))
        box = {key: o[key] for key in ("base", "lo", "hi") if key in o}
        print(json.dumps({"z": z.tolist(), "s": decode(tensors, z, "s").tolist(), "plan": decode(tensors, z, **box).tolist()}))
