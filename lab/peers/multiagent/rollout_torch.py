#!/usr/bin/env python3
"""The roll-out of joint plans in PyTorch, batched over candidates: dynamics, the six
cost terms, smallest margins, and the derivatives of the cost in the plans by autograd.

It is the peer of package rollout (see main.go beside it), written as one would in
PyTorch: float32 tensors [candidate, robot, step, ...], a loop over the steps of the
dynamics, everything else in whole-tensor operations.

    rollout_torch.py FOLDER DEVICE THREADS MODE

FOLDER holds what main.go wrote: problem.json, and plans.f32, little-endian float32
[candidate, robot, step, 2]. MODE is eager or compiled. The program warms up, writes
FOLDER/result.f32 (cost, smallest margin, then the derivatives, a candidate after the
other) and answers each line of its standard input, "cost" or "gradient", with the
seconds of one evaluation: of the processor, or of the GPU where DEVICE is cuda.
"""

import array
import json
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch  # noqa: E402


class Rollout:
    def __init__(self, p, device):
        t = lambda key: torch.tensor(p[key], dtype=torch.float32, device=device)
        self.start, self.previous, self.goal = t("start"), t("previous"), t("goal")  # [R, 4], [R, 2], [R, 2]
        self.goal_weight = t("goal_weight")  # [R, H]
        self.discs = t("discs")  # [R, H, D, 3]
        first, second = torch.triu_indices(len(p["start"]), len(p["start"]), 1, device=device)
        self.first, self.second = first, second
        self.pair_radii = t("pair")[first, second]
        self.dt, self.v_lo, self.v_hi, self.reach = p["dt"], p["v_lo"], p["v_hi"], p["reach"]
        self.effort, self.smooth, self.safety, self.violation = p["effort"], p["smooth"], p["safety"], p["violation"]

    def positions(self, plans):
        """eq. multiagent-unicycle: the mean heading and the mean clipped speed of a step."""
        count = plans.shape[0]
        x, y, heading, speed = (self.start[:, i].expand(count, -1) for i in range(4))
        path = []
        for k in range(plans.shape[2]):
            a, omega = plans[:, :, k, 0], plans[:, :, k, 1]
            after = torch.clamp(speed + self.dt * a, self.v_lo, self.v_hi)
            mean, middle = 0.5 * (speed + after), heading + 0.5 * self.dt * omega
            x = x + self.dt * mean * torch.cos(middle)
            y = y + self.dt * mean * torch.sin(middle)
            heading, speed = heading + self.dt * omega, after
            path.append(torch.stack((x, y), -1))
        return torch.stack(path, 2)

    def margins(self, h):
        """The terms of safety and violation, and the smallest margin, of [B, ...]."""
        cost = self.safety * torch.exp(-h.clamp(-self.reach, self.reach)) + self.violation * torch.relu(-h).square()
        return cost.flatten(1).sum(1), h.flatten(1).amin(1)

    def __call__(self, plans):
        path = self.positions(plans)
        away = (path - self.goal[:, None]).square().sum(-1)
        cost = (self.goal_weight * away).flatten(1).sum(1)
        cost = cost + self.effort * plans.square().flatten(1).sum(1)
        before = torch.cat((self.previous[:, None].expand(plans.shape[0], -1, -1, -1), plans[:, :, :-1]), 2)
        cost = cost + self.smooth * (plans - before).square().flatten(1).sum(1)
        apart = path[:, :, :, None] - self.discs[..., :2]
        discs, low = self.margins(torch.sqrt(apart.square().sum(-1) + 1e-12) - self.discs[..., 2])
        between = path[:, self.first] - path[:, self.second]
        pairs, close = self.margins(torch.sqrt(between.square().sum(-1) + 1e-12) - self.pair_radii[:, None])
        return cost + discs + pairs, torch.minimum(low, close).clamp(max=self.reach)


def main():
    folder, device, threads, mode = sys.argv[1:5]
    torch.set_num_threads(int(threads))
    with open(folder + "/problem.json") as f:
        problem = json.load(f)
    rollout = Rollout(problem, device)
    flat = array.array("f")
    with open(folder + "/plans.f32", "rb") as f:
        flat.frombytes(f.read())
    plans = torch.tensor(flat, dtype=torch.float32).view(-1, len(problem["start"]), len(problem["goal_weight"][0]), 2).to(device)
    evaluate = torch.compile(rollout) if mode == "compiled" else rollout

    def cost():
        with torch.no_grad():
            return evaluate(plans)

    def gradient():
        u = plans.detach().requires_grad_()
        total, low = evaluate(u)
        total.sum().backward()
        return total, low, u.grad

    def seconds(f):
        if device != "cuda":
            begin = time.process_time()
            f()
            return time.process_time() - begin
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        f()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1e3

    for _ in range(3):
        cost()
        total, low, slopes = gradient()
    with open(folder + "/result.f32", "wb") as f:
        for v in (total, low, slopes):
            array.array("f", v.detach().cpu().flatten().tolist()).tofile(f)
    print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads()}), flush=True)
    for line in sys.stdin:
        print(seconds({"cost": cost, "gradient": gradient}[line.strip()]), flush=True)


if __name__ == "__main__":
    main()
