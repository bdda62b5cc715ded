/* Where resting is cheapest, of all states that their action leads back to: a primal-dual interior point from several places, with
 * a dense step of Newton's. The step that rests is the second of two, as the state of the first is given. */
enum { RESTS = 9, MOST_RESTS = 36, REST_ITERATIONS = 150, RICCATI = 50000, K = D + NA };
#define REST_SOLVED 1e-9
#define REST_BARRIER 1e-10

static const double middle_state[NS] = { {{row .Solver.StateMiddle}} }, half_state[NS] = { {{row .Solver.StateHalf}} }, ranged[NS] = { {{row .Solver.StateRanged}} };

static struct {
    double from[NX], w[D], way[K], before[D];
    double slack[GPC_{{.Macro}}_LIMITS], z[GPC_{{.Macro}}_LIMITS], ds[GPC_{{.Macro}}_LIMITS], dz[GPC_{{.Macro}}_LIMITS];
    double zl[NU], zu[NU], dzl[NU], dzu[NU], lambda[NA], kkt[K][K], dense[D][D];
    double saved_z[2][GPC_{{.Macro}}_LIMITS], saved_lambda[3][NA], end[NA][NA], value[NA][NA], product[NA][D], m[D][D], l[NU][NU], y[NA][NU];
} r;

/* Evaluates the functions at the iterate. */
static iterate *rest_place(loop *p)
{
    iterate *at = &p->iterates[p->now];
    int i;

    memcpy(at->x[1], r.from, sizeof r.from);
    for (i = 0; i < NA; i++)
        at->x[1][moving[i]] += typical[i] * r.w[NU + i];
    memcpy(at->x[0], at->x[1], sizeof at->x[1]);
    memcpy(at->x[2], at->x[1], sizeof at->x[1]);
    memcpy(at->v[0], r.w, sizeof at->v[0]);
    memcpy(at->v[1], r.w, sizeof at->v[1]);
    evaluate(p, at, 0);
    return at;
}

static double rest_cost(const iterate *at) { return dot(at->sigma[1], at->j[1], NJ); }

/* Row i of the derivatives of what the equations lack. */
static double rest_equation(const loop *p, int i, int a) { return p->next[1][i][a] - (a == NU + i ? 1.0 : 0.0); }

/* A derivative of the Lagrangian without the box. */
static double rest_slope(const loop *p, int a)
{
    double v = p->objective[1][a];
    int i;

    for (i = 0; i < NA; i++)
        v += r.lambda[i] * rest_equation(p, i, a);
    for (i = 0; i < ALL; i++)
        v -= r.z[i] * p->margins[1][i][a];
    return v;
}

static double rest_residual(const loop *p, double mu)
{
    const iterate *at = &p->iterates[p->now];
    double worst = 0.0;
    int i, a;

    for (a = 0; a < D; a++) {
        double v = rest_slope(p, a);

        if (a < NU) {
            v += r.zu[a] - r.zl[a];
            if (boxed(a)) {
                see(&worst, r.zl[a] * (1.0 + r.w[a]) - mu);
                see(&worst, r.zu[a] * (1.0 - r.w[a]) - mu);
            }
        }
        see(&worst, v);
    }
    for (i = 0; i < NA; i++)
        see(&worst, at->defect[1][i]);
    for (i = 0; i < ALL; i++) {
        see(&worst, at->g[1][i] - r.slack[i]);
        see(&worst, r.slack[i] * r.z[i] - mu);
    }
    return worst;
}

/* The Hessian of the Lagrangian at the iterate into p->h[1]. */
static void rest_curvature(loop *p, double mu)
{
    p->mu = mu;
    memcpy(p->z[0], r.z, sizeof r.z);
    memcpy(p->z[1], r.z, sizeof r.z);
    memset(p->lambda[1], 0, sizeof p->lambda[1]);
    memcpy(p->lambda[2], r.lambda, sizeof r.lambda);
    curvature(p);
}

/* Whether the Hessian in r.kkt is positive definite where the equations hold: with their squares added at a price it is everywhere. */
static int rest_convex(const loop *p)
{
    double most = 1.0;
    int i, j, k, a, b;

    for (a = 0; a < D; a++)
        most = larger(most, fabs(r.kkt[a][a]));
    for (a = 0; a < D; a++)
        for (b = 0; b <= a; b++) {
            double v = r.kkt[a][b];

            for (i = 0; i < NA; i++)
                v += 1e4 * most * rest_equation(p, i, a) * rest_equation(p, i, b);
            r.dense[a][b] = v;
        }
    for (i = 0; i < D; i++)
        for (j = 0; j <= i; j++) {
            const double own = r.dense[i][j];
            double v = own;

            for (k = 0; k < j; k++)
                v -= r.dense[i][k] * r.dense[j][k];
            if (i != j)
                r.dense[i][j] = v / r.dense[j][j];
            else if (!(v > 1e-14 * fabs(own)) || v - v != 0.0)
                return 0;
            else
                r.dense[i][i] = sqrt(v);
        }
    return 1;
}

/* Solves r.kkt x = r.way in place, by elimination with pivots; 0 where it is singular. */
static int rest_solve(void)
{
    int i, j, k;

    for (k = 0; k < K; k++) {
        int at = k;

        for (i = k + 1; i < K; i++)
            if (fabs(r.kkt[i][k]) > fabs(r.kkt[at][k]))
                at = i;
        if (!(fabs(r.kkt[at][k]) > 1e-300) || r.kkt[at][k] - r.kkt[at][k] != 0.0)
            return 0;
        if (at != k) {
            const double v = r.way[at];

            r.way[at] = r.way[k], r.way[k] = v;
            for (j = 0; j < K; j++) {
                const double q = r.kkt[at][j];

                r.kkt[at][j] = r.kkt[k][j], r.kkt[k][j] = q;
            }
        }
        for (i = k + 1; i < K; i++) {
            const double by = r.kkt[i][k] / r.kkt[k][k];

            for (j = k; j < K && by != 0.0; j++)
                r.kkt[i][j] -= by * r.kkt[k][j];
            r.way[i] -= by * r.way[k];
        }
    }
    for (i = K - 1; i >= 0; i--)
        r.way[i] = (r.way[i] - dot(r.kkt[i] + i + 1, r.way + i + 1, K - 1 - i)) / r.kkt[i][i];
    return finite_all(r.way, K);
}

/* The step of the variables and of the equations' multipliers. */
static int rest_newton(loop *p, double mu)
{
    const iterate *at = &p->iterates[p->now];
    double shift;
    int i, a, b;

    rest_curvature(p, mu);
    for (shift = 0.0; shift < 1e8; shift = larger(1e-8, 10.0 * shift)) { /* at most 17 times */
        memset(r.kkt, 0, sizeof r.kkt);
        for (a = 0; a < D; a++) {
            double v = p->objective[1][a];

            for (b = 0; b <= a; b++) {
                double h = p->h[1][a][b];

                for (i = 0; i < ALL; i++)
                    h += r.z[i] / r.slack[i] * p->margins[1][i][a] * p->margins[1][i][b];
                r.kkt[a][b] = r.kkt[b][a] = h;
            }
            r.kkt[a][a] += shift;
            for (i = 0; i < NA; i++)
                v += r.lambda[i] * rest_equation(p, i, a);
            for (i = 0; i < ALL; i++) /* the slack's step is that of the margin and what it lacks */
                v -= (mu / r.slack[i] + r.z[i] / r.slack[i] * (r.slack[i] - at->g[1][i])) * p->margins[1][i][a];
            if (a < NU && boxed(a)) {
                r.kkt[a][a] += r.zl[a] / (1.0 + r.w[a]) + r.zu[a] / (1.0 - r.w[a]);
                v += mu / (1.0 - r.w[a]) - mu / (1.0 + r.w[a]);
            }
            r.way[a] = -v;
        }
        if (!rest_convex(p))
            continue;
        for (i = 0; i < NA; i++) {
            for (a = 0; a < D; a++)
                r.kkt[D + i][a] = r.kkt[a][D + i] = rest_equation(p, i, a);
            r.kkt[D + i][D + i] = -1e-12;
            r.way[D + i] = -at->defect[1][i];
        }
        return rest_solve();
    }
    return 0;
}

/* The barrier function with what the equations lack, at a price. */
static double rest_merit(const iterate *at, double mu, double price)
{
    double sum = rest_cost(at);
    int i;

    for (i = 0; i < NA; i++)
        sum += price * fabs(at->defect[1][i]);
    for (i = 0; i < ALL; i++)
        sum += price * fabs(at->g[1][i] - r.slack[i]) - mu * log(r.slack[i]);
    for (i = 0; i < NU; i++)
        if (boxed(i))
            sum -= mu * log((1.0 + r.w[i]) * (1.0 - r.w[i]));
    return sum;
}

/* Takes as much of the step as lowers the merit; 0 where nothing does. */
static int rest_move(loop *p, double mu, double price)
{
    const iterate *at = &p->iterates[p->now];
    const double before = rest_merit(at, mu, price), noise = 1e-13 * (1.0 + fabs(before));
    double primal = 1.0, dual = 1.0;
    int n, i;

    for (i = 0; i < ALL; i++) {
        r.ds[i] = dot(p->margins[1][i], r.way, D) + at->g[1][i] - r.slack[i];
        r.dz[i] = mu / r.slack[i] - r.z[i] - r.z[i] / r.slack[i] * r.ds[i];
        primal = boundary(primal, 0.99 * r.slack[i], r.ds[i]);
        dual = boundary(dual, 0.99 * r.z[i], r.dz[i]);
    }
    for (i = 0; i < NU; i++)
        if (boxed(i)) {
            const double below = 1.0 + r.w[i], above = 1.0 - r.w[i], step = r.way[i];

            r.dzl[i] = mu / below - r.zl[i] - r.zl[i] / below * step;
            r.dzu[i] = mu / above - r.zu[i] + r.zu[i] / above * step;
            primal = boundary(boundary(primal, 0.99 * below, step), 0.99 * above, -step);
            dual = boundary(boundary(dual, 0.99 * r.zl[i], r.dzl[i]), 0.99 * r.zu[i], r.dzu[i]);
        }
    memcpy(r.before, r.w, sizeof r.w);
    for (n = 0; n < 25; n++, primal /= 2.0) {
        for (i = 0; i < D; i++)
            r.w[i] = r.before[i] + primal * r.way[i];
        at = rest_place(p);
        for (i = 0; i < ALL; i++) /* the slacks of least merit */
            r.slack[i] = larger(at->g[1][i], mu / price);
        if (!values_finite(p, at) || !(rest_merit(at, mu, price) <= before + noise))
            continue;
        for (i = 0; i < NA; i++)
            r.lambda[i] += primal * r.way[D + i];
        for (i = 0; i < ALL; i++)
            r.z[i] += dual * r.dz[i];
        for (i = 0; i < NU; i++)
            if (boxed(i))
                r.zl[i] += dual * r.dzl[i], r.zu[i] += dual * r.dzu[i];
        return 1;
    }
    return 0;
}

/* Solves from the iterate; 0 where it does not converge. */
static int rest_search(loop *p)
{
    const iterate *at = rest_place(p);
    double mu = 0.1, price = 1.0;
    int n, i;

    if (!values_finite(p, at))
        return 0;
    memset(r.lambda, 0, sizeof r.lambda);
    for (i = 0; i < ALL; i++) {
        r.slack[i] = larger(0.1, at->g[1][i]);
        r.z[i] = mu / r.slack[i];
    }
    for (i = 0; i < NU; i++) {
        r.zl[i] = boxed(i) ? mu / (1.0 + r.w[i]) : 0.0;
        r.zu[i] = boxed(i) ? mu / (1.0 - r.w[i]) : 0.0;
    }
    for (n = 0; n < REST_ITERATIONS; n++) {
        differentiate(p);
        if (rest_residual(p, 0.0) <= REST_SOLVED)
            return 1;
        while (mu > REST_BARRIER && rest_residual(p, mu) <= 10.0 * mu)
            mu = larger(REST_BARRIER, fmin(0.2 * mu, pow(mu, 1.5)));
        if (!rest_newton(p, mu))
            return 0;
        for (i = 0; i < NA; i++)
            price = larger(price, 2.0 * fabs(r.lambda[i] + r.way[D + i]));
        for (i = 0; i < ALL; i++)
            price = larger(price, 2.0 * r.z[i]);
        if (!rest_move(p, mu, price))
            return 0;
    }
    return 0;
}

/* Whether what no action moves stays where it is, and the state is not lost. */
static int rest_stays(const iterate *at)
{
    int i, a;

    for (i = 0; i < NS + NC; i++) {
        int moves = 0;

        for (a = 0; a < NA; a++)
            moves = moves || moving[a] == i;
        if (!moves && !(fabs(at->image[1][i] - at->x[1][i]) <= 1e-9 * (1.0 + fabs(at->x[1][i]))))
            return 0;
    }
    return !gpc_{{.Symbol}}_failed(at->x[1], at->x[1] + NS);
}

/* The cost-to-go of the linear regulator: the limit of the one of n steps with nothing behind them; 0 where there is none. */
static int rest_regulator(loop *p)
{
    int n, i, j, k, a, b;

    rest_curvature(p, REST_BARRIER);
    for (i = 0; i < NU; i++)
        if (boxed(i))
            p->h[1][i][i] += r.zl[i] / (1.0 + r.w[i]) + r.zu[i] / (1.0 - r.w[i]);
    memset(r.end, 0, sizeof r.end);
    for (n = 0; n < RICCATI; n++) {
        double change = 0.0, most = 0.0;

        memset(r.product, 0, sizeof r.product);
        for (i = 0; i < NA; i++)
            for (k = 0; k < NA; k++)
                for (a = 0; a < D; a++)
                    r.product[i][a] += r.end[i][k] * p->next[1][k][a];
        for (a = 0; a < D; a++)
            for (b = 0; b <= a; b++) {
                r.m[a][b] = p->h[1][a][b];
                for (k = 0; k < NA; k++)
                    r.m[a][b] += p->next[1][k][a] * r.product[k][b];
            }
        if (!cholesky(r.m, r.l))
            return 0;
        for (i = 0; i < NA; i++) {
            for (j = 0; j < NU; j++)
                r.y[i][j] = (r.m[NU + i][j] - dot(r.l[j], r.y[i], j)) / r.l[j][j];
            for (j = 0; j <= i; j++)
                r.value[i][j] = r.value[j][i] = r.m[NU + i][NU + j] - dot(r.y[i], r.y[j], NU);
        }
        for (i = 0; i < NA; i++) {
            if (!finite_all(r.value[i], NA))
                return 0;
            for (j = 0; j < NA; j++) {
                change = larger(change, fabs(r.value[i][j] - r.end[i][j]));
                most = larger(most, fabs(r.value[i][j]));
            }
        }
        if (change <= 1e-11 * most)
            return 1;
        memcpy(r.end, r.value, sizeof r.end);
    }
    return 0;
}

/* A steady state's largest distance outside of a state's range and its rim of 0.05, in ranges; its cost; its distance from the middle, squared. */
typedef struct { double excess, cost, distance; } rest_rank;

static rest_rank rank_rest(const iterate *at)
{
    rest_rank out = { 0.0, rest_cost(at), 0.0 };
    int i;

    for (i = 0; i < NS; i++) {
        const double d = (at->x[1][i] - middle_state[i]) / half_state[i];

        out.distance += d * d;
        if (ranged[i] != 0.0)
            out.excess = larger(out.excess, (fabs(d) - 1.0) / 2.0 - 0.05);
    }
    return out;
}

/* Whether a is inside the ranges and b is not, or else is cheaper, or else is nearer to the middle. */
static int rest_better(rest_rank a, rest_rank b)
{
    if (fabs(a.excess - b.excess) > 1e-6)
        return a.excess < b.excess;
    if (fabs(a.cost - b.cost) > 1e-7 * (1.0 + fabs(b.cost)))
        return a.cost < b.cost;
    return a.distance < b.distance - 1e-6;
}

/* Finds what comes behind the horizon, with the trial for its work. */
static void find_rest(loop *p, const double *c)
{
    const double mu = p->mu, scale = p->objective_scale;
    const int steps = p->steps;
    rest_rank best = { 0.0, 0.0, 0.0 };
    double rested[NU];
    uint64_t seed = UINT64_C(0x72657374);
    int k, i, j;

    memcpy(r.saved_z, p->z, sizeof r.saved_z);
    memcpy(r.saved_lambda, p->lambda, sizeof r.saved_lambda);
    p->rests = 0;
    p->now = 1 - p->now;
    p->steps = 2;
    p->objective_scale = 1.0;
    gpc_{{.Symbol}}_rest(rested);
    {
        int found = 0;

        for (k = 0; k < RESTS || (k < MOST_RESTS && found && best.excess > 1e-6); k++) {
            iterate *at;
            rest_rank rank;

            memcpy(r.from + NS, c, NC * sizeof *c);
            for (i = 0; i < NS; i++) {
                r.from[i] = middle_state[i];
                if (k > 0) {
                    uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

                    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
                    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
                    r.from[i] += 0.8 * half_state[i] * ((double)((z ^ z >> 31) >> 11) / 4503599627370496.0 - 1.0);
                }
            }
            for (j = 0; j < NU; j++) {
                r.w[j] = (rested[j] - middle[j]) / size[j];
                if (boxed(j))
                    r.w[j] = fmax(-0.9, fmin(0.9, r.w[j]));
            }
            memset(r.w + NU, 0, NA * sizeof *r.w);
            at = rest_place(p);
            for (i = 0; i < NA; i++) /* what of the context moves may remember the action */
                if (moving[i] >= NS)
                    r.from[moving[i]] = at->image[1][moving[i]];
            if (!rest_stays(at) || !rest_search(p) || !rest_stays(at))
                continue;
            rank = rank_rest(at);
            if (found && !rest_better(rank, best))
                continue;
            found = 1, best = rank;
            for (i = 0; i < NA; i++) {
                p->place[i] = at->x[1][moving[i]];
                p->first_order[i] = r.lambda[i];
            }
            memset(p->second_order, 0, sizeof p->second_order);
            if (rest_regulator(p))
                memcpy(p->second_order, r.value, sizeof r.value);
        }
        p->rests = found;
    }
    p->now = 1 - p->now;
    p->steps = steps;
    p->mu = mu;
    p->objective_scale = scale;
    memcpy(p->z, r.saved_z, sizeof r.saved_z);
    memcpy(p->lambda, r.saved_lambda, sizeof r.saved_lambda);
}

/* Finds it for the end of a plan from a state and context, where it is not known for this context and preference. */
static void look_behind(loop *p, const double *first)
{
    double at[2][NX] = { { 0.0 } }, u[NU], *c = NULL;
    int same = p->known && p->of_adaptive == p->adaptive, now = 0, changes = 1, i, a, t;

    memcpy(at[0], first, NX * sizeof *first);
    gpc_{{.Symbol}}_rest(u);
    for (t = 0; t < N && changes; t++) {
        gpc_{{.Symbol}}_step(at[now], at[now] + NS, u, at[1 - now], at[1 - now] + NS);
        now = 1 - now;
        for (a = 0; a < NA; a++) /* what moves by the actions does not count */
            at[now][moving[a]] = first[moving[a]];
        changes = memcmp(at[0], at[1], sizeof at[0]) != 0;
    }
    c = at[now] + NS;
    for (i = 0; i < NC; i++) {
        int moves = 0;

        for (a = 0; a < NA; a++)
            moves = moves || moving[a] == NS + i;
        same = same && (moves || p->of_context[i] == c[i]);
    }
    for (i = 0; i < NJ && !p->adaptive; i++)
        same = same && p->of_weights[i] == p->weights[i];
    if (same)
        return;
    memcpy(p->of_context, c, NC * sizeof *c);
    if (!p->adaptive)
        memcpy(p->of_weights, p->weights, sizeof p->of_weights);
    p->of_adaptive = p->adaptive;
    p->known = 1;
    find_rest(p, c);
}
