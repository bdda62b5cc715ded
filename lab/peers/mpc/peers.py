"""What the solvers of a receding horizon have in common: their options, and how their decisions end."""

# A peer that solves none of so many first decisions of a system is left out there.
PATIENCE = 4

PLAIN = {"print_time": False, "error_on_fail": False, "show_eval_warnings": False}


def ipopt(tolerance, **more):
    return {"ipopt": {"tol": tolerance, "print_level": 0, "sb": "yes", "max_iter": 500, **more}}


# The optimum that a plan of ours is held to. IPOPT's own relaxation of bounds, 1e-8 of them, is worth 2e-6 of cstr's
# cost near rest.
EXACT = ipopt(1e-10, mu_init=1e-9, bound_push=1e-9, bound_frac=1e-9, bound_relax_factor=0.0)


class Decisions:
    """How a solver's decisions of one system ended, beside ours: costs further apart than basin, relatively, are of two."""

    def __init__(self, basin):
        self.basin, self.times, self.unsolved, self.lower, self.higher = basin, [], 0, 0, 0

    def ended(self, d, seconds, cost):
        """cost is None where there is no solution."""
        self.times.append(seconds * 1e6)
        if cost is None:
            self.unsolved += 1
        elif d["solved"]:
            difference = (cost - d["cost"]) / abs(d["cost"])
            self.lower += int(difference < -self.basin)
            self.higher += int(difference > self.basin)

    def hopeless(self):
        return self.unsolved == len(self.times) == PATIENCE

    def report(self):
        return {"times_us": self.times, "unsolved": self.unsolved, "lower": self.lower, "higher": self.higher}


SAME = 1e-6  # of costs, as sameOptimum in main.go


class Check:
    """A peer's optima, started at our plans: how far its functions are from ours, and its costs. One
    that may leave a plan can end in a lower optimum than ours, which is then counted and no error."""

    def __init__(self, peer, system, leaves=False):
        self.peer, self.system, self.leaves = peer, system, leaves
        self.decisions, self.unlike, self.worst, self.stuck, self.lower = 0, 0.0, 0.0, [], 0

    def add(self, d, unlike, solve):
        """solve starts at our plan and returns success, cost and the reason where there is none."""
        self.unlike = max(self.unlike, unlike)
        if d["solved"]:
            success, cost, reason = solve()
            above = (cost - d["cost"]) / abs(d["cost"])
            if success and self.leaves and above < -SAME:
                self.lower += 1
            elif success:
                self.worst = max(self.worst, abs(above))
            else:
                self.stuck.append(f"{self.system}, decision {self.decisions}: {reason}")
        self.decisions += 1

    def report(self):
        return {"peer": self.peer, "unlike": float(self.unlike), "worst": float(self.worst), "stuck": self.stuck, "lower": self.lower}
