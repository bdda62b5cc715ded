"""The conditions of optimality of PGLearn's AC optimal power flow, by NumPy, from a set's arrays and MATPOWER's tables alone."""

import numpy as np


def violations(n, given, result):
    """The largest violations in a set of PGLearn's layout: of balances and Ohm's law, pu; of limits and signs of duals, pu and rad; of
    stationarity and of complementary slackness, relative to the largest price of a bus."""
    at = {int(b): i for i, b in enumerate(n.bus)}
    f, t, u = (np.array([at[int(b)] for b in ids]) for ids in (n.branch_from, n.branch_to, n.gen_bus))
    b, g, r, base, rad = n.bus_table, n.gen_table, n.branch_table, n.base_mva, np.pi / 180
    loads = np.flatnonzero((n.pd != 0) | (n.qd != 0))
    tap, half, y = np.where(r[:, 8] == 0, 1, r[:, 8]) * np.exp(1j * rad * r[:, 9]), 0.5j * r[:, 4], 1 / (r[:, 2] + 1j * r[:, 3])
    yff, yft, ytf, ytt = (y + half) / np.abs(tap) ** 2, -y / np.conj(tap), -y / tap, y + half
    bounds = {"vm": (b[:, 12], b[:, 11]), "pg": (g[:, 9] / base, g[:, 8] / base), "qg": (g[:, 4] / base, g[:, 3] / base)}
    smax = np.where(r[:, 5] > 0, r[:, 5] / base, np.inf)
    bounded = (r[:, 11] != 0) | (r[:, 12] != 0)
    worst = np.zeros(4)  # of equations, limits, stationarity, complementarity
    for k in range(len(given["pd"])):
        x, z = ({key: np.asarray(v[k], float) for key, v in result[group].items()} for group in ("primal", "dual"))
        on, unit = np.asarray(given["branch_status"][k], float), np.asarray(given["gen_status"][k], float)
        v = x["vm"] * np.exp(1j * x["va"])
        sf, st = on * v[f] * np.conj(yff * v[f] + yft * v[t]), on * v[t] * np.conj(ytf * v[f] + ytt * v[t])
        pf, pt = x["pf"] + 1j * x["qf"], x["pt"] + 1j * x["qt"]
        left = -(b[:, 4] - 1j * b[:, 5]) * x["vm"] ** 2 / base
        left[loads] -= given["pd"][k] + 1j * given["qd"][k]
        for place, s, sign in ((u, x["pg"] + 1j * x["qg"], 1), (f, pf, -1), (t, pt, -1)):
            np.add.at(left, place, sign * s)
        equations = np.max([np.abs(e).max() for e in (sf - pf, st - pt, left)])
        # Stationarity of the objective less duals times constraints, by every variable.
        dual = z["kcl_p"] + 1j * z["kcl_q"]
        size = max(np.abs(dual).max(), 1)
        c2, c1, _ = n.cost_table.T
        gradients = [(2 * c2 * base**2 * x["pg"] + c1 * base - z["kcl_p"][u] - z["pg"]) * unit, (-z["kcl_q"][u] - z["qg"]) * unit]
        for flow, end, place in ((pf, "f", f), (pt, "t", t)):
            sm, ohm = z[f"sm_{end.replace('f', 'fr').replace('t', 'to')}"], z[f"ohm_p{end}"] + 1j * z[f"ohm_q{end}"]
            gradients.append(on * (dual[place] + ohm - 2 * flow * sm))
        angle, magnitude = np.zeros(len(b)), -z["vm"] + 2 * x["vm"] / base * (z["kcl_p"] * b[:, 4] - z["kcl_q"] * b[:, 5])
        for s, ends, here, own, place, other in ((sf, "f", v[f], yff, f, t), (st, "t", v[t], ytt, t, f)):
            ohm = z[f"ohm_p{ends}"] - 1j * z[f"ohm_q{ends}"]
            mutual = s - on * np.conj(own) * np.abs(here) ** 2  # the part of both voltages; the rest is of |V|² here
            np.add.at(angle, place, -(ohm * 1j * mutual).real)
            np.add.at(angle, other, (ohm * 1j * mutual).real)
            np.add.at(magnitude, place, -(ohm * (2 * (s - mutual) + mutual)).real / np.abs(here))
            np.add.at(magnitude, other, -(ohm * mutual).real / x["vm"][other])
        np.add.at(angle, f, -z["va_diff"])
        np.add.at(angle, t, z["va_diff"])
        angle[[at[int(i)] for i in n.reference]] = 0  # of which the dual of the reference's angle is the rest
        stationarity = max(np.abs(e).max() for e in [*gradients, angle, magnitude]) / size
        limits, slack = [0.0], [0.0]
        for key, (lo, hi) in bounds.items():
            live = unit if key != "vm" else 1
            limits += [(lo * live - x[key]).max(), (x[key] - hi * live).max()]
            slack += [np.nanmax(live * np.maximum(z[key], 0) * (x[key] - lo)), np.nanmax(live * np.maximum(-z[key], 0) * (hi - x[key]))]
        for flow, dual_of in ((pf, z["sm_fr"]), (pt, z["sm_to"])):
            limits += [(np.abs(flow) - smax).max(), dual_of.max() / size]
            slack.append(np.nanmax(-dual_of * np.where(np.isinf(smax), 0, smax**2 - np.abs(flow) ** 2)))
        difference = x["va"][f] - x["va"][t]
        for gap, z_of in ((difference - rad * r[:, 11], np.maximum(z["va_diff"], 0)), (rad * r[:, 12] - difference, np.maximum(-z["va_diff"], 0))):
            limits.append((on * bounded * -gap).max())
            slack.append((on * z_of * gap * bounded).max())
        worst = np.maximum(worst, [equations, max(limits), stationarity, max(slack) / size])
    return worst
