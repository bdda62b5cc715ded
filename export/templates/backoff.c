
#ifndef GPC_SCRATCH
#define GPC_SCRATCH static
#endif

typedef gpc_{{.Symbol}}_stage stage;
typedef gpc_{{.Symbol}}_found found;
typedef double square[N][N];

{{if .Follows}}static const double lowest[NU] = { {{row .Lo}} }, highest[NU] = { {{row .Hi}} }; /* both 0: no box */
{{end}}static const double state_half[NS] = { {{row .Observer.StateHalf}} }, action_half[NU] = { {{row .Observer.ActionHalf}} }; /* which weigh the feedback */

static void begins(stage *at, const double *s, const double *c, const double *u)
{
    memcpy(at->s, s, sizeof at->s);
    memcpy(at->c, c, NC * sizeof *c);
    memcpy(at->u, u, sizeof at->u);
}

/* Writes where the action of a stage leads, with derivatives; 0 where these are not finite. */
static int derive(stage *at, double *next, double *after)
{
    int i, j;

    gpc_{{.Symbol}}_step_steered(at->s, at->c, at->u, next, after, at->of.d);
    for (j = 0; j < STEERED; j++)
        for (i = 0; i < N; i++)
            if (!number(at->of.d[i][j]) && !(i >= NS && j >= N))
                return 0;
    return 1;
}

{{if .Follows}}/* Writes the action of a stage of the plan by its feedback, from where the plant is. */
static void hold(const stage *is, const stage *was, double *u)
{
    int i, k;

    for (i = 0; i < NU; i++) {
        u[i] = was->u[i];
        for (k = 0; k < NS; k++)
            u[i] += was->k[i][k] * (is->s[k] - was->s[k]);
        if (lowest[i] != 0.0 || highest[i] != 0.0)
            u[i] = fmin(highest[i], fmax(lowest[i], u[i]));
    }
}

{{end}}/* Writes the stages of the plan decided before, whose last action is held{{if .Follows}}, or, where it is followed, of what its feedback makes of so many stages on{{end}}, and the state behind the
 * last; 0 where a number is not finite. */
static int stages(const measured *m, stage *plan, {{if .Follows}}int ahead, {{end}}int steps, double *end)
{
    double u[NU], after[CONTEXT];
    int t;

    begins(plan, m->s, m->c, m->u);
    for (t = 0; t < steps; t++) {
{{- if .Follows}}
        if (ahead > 0) {
            hold(plan + t, plan + ahead + t, u);
        } else {
            gpc_{{.Symbol}}_rest(u);
            if (m->planned > 0)
                memcpy(u, m->plan + (t < m->planned ? t : m->planned - 1) * NU, sizeof u);
        }
{{- else}}
        gpc_{{.Symbol}}_rest(u);
        if (m->planned > 0)
            memcpy(u, m->plan + (t < m->planned ? t : m->planned - 1) * NU, sizeof u);
{{- end}}
        memcpy(plan[t].u, u, sizeof u);
        if (!derive(plan + t, end, after))
            return 0;
        if (t + 1 < steps)
            begins(plan + t + 1, end, after, u);
    }
    return 1;
}

/* x = h^-1 g of a positive definite h, by Cholesky; h is overwritten. */
static void regulate(double h[NU][NU], double g[NU][NS], double x[NU][NS])
{
    int c, i, j, k;

    for (j = 0; j < NU; j++) {
        for (k = 0; k < j; k++)
            h[j][j] -= h[j][k] * h[j][k];
        h[j][j] = sqrt(h[j][j]);
        for (i = j + 1; i < NU; i++) {
            for (k = 0; k < j; k++)
                h[i][j] -= h[i][k] * h[j][k];
            h[i][j] /= h[j][j];
        }
    }
    memcpy(x, g, NU * sizeof *g);
    for (c = 0; c < NS; c++) {
        for (i = 0; i < NU; i++) {
            for (k = 0; k < i; k++)
                x[i][c] -= h[i][k] * x[k][c];
            x[i][c] /= h[i][i];
        }
        for (i = NU - 1; i >= 0; i--) {
            for (k = i + 1; k < NU; k++)
                x[i][c] -= h[k][i] * x[k][c];
            x[i][c] /= h[i][i];
        }
    }
}

/* Writes the gains of the linear regulator at a stage, and its cost before the stage from that behind it. */
static void regulator(stage *at, double value[NS][NS])
{
    double va[NS][NS] = { { 0.0 } }, vb[NS][NU] = { { 0.0 } }, h[NU][NU] = { { 0.0 } }, g[NU][NS] = { { 0.0 } };
    int i, j, k;

    for (i = 0; i < NS; i++)
        for (k = 0; k < NS; k++) {
            for (j = 0; j < NS; j++)
                va[i][j] += value[i][k] * at->of.d[k][j];
            for (j = 0; j < NU; j++)
                vb[i][j] += value[i][k] * at->of.d[k][N + j];
        }
    for (i = 0; i < NU; i++) {
        for (k = 0; k < NS; k++) {
            for (j = 0; j < NU; j++)
                h[i][j] += at->of.d[k][N + i] * vb[k][j];
            for (j = 0; j < NS; j++)
                g[i][j] += at->of.d[k][N + i] * va[k][j];
        }
        h[i][i] += 1.0 / (action_half[i] * action_half[i]);
    }
    regulate(h, g, at->k);
    for (i = 0; i < NU; i++)
        for (j = 0; j < NS; j++)
            at->k[i][j] = -at->k[i][j];
    for (i = 0; i < NS; i++) {
        for (j = 0; j < NS; j++) {
            double sum = 0.0;

            for (k = 0; k < NS; k++)
                sum += at->of.d[k][i] * va[k][j];
            for (k = 0; k < NU; k++)
                sum += g[k][i] * at->k[k][j];
            value[i][j] = sum;
        }
        value[i][i] += 1.0 / (state_half[i] * state_half[i]);
    }
}

/* x = a x a', a being the first N columns of rows of STEERED. */
static void congruent(square x, double a[N][STEERED])
{
    square work;
    int i, j, k;

    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) {
            work[i][j] = 0.0;
            for (k = 0; k < N; k++)
                work[i][j] += a[i][k] * x[k][j];
        }
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) {
            x[i][j] = 0.0;
            for (k = 0; k < N; k++)
                x[i][j] += work[i][k] * a[j][k];
        }
}

/* A step of a covariance of which nothing is measured. */
static void grow(square x, double a[N][STEERED])
{
    int i;

    congruent(x, a);
    for (i = 0; i < N; i++)
        x[i][i] += noise[i] * noise[i];
}

static double quadratic(square x, const double *v)
{
    double sum = 0.0;
    int i, j;

    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++)
            sum += v[i] * v[j] * x[i][j];
    return sum;
}

/* Takes from a covariance what an output says of which the derivatives are h. */
static void tell(square p, const double *h, double r)
{
    double ph[N], variance = r * r;
    int a, b;

    for (a = 0; a < N; a++) {
        ph[a] = 0.0;
        for (b = 0; b < N; b++)
            ph[a] += p[a][b] * h[b];
    }
    for (a = 0; a < N; a++)
        variance += h[a] * ph[a];
    for (a = 0; a < N; a++)
        for (b = 0; b < N; b++)
            p[a][b] -= ph[a] * ph[b] / variance;
}

/* What is kept off the margins in a context. */
static double *kept_in(measured *m, const double *c)
{
{{- if .Spec.Horizon}}
    (void)c;
    return m->kept[0];
{{- else}}
    const double reading = round(c[{{clock .Spec}}] * STEPS);

    return m->kept[reading > STEPS - 1 ? STEPS - 1 : reading > 0.0 ? (int)reading : 0];
{{- end}}
}

/* Finds what is kept off the margins of a stage that leads to next, by the covariance e of the state when its action acts, and d of the way off
 * the plan; 0 where a derivative is not finite. */
static int keep(stage *at, const double *next, square e, square d, found *f)
{
    double dm[ALL][STEERED], steer[N], variance{{if .Acted}}, reached[ALL][STEERED]{{end}};
    int i, j, k;

    gpc_{{.Symbol}}_margins_steered(at->s, at->c, at->u, next, at->of.d, dm);
{{- if .Acted}}
    gpc_{{.Symbol}}_margins_steered(at->s, at->c, at->u, next, NULL, reached);
{{- end}}
    for (i = 0; i < ALL; i++) {
        for (j = 0; j < STEERED; j++)
            if (!number(dm[i][j]))
                return 0;
        memcpy(steer, dm[i], sizeof steer);
        for (j = 0; j < NS; j++)
            for (k = 0; k < NU; k++)
                steer[j] += dm[i][N + k] * at->k[k][j];
        variance = quadratic(e, dm[i]);
{{- if .Acted}}
        for (j = 0; j < NS; j++)
            variance += noise[j] * noise[j] * reached[i][j] * reached[i][j];
{{- end}}
{{- if .Follows}}
        f->now[i] = {{constant .Observer.Level}} * sqrt(fmax(0.0, variance));
        for (j = 0; j < N; j++)
            f->margins[i][j] = (float)steer[j];
{{- end}}
        variance += quadratic(d, steer);
        f->room[i] = {{constant .Observer.Level}} * sqrt(fmax(0.0, variance));
    }
    return 1;
}

/* Writes the derivatives of a step under the feedback. */
static void closed_loop(const stage *at, double closed[N][STEERED]{{if .Follows}}, found *f{{end}})
{
    int i, j, k;

    memcpy(closed, at->of.d, sizeof at->of.d);
    for (i = 0; i < NS; i++)
        for (j = 0; j < NS; j++)
            for (k = 0; k < NU; k++)
                closed[i][j] += at->of.d[i][N + k] * at->k[k][j];
{{- if .Follows}}
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++)
            f->step[i][j] = (float)closed[i][j];
{{- end}}
}

/* Moves the covariances from stage t to the next: p of the estimate, of as many stages before as are under way, e and d. */
static void onwards(stage *all, int t, double closed[N][STEERED], square p, square e, square d)
{
    const stage *now = all + t, *then = all + t + 1;
    double y[NY], h[NY][N];
    square before;
    int i, j, k;

    congruent(d, closed);
    grow(p, all[t].of.d);
    memcpy(before, p, sizeof before);
    if (AHEAD > 0) {
        memcpy(before, e, sizeof before);
        grow(before, all[AHEAD + t].of.d);
    }
    gpc_{{.Symbol}}_outputs_along(then->s, then->c, now->u, y, h);
    for (i = 0; i < NY; i++)
        tell(p, h[i], deviation[i]);
    memcpy(e, p, sizeof before);
    for (k = 0; k < AHEAD; k++)
        grow(e, all[t + 1 + k].of.d);
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++)
            d[i][j] += before[i][j] - e[i][j];
}

/* Decisions of the episode that are left, as far as a plan looks. */
static int remaining(const double *c)
{
{{- if .Spec.Horizon}}
    (void)c;
    return LOOK;
{{- else}}
    const double left = STEPS - round(c[{{clock .Spec}}] * STEPS);

    return left < 1.0 ? 1 : left > STEPS ? STEPS : (int)left;
{{- end}}
}

/* Finds what is to be kept off along the plan decided before{{if .Follows}}, or along what its feedback makes of it so many stages on{{end}}; 0 where a number is not finite.
 * It is {{printf "%g" .Observer.Level}} standard deviations of each margin under the covariance of the closed
 * loop, which a linear feedback holds to the plan (as zoRO does: Zanelli, Frey, Messerer and Diehl, 2021). Before the plan, all has what is under way. */
static int keep_along(measured *m, stage *all{{if .Follows}}, int ahead{{end}})
{
    const int steps = remaining(m->c);
    double value[NS][NS] = { { 0.0 } }, end[NS], closed[N][STEERED]{{if .Observer.Ahead}}, after[CONTEXT]{{end}};
    square p, e, d = { { 0.0 } };
    stage *plan = all + AHEAD;
    int t, i, j, k;
{{if .Observer.Ahead}}
    for (t = 0; t < AHEAD; t++)
        if (!derive(all + t, end, after))
            return 0;
{{- end}}
    if (!stages(m, plan, {{if .Follows}}ahead, {{end}}steps, end))
        return 0; /* what was kept off before is the best that is known */
    for (i = 0; i < NS; i++)
        value[i][i] = 1.0 / (state_half[i] * state_half[i]);
    for (t = steps - 1; t >= 0; t--)
        regulator(plan + t, value);
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) {
            p[i][j] = 0.0;
            for (k = 0; k < N; k++)
                p[i][j] += m->root[i][k] * m->root[j][k];
        }
    memcpy(e, p, sizeof e);
    for (k = 0; k < AHEAD; k++)
        grow(e, all[k].of.d);
    for (t = 0; t < steps; t++) {
        found f;

        if (!keep(plan + t, t + 1 < steps ? plan[t + 1].s : end, e, d, &f))
            return 0;
        closed_loop(plan + t, closed{{if .Follows}}, &f{{end}});
        if (t + 1 < steps)
            onwards(all, t, closed, p, e, d);
        plan[t].of.found = f;
    }
    memset(m->kept, 0, sizeof m->kept);
    for (t = 0; t < steps; t++) {
        double *row = kept_in(m, plan[t].c);

        for (i = 0; i < ALL; i++)
            row[i] = fmax(row[i], plan[t].of.found.room[i]);
    }
    return 1;
}

/* Remembers the plan that was decided. */
static void remember(measured *m, const double *u)
{
    int count;
    const double *plan = gpc_{{.Symbol}}_ahead(&m->loop, &count);

    memcpy(m->plan, u, NU * sizeof *u);
    if (count > 1)
        memcpy(m->plan + NU, plan + NU, (size_t)(count - 1) * NU * sizeof *u);
    m->planned = count > 1 ? count : 1;
}

static unsigned attempt(measured *m, const double *w, double *u)
{
    return gpc_{{.Symbol}}_act_kept(&m->loop, (const double (*)[ALL])m->kept, m->s, m->c, w, u);
}

/* Decides as if it were the first decision, with a share of what is kept off. */
static unsigned again(measured *m, double share, const double *w, double *u)
{
    size_t i;

    for (i = 0; i < sizeof m->kept / sizeof m->kept[0][0]; i++)
        (&m->kept[0][0])[i] *= share;
    gpc_{{.Symbol}}_begin(&m->loop);
    return attempt(m, w, u);
}

/* Whether a decision has {{if .Solver}}no plan that keeps its limits{{else}}no action that keeps its limits{{end}} with what is kept off them. */
static int breaks(const measured *m, unsigned status)
{
{{- if .Solver}}
    (void)m;
    return (status & GPC_{{.Macro}}_UNSOLVED) != 0;
{{- else}}
    return status & GPC_{{.Macro}}_UNSAFE && m->loop.plan[m->loop.accepted].fails == 0;
{{- end}}
}

/* Decides along the plan of the decision before, until what is kept off has settled; 0 where a share of it has no plan. */
static int settle(measured *m, stage *all, double share, const double *w, double *u, unsigned *status)
{
    int turn;

    for (turn = 1; turn < {{.Settling}}; turn++) {
        keep_along(m, all{{if .Follows}}, 0{{end}});
        *status = again(m, share, w, u);
        if (breaks(m, *status))
            return 0;
        remember(m, u);
    }
    return 1;
}

/* A first decision is made with nothing kept off, and then with all, half or a quarter of what its plan asks for. */
static unsigned first(measured *m, stage *all, const double *w, double *u)
{
    unsigned status = attempt(m, w, u);
    double plain[sizeof m->plan / sizeof *m->plan], share;
    int planned;

    remember(m, u);
    if (breaks(m, status))
        return status;
    planned = m->planned;
    memcpy(plain, m->plan, sizeof plain);
    for (share = 1.0; share >= 0.25; share *= 0.5) {
        memcpy(m->plan, plain, sizeof plain);
        m->planned = planned;
        if (settle(m, all, share, w, u, &status))
            return status;
    }
    status = again(m, 0.0, w, u);
    remember(m, u);
    return status;
}

{{if .Follows}}{{template "follow.c" .}}{{end}}/* A later decision keeps off what the plan before it asks for, or half or a quarter of it, or nothing, where no plan keeps all. */
static unsigned later(measured *m, {{if not .Follows}}stage *all, {{end}}const double *w, double *u)
{
    unsigned status;
{{- if .Solver}}
    double resort[NU];
{{- end}}
    int k;
{{- if not .Solver}}

    if (m->wait > 0) { /* no plan was found with nothing kept off either */
        memset(m->kept, 0, sizeof m->kept);
        status = attempt(m, w, u);
        remember(m, u);
        m->wait = breaks(m, status) ? m->wait - 1 : 0;
        return status;
    }
{{- end}}

{{if .Follows}}    status = along(m, w, u);
{{else}}    keep_along(m, all);
    status = attempt(m, w, u);
    remember(m, u);
{{end}}    if (!breaks(m, status)) {
{{- if not .Solver}}
        m->vain = 0;
{{- end}}
        return status;
    }
{{- if .Solver}}
    memcpy(resort, u, sizeof resort);
{{- end}}
    for (k = 0; k < 3; k++) {
        const unsigned now = again(m, k < 2 ? 0.5 : 0.0, w, u);

{{if .Solver}}        if (!breaks(m, now)) {
            remember(m, u);
            return now;
        }
{{else}}        if (!breaks(m, now))
            m->vain = 0;
        if (k == 2 || !breaks(m, now)) {
            remember(m, u);
            status = now;
            break;
        }
{{end}}    }
{{- if .Solver}}
    memcpy(u, resort, sizeof resort);
{{- else}}
    if (breaks(m, status)) {
        m->wait = (1 << (m->vain < {{.MostVain}} ? m->vain : {{.MostVain}})) - 1;
        m->vain++;
    }
{{- end}}
    return status;
}

/* Decides with the limits kept off along the plan before, and leaves out the first action of the plan that is decided. */
static unsigned decide(measured *m, stage *all, const double *w, double *u)
{
    const unsigned status = m->decided ? later(m, {{if not .Follows}}all, {{end}}w, u) : first(m, all, w, u);

    m->decided = 1;
    if (m->planned > 1)
        memmove(m->plan, m->plan + NU, (size_t)--m->planned * NU * sizeof *u);
    return status;
}
