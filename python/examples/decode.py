"""A map in NumPy alone: the model file read by hand, an observation encoded and its plan decoded,
as `direct` decides before projection (docs/formats.md).

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
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    metadata = header.pop("__metadata__")
    kinds = {"F32": "<f4", "F16": "<f2"}
    arrays = {name: np.frombuffer(data[slice(*t["data_offsets"])], kinds[t["dtype"]]) for name, t in header.items()}
    return {name: a.astype(np.float32).reshape(header[name]["shape"]) for name, a in arrays.items()}, metadata


def forward(tensors, network, x):
    layers = sum(name.startswith(network + ".") and name.endswith(".weight") for name in tensors)
    for i in range(layers):
        x = x @ tensors[f"{network}.{i}.weight"].T + tensors[f"{network}.{i}.bias"]
        x = np.maximum(x, 0) if i < layers - 1 else x
    return x


def encode(tensors, metadata, s, c, w=None):
    """z of an observation; w None: the adaptive priority."""
    floor = json.loads(metadata["calibration"]).get("preference_floor", 0)
    slot = np.zeros(tensors["norm_encoder_x.mean"].size - len(s) - len(c))
    if w is not None:
        slot[0], slot[1:] = 1, 1 + np.log10(np.add(w, floor)) if floor else w
    x = np.concatenate([s, c, slot]).astype(np.float32)
    return forward(tensors, "encoder_x", (x - tensors["norm_encoder_x.mean"]) / tensors["norm_encoder_x.scale"])


def decode(tensors, z, output="u", base=0, lo=-np.inf, hi=np.inf):
    """The plan at z, clipped, or with output "s" the state."""
    y = forward(tensors, f"decoder_{output}", z)
    return np.clip(base + tensors[f"norm_decoder_{output}.mean"] + tensors[f"norm_decoder_{output}.scale"] * y, lo, hi)


if __name__ == "__main__":
    tensors, metadata = read(sys.argv[1])
    for line in sys.stdin:
        o = json.loads(line)
        z = encode(tensors, metadata, o["s"], o["c"], o.get("w"))
        box = {key: np.array(o[key]) for key in ("base", "lo", "hi") if key in o}
        print(json.dumps({"z": z.tolist(), "s": decode(tensors, z, "s").tolist(), "plan": decode(tensors, z, **box).tolist()}))
