static double larger(double x, double y) { return x > y ? x : y; }

static int boxed(int j) { return lowest[j] != 0.0 || highest[j] != 0.0; }

/* out = matrix * x, the matrix's entries standing in the rows and columns listed. */
{{.Alone}}static void apply(int rows, int count, const unsigned short *row, const unsigned short *col, const double *value, along *x, along *out)
{
    int i, a;

    memset(out, 0, (size_t)rows * sizeof *out);
    for (i = 0; i < count; i++)
        for (a = 0; a < D; a++)
            out[row[i]][a] += value[i] * x[col[i]][a];
}

/* Adds x' matrix x to the lower triangle of h, the matrix being symmetric and given by its lower triangle. */
{{.Alone}}static void curve(along *h, int count, const unsigned short *row, const unsigned short *col, const double *value, along *x)
{
    int i, a, b;

    for (i = 0; i < count; i++) {
        const double *p = x[row[i]], *q = x[col[i]];

        for (a = 0; a < D; a++) {
            const double left = value[i] * p[a], right = row[i] == col[i] ? 0.0 : value[i] * q[a];

            if (left != 0.0 || right != 0.0)
                for (b = 0; b <= a; b++)
                    h[a][b] += left * q[b] + right * p[b];
        }
    }
}

/* One step of the dynamics with its derivatives: of the decision, or of the escape behind it. */
struct block {
    double s[NS], c[CONTEXT], u[NU], next[NS], after[CONTEXT];
    along x[INPUTS], after_by[CONTEXT];
    int clipped[NU];
{{- if eq .Integrator "rk4"}}
    double values[4 * {{.Y.Substeps}}][NS];
    along by[4 * {{.Y.Substeps}}][NS];
{{- else if eq .Integrator "radau"}}
    double values[{{.Y.Substeps}}][2 * NS];
    along by[{{.Y.Substeps}}][2 * NS];
{{- end}}
};

{{if not .Device}}static struct block chain[1 + ESCAPES];
{{end}}
{{if eq .Integrator "rk4"}}
static const double ahead[4] = { {{constant .Half}}, {{constant .Half}}, {{constant .H}}, 0.0 };
static const double share[4] = { {{constant .Sixth}}, {{constant .Solver.Third}}, {{constant .Solver.Third}}, {{constant .Sixth}} };

/* The next state by {{.Y.Substeps}} steps of the classical Runge-Kutta method, with derivatives; the stages are kept. */
{{.Alone}}static void integrate_along(struct block *b)
{
    {{.Scratch}}along in[AT_NEXT], slope_by[NS], sum_by[NS];
    double slope[NS], sum[NS] = { 0.0 }, value[ODE_ROOM] = { 0.0 };
    int st, i, a;

    memcpy(b->values[0], b->s, sizeof b->s);
    memcpy(b->by[0], b->x, sizeof b->by[0]);
    memcpy(in + AT_C, b->x + AT_C, (AT_NEXT - AT_C) * sizeof *in);
    for (st = 0; st < 4 * {{.Y.Substeps}}; st++) {
        const int q = st % 4, begin = st - q, end = st + 1 == 4 * {{.Y.Substeps}};

        memcpy(in, b->by[st], sizeof b->by[st]);
        ode_jacobian(b->values[st], b->c, b->u, slope, value);
        apply(NS, ODE_COUNT, ode_row, ode_col, value, in, slope_by);
        if (q == 0) {
            memcpy(sum, b->values[st], sizeof sum);
            memcpy(sum_by, b->by[st], sizeof sum_by);
        }
        for (i = 0; i < NS; i++) {
            double *to = end ? b->next + i : b->values[st + 1] + i;
            double *to_by = end ? b->x[AT_NEXT + i] : b->by[st + 1][i];

            sum[i] += share[q] * slope[i];
            *to = q == 3 ? sum[i] : b->values[begin][i] + ahead[q] * slope[i];
            for (a = 0; a < D; a++) {
                sum_by[i][a] += share[q] * slope_by[i][a];
                to_by[a] = q == 3 ? sum_by[i][a] : b->by[begin][i][a] + ahead[q] * slope_by[i][a];
            }
        }
    }
}

/* The way back: from the derivatives of the Lagrangian by the next state to those by s, c and u, which are added, and its curvature. */
{{.Alone}}static void integrate_back(struct block *b, along *h, double *to_next, double *to_in)
{
    {{.Scratch}}along in[AT_NEXT];
    double end[NS], back[NS], weight[NS], gradient[AT_NEXT], value[ODE_CURVES] = { 0.0 };
    int st, i;

    memcpy(in + AT_C, b->x + AT_C, (AT_NEXT - AT_C) * sizeof *in);
    memset(back, 0, sizeof back);
    memcpy(end, to_next, sizeof end);
    for (st = 4 * {{.Y.Substeps}} - 1; st >= 0; st--) {
        const int q = st % 4;

        if (q == 3)
            memcpy(end, to_next, sizeof end);
        for (i = 0; i < NS; i++)
            weight[i] = share[q] * end[i] + (q < 3 ? ahead[q] * back[i] : 0.0);
        memcpy(in, b->by[st], sizeof b->by[st]);
        ode_hessian(b->values[st], b->c, b->u, weight, gradient, value);
        curve(h, ODE_CURVED, ode_hrow, ode_hcol, value, in);
        memset(back, 0, sizeof back);
        for (i = 0; i < ODE_BY; i++) {
            if (ode_by[i] < NS)
                back[ode_by[i]] = gradient[i];
            else
                to_in[ode_by[i]] += gradient[i];
        }
        for (i = 0; i < NS; i++)
            to_next[i] += back[i];
    }
    for (i = 0; i < NS; i++)
        to_in[i] += to_next[i];
}
{{else if eq .Integrator "radau"}}
{{template "radau.c" .}}
/* Solves with the transposed matrix. */
static void substitute_back(struct stages *w)
{
    double *b = w->r;
    int i, j;

    for (i = 0; i < WIDTH; i++) {
        double sum = 0.0;

        for (j = 0; j < i; j++)
            sum += w->matrix[j][i] * b[j];
        b[i] = (b[i] - sum) * w->matrix[i][i];
    }
    for (i = WIDTH - 1; i >= 0; i--) {
        double sum = 0.0;

        for (j = i + 1; j < WIDTH; j++)
            sum += w->matrix[j][i] * b[j];
        b[i] -= sum;
    }
    for (i = WIDTH - 1; i >= 0; i--) {
        const double v = b[i];

        b[i] = b[w->pivot[i]], b[w->pivot[i]] = v;
    }
}

/* The next state by {{.Y.Substeps}} implicit steps, with derivatives; the stages are kept. */
{{.Alone}}static void integrate_along(struct block *b)
{
    struct stages w;
    double from[NS];
    {{.Scratch}}along from_by[NS];
    int n, i, j, k, a;

    w.length = {{constant .H}};
    memcpy(from, b->s, sizeof from);
    memcpy(from_by, b->x, sizeof from_by);
    for (n = 0; n < {{.Y.Substeps}}; n++) {
        const int solved = solve(&w, from, b->c, b->u) && newton(&w, b->c, b->u);

        memcpy(b->values[n], w.stage, sizeof w.stage);
        for (a = 0; a < D; a++) {
            for (i = 0; i < WIDTH; i++)
                w.r[i] = from_by[i % NS][a];
            for (j = 0; j < 2; j++)
                for (k = 0; k < ODE_COUNT; k++)
                    if (ode_col[k] >= NS) {
                        const double d = w.length * w.value[j][k] * b->x[ode_col[k]][a];

                        w.r[ode_row[k]] += radau[0][j] * d;
                        w.r[NS + ode_row[k]] += radau[1][j] * d;
                    }
            substitute(&w);
            for (i = 0; i < WIDTH; i++)
                b->by[n][i][a] = w.r[i];
        }
        for (i = 0; i < NS; i++) {
            from[i] = solved ? w.stage[NS + i] : (double)NAN;
            memcpy(from_by[i], b->by[n][NS + i], sizeof from_by[i]);
        }
    }
    memcpy(b->next, from, sizeof from);
    memcpy(b->x + AT_NEXT, from_by, sizeof from_by);
}

/* The way back: from the derivatives of the Lagrangian by the next state to those by s, c and u, which are added, and its curvature. */
{{.Alone}}static void integrate_back(struct block *b, along *h, double *to_next, double *to_in)
{
    {{.Scratch}}along in[AT_NEXT];
    struct stages w;
    double weight[NS], gradient[AT_NEXT], value[ODE_CURVES] = { 0.0 }, multiplier[WIDTH];
    int n, i, j;

    w.length = {{constant .H}};
    memcpy(in + AT_C, b->x + AT_C, (AT_NEXT - AT_C) * sizeof *in);
    for (n = {{.Y.Substeps}} - 1; n >= 0; n--) {
        memcpy(w.stage, b->values[n], sizeof w.stage);
        newton(&w, b->c, b->u);
        memset(w.r, 0, sizeof w.r);
        memcpy(w.r + NS, to_next, NS * sizeof *to_next);
        substitute_back(&w);
        memcpy(multiplier, w.r, sizeof multiplier);
        for (j = 0; j < 2; j++) {
            for (i = 0; i < NS; i++)
                weight[i] = w.length * (radau[0][j] * multiplier[i] + radau[1][j] * multiplier[NS + i]);
            memcpy(in, b->by[n] + j * NS, NS * sizeof *in);
            ode_hessian(b->values[n] + j * NS, b->c, b->u, weight, gradient, value);
            curve(h, ODE_CURVED, ode_hrow, ode_hcol, value, in);
            for (i = 0; i < ODE_BY; i++)
                if (ode_by[i] >= NS)
                    to_in[ode_by[i]] += gradient[i];
        }
        for (i = 0; i < NS; i++)
            to_next[i] = multiplier[i] + multiplier[NS + i];
    }
    for (i = 0; i < NS; i++)
        to_in[i] += to_next[i];
}
{{end}}
/* The state and context after a block's action, with derivatives. */
static void move_along(struct block *b)
{
    double value[STEP_ROOM] = { 0.0 };
{{- if .Integrator}}

    integrate_along(b);
    step_jacobian(b->s, b->c, b->u, b->next, b->after, value);
    apply(NC, STEP_COUNT, step_row, step_col, value, b->x, b->after_by);
{{- else}}
    {{.Scratch}}along out[NX];

    step_jacobian(b->s, b->c, b->u, b->next, b->after, value);
    apply(NX, STEP_COUNT, step_row, step_col, value, b->x, out);
    memcpy(b->x + AT_NEXT, out, NS * sizeof *out);
    memcpy(b->after_by, out + NS, NC * sizeof *out);
{{- end}}
}

/* Adds a gradient of (s, c, u, next) to what leads there. */
static void add_gradient(int count, const unsigned short *by, const double *gradient, double *to_in, double *to_next)
{
    int i;

    for (i = 0; i < count; i++)
        if (by[i] < AT_NEXT)
            to_in[by[i]] += gradient[i];
        else
            to_next[by[i] - AT_NEXT] += gradient[i];
}

/* Step t with its derivatives in the first block, and in the others the escape behind it where it is asked for; margins with theirs where
 * m is not a null pointer. The state of the first step is given. */
{{.Alone}}static void linearise_step(struct block *blocks, const iterate *at, int t, int escapes, double *m, along *m_by)
{
    int k, i, j;

    for (k = 0; k <= escapes; k++) {
        struct block *b = blocks + k;

        if (k == 0) {
            memcpy(b->s, at->x[t], sizeof b->s);
            memcpy(b->c, at->x[t] + NS, NC * sizeof *b->c);
            memcpy(b->u, at->u[t], sizeof b->u);
            memset(b->x, 0, sizeof b->x);
            for (j = 0; j < NU; j++)
                b->x[AT_U + j][j] = size[j];
            for (i = 0; i < NA && t > 0; i++)
                b->x[moving[i]][NU + i] = typical[i];
        }
{{- if .Y.EscapeSteps}} else {
            double value[ESCAPE_ROOM] = { 0.0 };

            memcpy(b->s, b[-1].next, sizeof b->s);
            memcpy(b->c, b[-1].after, sizeof b->c);
            memcpy(b->x, b[-1].x + AT_NEXT, NS * sizeof *b->x);
            memcpy(b->x + AT_C, b[-1].after_by, NC * sizeof *b->x);
            escape_jacobian(b->s, b->c, b->u, value);
            apply(NU, ESCAPE_COUNT, escape_row, escape_col, value, b->x, b->x + AT_U);
            for (j = 0; j < NU; j++) {
                b->clipped[j] = boxed(j) && !(b->u[j] > lowest[j] && b->u[j] < highest[j]);
                if (b->clipped[j])
                    memset(b->x[AT_U + j], 0, sizeof b->x[AT_U + j]);
            }
            clip(b->u);
        }
{{- end}}
        move_along(b);
{{- if .NM}}
        if (m) {
            double value[MARGINS_ROOM] = { 0.0 };

            margins_jacobian(b->s, b->c, b->u, b->next, m + k * NM, value);
            apply(NM, MARGINS_COUNT, margins_row, margins_col, value, b->x, m_by + k * NM);
        }
{{- else}}
        (void)m, (void)m_by;
{{- end}}
    }
}

/* First derivatives of every step. */
{{.Alone}}static void differentiate(loop *p)
{
    const iterate *at = &p->iterates[p->now];
    double m[GPC_{{.Macro}}_LIMITS], j[NJ], value[OBJECTIVES_ROOM] = { 0.0 };
    int t, i, k, a;
{{if .Device}}    struct block chain[1 + ESCAPES];
{{end}}
    {{.Steps}} {
        const struct block *b = chain;
{{if .Device}}        along margins[GPC_{{.Macro}}_LIMITS], dj[NJ];
{{else}}        along *const margins = p->margins[t], *const dj = p->dj[t];
{{end}}
        linearise_step(chain, at, t, ESCAPES, m, margins);
{{- if .Solver.MarginSizes}}
        for (i = 0; i < ALL; i++)
            for (a = 0; a < D; a++)
                margins[i][a] /= margin_size[i];
{{- end}}
        for (i = 0; i < NA; i++)
            for (a = 0; a < D; a++)
                p->next[t][i][a] = t < (LASTS ? p->steps : p->steps - 1) ? (moving[i] < NS ? b->x[AT_NEXT + moving[i]][a] : b->after_by[moving[i] - NS][a]) / typical[i] : 0.0;
        objectives_jacobian(b->s, b->c, b->u, b->next, j, value);
        apply(NJ, OBJECTIVES_COUNT, objectives_row, objectives_col, value, chain[0].x, dj);
        memset(p->dsigma[t], 0, sizeof p->dsigma[t]);
        if (p->adaptive && t > 0) {
            double slope[PRIORITY_ROOM] = { 0.0 }, sigma[NJ];

            priority_jacobian(b->s, b->c, sigma, slope);
            apply(NJ, PRIORITY_COUNT, priority_row, priority_col, slope, chain[0].x, p->dsigma[t]);
        }
        for (a = 0; a < D; a++) {
            p->objective[t][a] = 0.0;
            for (k = 0; k < NJ; k++)
                p->objective[t][a] += at->sigma[t][k] * dj[k][a] + at->j[t][k] * p->dsigma[t][k][a];
        }
{{if .Device}}        memcpy(p->margins[t], margins, sizeof margins);
        memcpy(p->dj[t], dj, sizeof dj);
{{end}}    }
}

/* Whether the margins of a step weigh enough that Newton's matrix wants their curvature. */
static int curving(const loop *p, int t)
{
    int k, a;

    for (k = 0; k < ALL; k++)
        for (a = 0; a < D; a++)
            if (!(p->z[t][k] * fabs(p->margins[t][k][a]) <= 1e-3 + 30.0 * p->mu))
                return 1;
    return 0;
}

static double weight(const loop *p, int t, int i)
{
    const iterate *at = &p->iterates[p->now];

    return 1.0 / (at->kept[t][i] / p->z[t][i] + at->broken[t][i] / (p->rho - p->z[t][i]));
}

/* Adds what the margins and the box of a step weigh to the matrix of its quadratic program. */
static void condense(const loop *p, int t, along *h)
{
    const iterate *at = &p->iterates[p->now];
    int i, a, b;

    for (i = 0; i < ALL; i++) {
        const double w = weight(p, t, i), *g = p->margins[t][i];

        for (a = 0; a < D; a++)
            if (g[a] != 0.0)
                for (b = 0; b <= a; b++)
                    h[a][b] += w * g[a] * g[b];
    }
    for (i = 0; i < NU; i++)
        h[i][i] += boxed(i) ? p->zl[t][i] / (1.0 + at->v[t][i]) + p->zu[t][i] / (1.0 - at->v[t][i]) : 1e-6;
}

/* Hessians of every step's Lagrangian. */
{{.Alone}}static void curvature(loop *p)
{
    const iterate *at = &p->iterates[p->now];
    int t, i, k, a, b;
{{if .Device}}    struct block chain[1 + ESCAPES];
{{end}}
    {{.Steps}} {
        const int near = curving(p, t), escapes = near ? ESCAPES : 0;
        {{if .Device}}along h[D]{{else}}along *h = p->h[t]{{end}};
        double to_s[NS], to_c[CONTEXT], to_next[NS], to_after[CONTEXT], to_in[INPUTS], gradient[INPUTS];

        memset(h, 0, sizeof p->h[t]);
        memset(to_s, 0, sizeof to_s);
        memset(to_c, 0, sizeof to_c);
        linearise_step(chain, at, t, escapes, NULL, NULL);
        for (k = escapes; k >= 0; k--) {
            struct block *q = chain + k;

            memcpy(to_next, to_s, sizeof to_next);
            memcpy(to_after, to_c, sizeof to_after);
            memset(to_in, 0, sizeof to_in);
            if (k == 0 && t < (LASTS ? p->steps : p->steps - 1))
                for (i = 0; i < NA; i++)
                    *(moving[i] < NS ? to_next + moving[i] : to_after + moving[i] - NS) += p->lambda[t + 1][i] / typical[i];
{{- if .NM}}
            if (near) {
                double weight[NM], value[MARGINS_CURVES] = { 0.0 };

                for (i = 0; i < NM; i++)
                    weight[i] = -p->z[t][k * NM + i]{{if .Solver.MarginSizes}} / margin_size[k * NM + i]{{end}};
                margins_hessian(q->s, q->c, q->u, q->next, weight, gradient, value);
                curve(h, MARGINS_CURVED, margins_hrow, margins_hcol, value, q->x);
                add_gradient(MARGINS_BY, margins_by, gradient, to_in, to_next);
            }
{{- end}}
            if (k == 0) {
                double weight[NJ], value[OBJECTIVES_CURVES] = { 0.0 };

                for (i = 0; i < NJ; i++)
                    weight[i] = p->objective_scale * at->sigma[t][i];
                objectives_hessian(q->s, q->c, q->u, q->next, weight, gradient, value);
                curve(h, OBJECTIVES_CURVED, objectives_hrow, objectives_hcol, value, q->x);
                add_gradient(OBJECTIVES_BY, objectives_by, gradient, to_in, to_next);
            }
            {
                double value[STEP_CURVES] = { 0.0 };
{{- if .Integrator}}

                step_hessian(q->s, q->c, q->u, q->next, to_after, gradient, value);
                curve(h, STEP_CURVED, step_hrow, step_hcol, value, q->x);
                add_gradient(STEP_BY, step_by, gradient, to_in, to_next);
                integrate_back(q, h, to_next, to_in);
{{- else}}
                double weight[NX];

                memcpy(weight, to_next, sizeof to_next);
                memcpy(weight + NS, to_after, NC * sizeof *weight);
                step_hessian(q->s, q->c, q->u, weight, gradient, value);
                curve(h, STEP_CURVED, step_hrow, step_hcol, value, q->x);
                add_gradient(STEP_BY, step_by, gradient, to_in, to_next);
{{- end}}
            }
{{- if .Y.EscapeSteps}}
            if (k > 0) {
                double value[ESCAPE_CURVES] = { 0.0 };

                for (i = 0; i < NU; i++)
                    if (q->clipped[i])
                        to_in[AT_U + i] = 0.0;
                escape_hessian(q->s, q->c, to_in + AT_U, gradient, value);
                curve(h, ESCAPE_CURVED, escape_hrow, escape_hcol, value, q->x);
                add_gradient(ESCAPE_BY, escape_by, gradient, to_in, to_next);
            }
{{- end}}
            memcpy(to_s, to_in, sizeof to_s);
            memcpy(to_c, to_in + AT_C, NC * sizeof *to_c);
        }
        if (p->adaptive && t > 0) {
            double weight[NJ], value[PRIORITY_CURVES] = { 0.0 };

            for (i = 0; i < NJ; i++)
                weight[i] = p->objective_scale * at->j[t][i];
            priority_hessian(chain[0].s, chain[0].c, weight, gradient, value);
            curve(h, PRIORITY_CURVED, priority_hrow, priority_hcol, value, chain[0].x);
            for (i = 0; i < NJ; i++)
                for (a = 0; a < D; a++)
                    for (b = 0; b <= a; b++)
                        h[a][b] += p->objective_scale * (p->dsigma[t][i][a] * p->dj[t][i][b] + p->dj[t][i][a] * p->dsigma[t][i][b]);
        }
{{if .Device}}        condense(p, t, h);
        memcpy(p->h[t], h, sizeof h);
{{end}}    }
}

/* How many steps have a state behind them that something looks at. */
static int transitions(const loop *p) { return LASTS ? p->steps : p->steps - 1; }
{{if .Spec.Horizon}}
/* V in a state and context. */
static double behind(const loop *p, const double *x)
{
    double sum = 0.0, away[NA];
    int i;

    if (!p->rests)
        return 0.0;
    for (i = 0; i < NA; i++)
        away[i] = (x[moving[i]] - p->place[i]) / typical[i];
    for (i = 0; i < NA; i++)
        sum += (p->first_order[i] + dot(p->second_order[i], away, NA) / 2.0) * away[i];
    return sum;
}

/* Adds scale times the gradient of V to out. */
static void add_behind(const loop *p, const double *x, double scale, double *out)
{
    double away[NA];
    int i;

    if (!p->rests)
        return;
    for (i = 0; i < NA; i++)
        away[i] = (x[moving[i]] - p->place[i]) / typical[i];
    for (i = 0; i < NA; i++)
        out[i] += scale * (p->first_order[i] + dot(p->second_order[i], away, NA));
}
{{end}}
/* The actions of a step in their own units. */
static void act(iterate *at, int t)
{
    int j;

    for (j = 0; j < NU; j++)
        at->u[t][j] = middle[j] + size[j] * at->v[t][j];
}

/* Every function's value along the plan. Rolled: the states follow from the actions, and are written. */
{{.Alone}}static void evaluate(loop *p, iterate *at, int rolled)
{
    int t, i;

    at->rolled = rolled;
    at->f = 0.0;
    {{.Steps}} {
        const double *s = at->x[t], *c = at->x[t] + NS;

        act(at, t);
        gpc_{{.Symbol}}_evaluate(s, c, at->u[t], at->image[t], at->image[t] + NS, at->j[t], at->g[t]);
{{- if .KeepsOff}}
        keep_off(off_limits, c, at->g[t]);
{{- end}}
{{- if .Solver.MarginSizes}}
        for (i = 0; i < ALL; i++)
            at->g[t][i] /= margin_size[i];
{{- end}}
{{- if .Device}}
        for (i = 0; i < ALL; i++)
            at->g[t][i] -= p->room[i];
{{- else}}
        if (rolled)
            memcpy(at->x[t + 1], at->image[t], sizeof at->image[t]);
{{- end}}
        if (p->adaptive)
            gpc_{{.Symbol}}_priority(s, c, at->sigma[t]);
        else
            memcpy(at->sigma[t], p->weights, sizeof p->weights);
        for (i = 0; i < NJ; i++)
            at->f += at->sigma[t][i] * at->j[t][i];
        for (i = 0; i < NA; i++)
            at->defect[t][i] = rolled || t == transitions(p) ? 0.0 : (at->image[t][moving[i]] - at->x[t + 1][moving[i]]) / typical[i];
    }{{if .Device}}
    at->f = gpc::warp_sum64(at->f);
    __syncwarp();{{end}}
{{- if .Spec.Horizon}}
    at->f += behind(p, at->x[p->steps]);
{{- end}}
}

static int values_finite(const loop *p, const iterate *at)
{
    double sum = {{.First}}at->f - at->f;
    int t, i;

    {{.Steps}} {
        for (i = 0; i < ALL; i++)
            sum += at->g[t][i] - at->g[t][i];
        for (i = 0; i < NA; i++)
            sum += at->defect[t][i] - at->defect[t][i];
    }
{{.Joined}}    return sum == 0.0;
}

/* What a margin has besides its value, such that the barrier's conditions hold for one multiplier. */
{{.Alone}}static void slacks(const loop *p, iterate *at)
{
    int t, i;

    {{.Steps}}
        for (i = 0; i < ALL; i++) {
            const double g = at->g[t][i], root = hypot(p->rho * g, 2.0 * p->mu);

            if (g >= 0.0) {
                at->kept[t][i] = (2.0 * p->mu + p->rho * g + root) / (2.0 * p->rho);
                at->broken[t][i] = 1.0 / (p->rho / p->mu - 1.0 / at->kept[t][i]);
            } else {
                at->broken[t][i] = (2.0 * p->mu - p->rho * g + root) / (2.0 * p->rho);
                at->kept[t][i] = 1.0 / (p->rho / p->mu - 1.0 / at->broken[t][i]);
            }
        }
}

static double infeasibility(const loop *p, const iterate *at)
{
    double sum = 0.0;
    int t, i;

    {{.Steps}}
        for (i = 0; i < NA; i++)
            sum += fabs(at->defect[t][i]);
{{.Joined}}    return sum;
}

{{.Alone}}static double barrier(const loop *p, const iterate *at)
{
    double sum = {{.First}}p->objective_scale * at->f;
    int t, i;

    {{.Steps}} {
        for (i = 0; i < ALL; i++)
            sum += p->rho * at->broken[t][i] - p->mu * log(at->kept[t][i] * at->broken[t][i]);
        for (i = 0; i < NU; i++)
            if (boxed(i))
                sum -= p->mu * log((1.0 + at->v[t][i]) * (1.0 - at->v[t][i]));
    }
{{.Joined}}    return sum;
}

/* The gradient of a step's Lagrangian. */
static void lagrangian(const loop *p, int t, double *out)
{
    int i, a;

    for (a = 0; a < D; a++)
        out[a] = p->objective_scale * p->objective[t][a];
    for (i = 0; i < NA; i++)
        for (a = 0; a < D; a++)
            out[a] += p->lambda[t + 1][i] * p->next[t][i][a];
    for (i = 0; i < ALL; i++)
        for (a = 0; a < D; a++)
            out[a] -= p->z[t][i] * p->margins[t][i][a];
}

/* Remembers the larger magnitude; what is no number stays. */
static void see(double *worst, double v)
{
    if (!(fabs(v) <= *worst) && *worst == *worst)
        *worst = fabs(v);
}

/* The largest entry of the optimality conditions of barrier parameter mu, or of the problem itself for 0: then violation gets the
 * largest -g, and elastic the residual where a violation has its price. */
{{.Alone}}static double residual(const loop *p, double mu, double *elastic, double *violation)
{
    const iterate *at = &p->iterates[p->now];
    double sum = 0.0, scale, worst = 0.0, priced = 0.0, beyond = 0.0, slope[D]{{if .Solver.Blocked}}, of_block[NU] = { 0.0 }{{end}};
    int t, i;

    {{.Steps}} {
        for (i = 0; i < ALL; i++)
            sum += p->z[t][i];
        for (i = 0; i < NU; i++)
            sum += p->zl[t][i] + p->zu[t][i];
    }
{{.Joined}}    scale = larger(1.0, sum / (p->steps * (ALL + 2.0 * NU)) / 100.0);
    {{.Steps}} {
        lagrangian(p, t, slope);
        for (i = 0; i < NU; i++) {
{{- if .Solver.Blocked}}
            of_block[i] = (blocked[t] ? of_block[i] : 0.0) + slope[i] - p->zl[t][i] + p->zu[t][i];
            if (t + 1 == p->steps || !blocked[t + 1])
                see(&worst, of_block[i] / scale);
{{- else}}
            see(&worst, (slope[i] - p->zl[t][i] + p->zu[t][i]) / scale);
{{- end}}
            if (boxed(i)) {
                see(&worst, (p->zl[t][i] * (1.0 + at->v[t][i]) - mu) / scale);
                see(&worst, (p->zu[t][i] * (1.0 - at->v[t][i]) - mu) / scale);
            }
        }
        for (i = 0; i < NA; i++) {
            if (t > 0)
                see(&worst, (slope[NU + i] - p->lambda[t][i]) / scale);
            see(&worst, at->defect[t][i]);
        }
        for (i = 0; i < ALL; i++) {
            const double g = at->g[t][i], z = p->z[t][i];

            beyond = larger(beyond, -g);
            if (mu > 0.0) {
                see(&worst, (at->kept[t][i] * z - mu) / scale);
                see(&worst, (at->broken[t][i] * (p->rho - z) - mu) / scale);
            } else {
                see(&worst, z * larger(g, 0.0) / scale);
                priced = larger(priced, (p->rho - z) * larger(-g, 0.0) / scale);
            }
        }
    }
{{if .Device}}    worst = warp_most64(worst), priced = warp_most64(priced), beyond = warp_most64(beyond);
{{end}}    see(&priced, worst);
{{- if .Spec.Horizon}}
    {
        double last[NA];

        memcpy(last, p->lambda[p->steps], sizeof last);
        add_behind(p, at->x[p->steps], -p->objective_scale, last);
        for (i = 0; i < NA; i++)
            see(&worst, last[i] / scale);
        see(&priced, worst);
    }
{{- end}}
    if (violation)
        *violation = beyond;
    if (elastic)
        *elastic = priced;
    if (mu == 0.0)
        see(&worst, beyond);
    return worst;
}

/* Multipliers within a wide factor of their barrier's values. */
static double clamped(double mu, double z, double slack)
{
    const double low = mu / (1e10 * slack), high = 1e10 * mu / slack;

    return z < low ? low : z > high ? high : z;
}

{{.Alone}}static void reset(loop *p)
{
    const iterate *at = &p->iterates[p->now];
    int t, i;

    {{.Steps}} {
        for (i = 0; i < ALL; i++) {
            double z = clamped(p->mu, p->z[t][i], at->kept[t][i]), rest = clamped(p->mu, p->rho - z, at->broken[t][i]);

            if (rest != p->rho - z)
                z = larger(p->rho - rest, p->mu / (1e10 * at->kept[t][i]));
            p->z[t][i] = z < p->rho * (1.0 - 1e-12) ? z : p->rho * (1.0 - 1e-12);
        }
        for (i = 0; i < NU; i++)
            if (boxed(i)) {
                p->zl[t][i] = clamped(p->mu, p->zl[t][i], 1.0 + at->v[t][i]);
                p->zu[t][i] = clamped(p->mu, p->zu[t][i], 1.0 - at->v[t][i]);
            }
    }
}

/* Makes the trial the plan. */
static void accept(loop *p)
{
    p->now = 1 - p->now;
    reset(p);
    differentiate(p);
}

/* The matrices of the quadratic program. */
static void assemble(loop *p)
{
{{if or (not .Device) .Spec.Horizon}}    int {{if not .Device}}t{{if .Spec.Horizon}}, {{end}}{{end}}{{if .Spec.Horizon}}i, a{{end}};

{{end}}    curvature(p);
{{if .Device}}    if (gpc_lane() > 0)
        return;
{{else}}    for (t = 0; t < p->steps; t++)
        condense(p, t, p->h[t]);
{{end}}    memset(p->value[p->steps], 0, sizeof p->value[p->steps]);
{{- if .Spec.Horizon}}
    for (i = 0; p->rests && i < NA; i++)
        for (a = 0; a < NA; a++)
            p->value[p->steps][i][a] = p->objective_scale * p->second_order[i][a];
{{- end}}
}

/* The Cholesky factor of the actions' block; 0 where it is not positive definite. */
static int cholesky(along *m, double (*l)[NU])
{
    int i, j;

    for (i = 0; i < NU; i++)
        for (j = 0; j <= i; j++) {
            double v = m[i][j] - dot(l[i], l[j], j);

            if (i == j) {
                if (!(v > 1e-14 * fabs(m[i][i])) || !finite_all(&v, 1))
                    return 0;
                l[i][i] = sqrt(v);
            } else {
                l[i][j] = v / l[j][j];
            }
        }
    return 1;
}

/* Replaces the eigenvalues of the actions' block by their magnitudes, by Jacobi's rotations in cyclic order. */
static void reflect(along *m)
{
    double q[NU][NU], value[NU];
    int i, j, k, round;

    memset(q, 0, sizeof q);
    for (i = 0; i < NU; i++) {
        q[i][i] = 1.0;
        for (j = 0; j < i; j++)
            m[j][i] = m[i][j];
    }
    for (round = 0; round < 30; round++) {
        double off = 0.0, all = 0.0;

        for (i = 0; i < NU; i++)
            for (j = 0; j < NU; j++) {
                all += m[i][j] * m[i][j];
                off += i == j ? 0.0 : m[i][j] * m[i][j];
            }
        if (!(off > 1e-30 * all))
            break;
        for (i = 0; i < NU; i++)
            for (j = 0; j < i; j++) {
                double theta, tangent, cosine, sine;

                if (m[i][j] == 0.0)
                    continue;
                theta = (m[i][i] - m[j][j]) / (2.0 * m[i][j]);
                tangent = 1.0 / (fabs(theta) + hypot(theta, 1.0));
                tangent = theta < 0.0 ? -tangent : tangent;
                cosine = 1.0 / hypot(tangent, 1.0);
                sine = tangent * cosine;
                for (k = 0; k < NU; k++) {
                    const double x = m[k][i], y = m[k][j];

                    m[k][i] = cosine * x + sine * y, m[k][j] = cosine * y - sine * x;
                }
                for (k = 0; k < NU; k++) {
                    const double x = m[i][k], y = m[j][k], v = q[k][i], w = q[k][j];

                    m[i][k] = cosine * x + sine * y, m[j][k] = cosine * y - sine * x;
                    q[k][i] = cosine * v + sine * w, q[k][j] = cosine * w - sine * v;
                }
            }
    }
    for (i = 0; i < NU; i++)
        value[i] = fabs(m[i][i]);
    for (i = 0; i < NU; i++)
        for (j = 0; j <= i; j++) {
            m[i][j] = 0.0;
            for (k = 0; k < NU; k++)
                m[i][j] += value[k] * q[i][k] * q[j][k];
        }
}

/* The gradient of the barrier function by the variables of a step. */
static void barrier_gradient(const loop *p, int t, double *w)
{
    const iterate *at = &p->iterates[p->now];
    int i, a;

    for (a = 0; a < D; a++)
        w[a] = p->objective_scale * p->objective[t][a];
    for (i = 0; i < ALL; i++)
        for (a = 0; a < D; a++)
            w[a] -= p->mu / at->kept[t][i] * p->margins[t][i][a];
    for (i = 0; i < NU; i++)
        if (boxed(i))
            w[i] += p->mu / (1.0 - at->v[t][i]) - p->mu / (1.0 + at->v[t][i]);
}

{{if .Device}}{{template "warp.c" .}}{{else}}/* The Riccati recursion with a shift of every diagonal entry; 0 where the matrix is not positive definite along the dynamics. In so many
 * steps as reflections says the negative curvature of the actions' block is reflected instead. */
static int factor_shifted(loop *p, double shift, int reflections)
{
    static along product[NA], m[D];
    int t, i, j, k, a, b;

    for (t = p->steps - 1; t >= 0; t--) {
        memset(product, 0, sizeof product);
{{- if .Solver.Blocked}}
        for (i = 0; i < NA && t + 1 < p->steps && blocked[t + 1]; i++)
            memcpy(product[i], p->y[t + 1][i], sizeof p->y[t + 1][i]);
{{- end}}
        for (i = 0; i < NA; i++)
            for (k = 0; k < NA; k++)
                for (a = 0; a < D; a++)
                    product[i][a] += p->value[t + 1][i][k] * p->next[t][k][a];
        for (a = 0; a < D; a++) {
            for (b = 0; b <= a; b++)
                m[a][b] = p->h[t][a][b];
            m[a][a] += shift;
            for (k = 0; k < NA; k++)
                if (p->next[t][k][a] != 0.0)
                    for (b = 0; b <= a; b++)
                        m[a][b] += p->next[t][k][a] * product[k][b];
        }
{{- if .Solver.Blocked}}
        for (a = 0; a < NU && t + 1 < p->steps && blocked[t + 1]; a++)
            for (b = 0; b <= a; b++) {
                m[a][b] += p->l[t + 1][a][b];
                for (k = 0; k < NA; k++)
                    m[a][b] += p->y[t + 1][k][a] * p->next[t][k][b];
            }
        if (blocked[t]) { /* what is left is a function of actions and states: its matrix stays, and the first step of the block factors */
            for (a = 0; a < NU; a++)
                memcpy(p->l[t][a], m[a], (size_t)(a + 1) * sizeof m[a][0]);
            for (i = 0; i < NA; i++) {
                memcpy(p->y[t][i], m[NU + i], sizeof p->y[t][i]);
                for (j = 0; j <= i; j++)
                    p->value[t][i][j] = p->value[t][j][i] = m[NU + i][NU + j];
            }
            continue;
        }
{{- end}}
        if (!cholesky(m, p->l[t])) {
            if (reflections-- == 0)
                return 0;
            reflect(m);
            if (!cholesky(m, p->l[t]))
                return 0;
        }
        for (i = 0; i < NA; i++) {
            for (j = 0; j < NU; j++)
                p->y[t][i][j] = (m[NU + i][j] - dot(p->l[t][j], p->y[t][i], j)) / p->l[t][j][j];
            for (j = 0; j <= i; j++)
                p->value[t][i][j] = p->value[t][j][i] = m[NU + i][NU + j] - dot(p->y[t][i], p->y[t][j], NU);
        }
    }
    return 1;
}

{{end}}static int factor_step(loop *p)
{
    double most = 0.0, shift = p->least;
    int reflections = shift > 0.0 ? 0 : 2, t, a, b;

    {{.Steps}}
        for (a = 0; a < D; a++)
            for (b = 0; b <= a; b++)
                see(&most, p->h[t][a][b]);
{{if .Device}}    most = warp_most64(most);
{{end}}    p->gains = 0;
    if (!finite_all(&most, 1))
        return 0;
    while (!factor_shifted(p, shift, reflections)) { /* at most 25 times */
        reflections = 0;
        shift = shift == 0.0 ? larger(1e-8 * larger(1.0, most), p->shift / 3.0) : 8.0 * shift;
        if (!finite_all(&shift, 1) || shift > 1e12 * larger(1.0, most))
            return 0;
    }
    p->shift = shift;
    p->gains = 1;
    return 1;
}

/* What the actions of a step do for a state that is off the plan by xi: replaces what u holds. */
static void feedback(const loop *p, int t, const double *xi, double *u)
{
    int i, j;

    for (i = 0; i < NA; i++)
        for (j = 0; j < NU; j++)
            u[j] += xi[i] * p->y[t][i][j];
    for (j = NU - 1; j >= 0; j--) {
        double v = -u[j];

        for (i = j + 1; i < NU; i++)
            v -= p->l[t][i][j] * u[i];
        u[j] = v / p->l[t][j][j];
    }
}

{{if not .Device}}/* The solution of the quadratic program for the defects in p->defect. */
static void recurse(loop *p)
{
    double w[D];
    int t, i, j, a;

    memset(p->linear[p->steps], 0, sizeof p->linear[p->steps]);
{{- if .Spec.Horizon}}
    add_behind(p, p->iterates[p->now].x[p->steps], p->objective_scale, p->linear[p->steps]);
{{- end}}
    for (t = p->steps - 1; t >= 0; t--) {
        barrier_gradient(p, t, w);
        for (i = 0; i < NA; i++) {
            const double v = p->linear[t + 1][i] + dot(p->value[t + 1][i], p->defect[t], NA);

            for (a = 0; a < D; a++)
                w[a] += v * p->next[t][i][a];
        }
{{- if .Solver.Blocked}}
        for (j = 0; j < NU && t + 1 < p->steps && blocked[t + 1]; j++) {
            w[j] += p->lead[t + 1][j];
            for (i = 0; i < NA; i++)
                w[j] += p->y[t + 1][i][j] * p->defect[t][i];
        }
        if (blocked[t]) {
            memcpy(p->lead[t], w, sizeof p->lead[t]);
            memcpy(p->linear[t], w + NU, sizeof p->linear[t]);
            continue;
        }
{{- end}}
        for (j = 0; j < NU; j++)
            p->lead[t][j] = (w[j] - dot(p->l[t][j], p->lead[t], j)) / p->l[t][j][j];
        for (i = 0; i < NA; i++)
            p->linear[t][i] = w[NU + i] - dot(p->y[t][i], p->lead[t], NU);
    }
    memset(p->w[0], 0, sizeof p->w[0]);
    for (t = 0; t < p->steps; t++) {
        double *to = t + 1 < p->steps ? p->w[t + 1] + NU : p->last;

{{if .Solver.Blocked}}        if (blocked[t]) {
            memcpy(p->w[t], p->w[t - 1], sizeof p->lead[t]);
        } else {
            memcpy(p->w[t], p->lead[t], sizeof p->lead[t]);
            feedback(p, t, p->w[t] + NU, p->w[t]);
        }
{{else}}        memcpy(p->w[t], p->lead[t], sizeof p->lead[t]);
        feedback(p, t, p->w[t] + NU, p->w[t]);
{{end}}        for (i = 0; i < NA; i++)
            to[i] = p->defect[t][i] + dot(p->next[t][i], p->w[t], D);
    }
    for (t = 0; t <= p->steps; t++) {
        const double *xi = t < p->steps ? p->w[t] + NU : p->last;

        for (i = 0; i < NA; i++)
            p->new_lambda[t][i] = p->linear[t][i] + dot(p->value[t][i], xi, NA){{if .Solver.Blocked}} + (blocked[t] && t < p->steps ? dot(p->y[t][i], p->w[t], NU) : 0.0){{end}};
    }
}

{{end}}static double boundary(double alpha, double room, double step) { return alpha * step < -room ? -room / step : alpha; }

/* The step for the defects in p->defect, and its largest lengths. */
{{.Alone}}static void solve_step(loop *p, double *primal, double *dual)
{
    const iterate *at = &p->iterates[p->now];
    const double fraction = larger(0.99, 1.0 - p->mu);
    int t, i, j;

    recurse(p);
    *primal = *dual = 1.0;
    {{.Steps}} {
        for (i = 0; i < ALL; i++) {
            const double z = p->z[t][i];

            p->dg[t][i] = dot(p->margins[t][i], p->w[t], D);
            p->dz[t][i] = p->mu / at->kept[t][i] - z - weight(p, t, i) * p->dg[t][i];
            *dual = boundary(*dual, fraction * z, p->dz[t][i]);
            *dual = boundary(*dual, fraction * (p->rho - z), -p->dz[t][i]);
        }
        for (j = 0; j < NU; j++)
            if (boxed(j)) {
                const double below = 1.0 + at->v[t][j], above = 1.0 - at->v[t][j], step = p->w[t][j];

                p->dzl[t][j] = p->mu / below - p->zl[t][j] - p->zl[t][j] / below * step;
                p->dzu[t][j] = p->mu / above - p->zu[t][j] + p->zu[t][j] / above * step;
                *primal = boundary(*primal, fraction * below, step);
                *primal = boundary(*primal, fraction * above, -step);
                *dual = boundary(*dual, fraction * p->zl[t][j], p->dzl[t][j]);
                *dual = boundary(*dual, fraction * p->zu[t][j], p->dzu[t][j]);
            }
    }{{if .Device}}
    *primal = warp_least64(*primal), *dual = warp_least64(*dual);
    __syncwarp();{{end}}
}

/* The trial at a length of the step; 0 where it is not finite. */
{{.Alone}}static int move(loop *p, double alpha)
{
    const iterate *at = &p->iterates[p->now];
    iterate *to = &p->iterates[1 - p->now];
    int t, i, j;

{{.Met}}    {{.Points}}
        memcpy(to->x[t], at->x[t], sizeof at->x[t]);
    {{.Steps}} {
        for (j = 0; j < NU; j++)
            to->v[t][j] = at->v[t][j] + alpha * p->w[t][j];
        for (i = 0; i < NA && t > 0; i++)
            to->x[t][moving[i]] += alpha * typical[i] * p->w[t][NU + i];
    }
{{- if .Spec.Horizon}}{{.Meet}}
    for (i = 0; {{.Lead}}i < NA; i++)
        to->x[p->steps][moving[i]] += alpha * typical[i] * p->last[i];
{{- end}}
{{.Met}}    evaluate(p, to, 0);
    slacks(p, to);
    return values_finite(p, to);
}

/* The barrier function's slope along the step. */
static double slope_of(const loop *p)
{
    const iterate *at = &p->iterates[p->now];
    double sum = 0.0;
    int t, i;

    {{.Steps}} {
        sum += p->objective_scale * dot(p->objective[t], p->w[t], D);
        for (i = 0; i < NU; i++)
            if (boxed(i))
                sum += (p->mu / (1.0 - at->v[t][i]) - p->mu / (1.0 + at->v[t][i])) * p->w[t][i];
        for (i = 0; i < ALL; i++)
            sum -= p->mu / at->kept[t][i] * p->dg[t][i];
    }
{{- if .Device}}
    sum = gpc::warp_sum64(sum);
{{- end}}
{{- if .Spec.Horizon}}
    {
        double slope[NA] = { 0.0 };

        add_behind(p, at->x[p->steps], p->objective_scale, slope);
        sum += dot(slope, p->last, NA);
    }
{{- end}}
    return sum;
}

/* What the filter says of the trial. It remembers the plan where the step was not one of descent. */
static int judge(loop *p, double theta, double phi, double alpha, double slope, double noise)
{
    const iterate *to = &p->iterates[1 - p->now];
    const double now = infeasibility(p, to), value = barrier(p, to);
    int i, descends, sufficient;

    if (!(now <= p->theta_max) || value != value)
        return 0;
    for (i = 0; i < p->filters; i++)
        if (now >= p->filter[i][0] && value >= p->filter[i][1])
            return 0;
    descends = slope < 0.0 && alpha * pow(-slope, 2.3) > pow(theta, 1.1);
    sufficient = value <= phi + 1e-4 * alpha * slope + noise;
    if (descends && theta <= p->theta_min)
        return sufficient;
    if (now > (1.0 - 1e-5) * theta && value > phi - 1e-5 * theta + noise)
        return 0;
    if (value > phi + p->worth * larger(0.0, theta - now) + noise)
        return 0;
    if (!descends || !sufficient) {
        if (p->filters == GPC_{{.Macro}}_FILTER) /* the oldest goes */
            for (p->filters--, i = 0; i < p->filters; i++)
                memcpy(p->filter[i], p->filter[i + 1], sizeof p->filter[i]);
        p->filter[p->filters][0] = (1.0 - 1e-5) * theta;
        p->filter[p->filters++][1] = phi - 1e-5 * theta;
    }
    return 1;
}

/* Takes the trial and moves the multipliers. */
static void finish(loop *p, double primal, double dual)
{
    int t, i;

    {{.Points}}
        for (i = 0; i < NA; i++)
            p->lambda[t][i] += primal * (p->new_lambda[t][i] - p->lambda[t][i]);
    {{.Steps}} {
        for (i = 0; i < ALL; i++)
            p->z[t][i] += dual * p->dz[t][i];
        for (i = 0; i < NU; i++) {
            p->zl[t][i] += dual * p->dzl[t][i];
            p->zu[t][i] += dual * p->dzu[t][i];
        }
    }
{{.Met}}    p->least = 0.0;
    accept(p);
}

/* The plan's own defects are to be solved for. */
static void keep_defects(loop *p)
{
    int t;

    {{.Steps}}
        memcpy(p->defect[t], p->iterates[p->now].defect[t], sizeof p->defect[t]);{{.Meet}}
}

/* Second-order corrections of a first trial that is further from the dynamics. */
static int correct(loop *p, double alpha, double theta, double phi, double slope, double noise, double before)
{
    double dual;
    int n, t, i;

    for (n = 0; n < 2; n++) {
        const iterate *to = &p->iterates[1 - p->now];
        double now;

        {{.Steps}}
            for (i = 0; i < NA; i++)
                p->defect[t][i] = alpha * p->defect[t][i] + to->defect[t][i];
{{.Met}}        solve_step(p, &alpha, &dual);
        if (!move(p, alpha))
            break;
        if (judge(p, theta, phi, alpha, slope, noise)) {
            finish(p, alpha, dual);
            return 1;
        }
        now = infeasibility(p, to);
        if (now > 0.99 * before)
            break;
        before = now;
    }
    keep_defects(p);
    solve_step(p, &alpha, &dual);
    return 0;
}

/* The trial becomes the roll-out of the plan's actions from a state, under the feedback of the last step or without; 0 where neither
 * is finite. */
{{.Alone}}static int follow(loop *p, const double *first)
{
    const iterate *at = &p->iterates[p->now];
    iterate *to = &p->iterates[1 - p->now];
    double xi[NA], u[NU];
    int with, t, i, j;

    for (with = p->gains; with >= 0; with--) {
{{.Met}}        {{.Once}}memcpy(to->x[0], first, sizeof to->x[0]);
        for (t = 0; {{.Lead}}t < p->steps; t++) {
            memcpy(to->v[t], at->v[t], sizeof to->v[t]);
{{- if .Solver.Blocked}}
            if (blocked[t]) {
                memcpy(to->v[t], to->v[t - 1], sizeof to->v[t]);
            } else
{{- end}}
            if (with) {
                for (i = 0; i < NA; i++)
                    xi[i] = (to->x[t][moving[i]] - at->x[t][moving[i]]) / typical[i];
                memset(u, 0, sizeof u);
                feedback(p, t, xi, u);
                for (j = 0; j < NU; j++) {
                    const double low = 0.9 * (-1.0 - to->v[t][j]), high = 0.9 * (1.0 - to->v[t][j]);

                    to->v[t][j] += !boxed(j) ? u[j] : u[j] < low ? low : u[j] > high ? high : u[j];
                }
            }
            act(to, t);
            gpc_{{.Symbol}}_step(to->x[t], to->x[t] + NS, to->u[t], to->x[t + 1], to->x[t + 1] + NS);
        }
{{.Met}}        evaluate(p, to, 1);
        if (values_finite(p, to))
            return 1;
    }
    return 0;
}

/* Makes the plan a roll-out of itself. */
static int restore(loop *p)
{
    if (!follow(p, p->iterates[p->now].x[0]))
        return 0;
    slacks(p, &p->iterates[1 - p->now]);
    accept(p);
    p->filters = 0;
    return 1;
}

/* One step of Newton's method; 0 where no progress is possible. */
{{.Alone}}static int step_newton(loop *p)
{
    double primal, dual, theta, phi, slope, noise, alpha;
    int t, i, n;

    assemble(p);{{.Meet}}
    if (!factor_step(p))
        return 0;
    keep_defects(p);
    solve_step(p, &primal, &dual);
    theta = infeasibility(p, &p->iterates[p->now]);
    phi = barrier(p, &p->iterates[p->now]);
    slope = slope_of(p);
    p->worth = 1.0;
    {{.Points}}
        for (i = 0; i < NA; i++)
            p->worth = larger(p->worth, fabs(p->new_lambda[t][i]));
{{if .Device}}    p->worth = warp_most64(p->worth);
{{end}}    p->worth *= 10.0;
    noise = 1e-14 * fabs(phi);
    alpha = primal;
    for (n = 0; n < 25; n++) {
        const int is = move(p, alpha);
        const double now = infeasibility(p, &p->iterates[1 - p->now]);

        if (is && judge(p, theta, phi, alpha, slope, noise)) {
            finish(p, alpha, dual);
            return 1;
        }
        if (n == 0 && is && now >= theta && correct(p, alpha, theta, phi, slope, noise, now))
            return 1;
        alpha /= 2.0;
    }
    if (theta <= 1e-10 || !restore(p)) {
        p->least = larger(p->shift, 1e-6) * 64.0;
        return p->least < 1e12;
    }
    return 1;
}

#define SOLVED {{constant .Solver.Tolerance}}

/* The barrier parameter for a start of residual e. */
static double room_at(double e) { return 1e-4 * e * e < 1.0 ? 1e-4 * e * e : 1.0; }

/* Raises the barrier parameter to what a residual asks for. */
static void make_room(loop *p, double e)
{
    p->mu = larger(p->mu, room_at(e));
    slacks(p, &p->iterates[p->now]);
    reset(p);
    p->filters = 0;
}

/* How the plan before begins, in loop.warm; 0: it had not converged, or there is none. */
enum { ROLLED_OUT = 1, STATES_KEPT = 2 };

/* Whether the barrier costs more than a thousandth of the cost, as a step without it predicts. */
static int is_dear(loop *p)
{
    const double mu = p->mu, least = 1e-3 * p->objective_scale * fabs(p->iterates[p->now].f);
    double primal, dual, excess;
    int t;

    if (p->iterations == 0 || mu * p->steps * (ALL + 2 * NU) <= least)
        return 0;
    p->mu = 0.0;
    {{.Steps}}
        memset(p->defect[t], 0, sizeof p->defect[t]);{{.Meet}}
    solve_step(p, &primal, &dual);
    excess = -slope_of(p);
    p->mu = mu;
    return excess > least;
}

/* Iterations from a plan with its multipliers. */
{{.Alone}}static void iterate_plan(loop *p)
{
    const double theta = infeasibility(p, &p->iterates[p->now]);
    double elastic, violation, kkt, smallest = fmin(p->mu, SOLVED / 20.0);
    int sharpened = 0;

    p->filters = 0;
    p->least = 0.0;
    p->theta_max = 1e4 * larger(1.0, theta), p->theta_min = 1e-4 * larger(1.0, theta);
    for (;;) {
        kkt = residual(p, 0.0, &elastic, &violation);
        if (kkt <= SOLVED || elastic <= SOLVED) {
            if (!p->iterates[p->now].rolled) {
                if (!restore(p))
                    break;
                continue;
            }
            if (sharpened++ == 6 || !is_dear(p))
                break;
            smallest *= 0.1;
        }
        if (p->iterations >= GPC_{{.Macro}}_ITERATIONS)
            break;
        if (p->warm == ROLLED_OUT && p->iterations == 4)
            make_room(p, elastic);
        if (p->warm == STATES_KEPT && p->iterations == 30) { /* no plan near that one may lead on */
            p->warm = 0;
            if (!p->iterates[p->now].rolled && restore(p)) {
                residual(p, 0.0, &elastic, &violation);
                make_room(p, elastic);
            }
        }
        while (p->mu > smallest && residual(p, p->mu, NULL, NULL) <= 10.0 * p->mu) {
            const double slower = 0.2 * p->mu, faster = pow(p->mu, 1.5);

            p->mu = larger(smallest, slower < faster ? slower : faster);
            slacks(p, &p->iterates[p->now]);
            p->filters = 0;
        }
        p->iterations++;
        if (!step_newton(p))
            break;
    }
    p->kkt = kkt < elastic ? kkt : elastic;
    p->violation = violation;
    p->converged = p->kkt <= SOLVED;
}

static double scale_of(const loop *p)
{
    double most = larger(1e-8, 1e-3 * fabs(p->iterates[p->now].f));
    int t, a;

    {{.Steps}}
        for (a = 0; a < D; a++)
            most = larger(most, fabs(p->objective[t][a]));
{{if .Device}}    most = warp_most64(most);
{{end}}    return 1.0 / most;
}

/* Multipliers of the dynamics that make the Lagrangian stationary in every state. */
static void adjoint(loop *p)
{
    double slope[D];
    int t;

{{.Met}}{{if .Device}}    if (gpc_lane() > 0)
        return;
{{end}}    memset(p->lambda[0], 0, (size_t)(p->steps + 1) * sizeof p->lambda[0]);
{{- if .Spec.Horizon}}
    add_behind(p, p->iterates[p->now].x[p->steps], p->objective_scale, p->lambda[p->steps]);
{{- end}}
    for (t = p->steps - 1; t > 0; t--) {
        lagrangian(p, t, slope);
        memcpy(p->lambda[t], slope + NU, sizeof p->lambda[t]);
    }
}

/* Solves from the plan's actions and states, with multipliers at the barrier's own values. */
static void run(loop *p, double rho)
{
    iterate *at = &p->iterates[p->now];
    int t, i;

    p->rho = rho;
    p->mu = p->first_mu;
    p->warm = 0;
    slacks(p, at);
    {{.Steps}} {
        for (i = 0; i < ALL; i++)
            p->z[t][i] = p->mu / at->kept[t][i];
        for (i = 0; i < NU; i++) {
            p->zl[t][i] = boxed(i) ? p->mu / (1.0 + at->v[t][i]) : 0.0;
            p->zu[t][i] = boxed(i) ? p->mu / (1.0 - at->v[t][i]) : 0.0;
        }
    }
    adjoint(p);{{.Meet}}
    iterate_plan(p);
}

{{if .Solver.Blocked -}}
/* Makes the actions of each block their mean. */
static void join(loop *p)
{
    iterate *at = &p->iterates[p->now];
    int first = 0, t, k, j;

    for (t = 1; t <= p->steps; t++) {
        if (t < p->steps && blocked[t])
            continue;
        for (j = 0; j < NU; j++) {
            double sum = 0.0;

            for (k = first; k < t; k++)
                sum += at->v[k][j];
            for (k = first; k < t; k++)
                at->v[k][j] = sum / (t - first);
        }
        first = t;
    }
}

{{end -}}
/* Solves anew from the plan's actions, its states held or rolled out. */
static int solve_start(loop *p, const double *first, int held, double mu)
{
    iterate *at = &p->iterates[p->now];
    int t, j;

    p->iterations = p->gains = 0;
    p->shift = 0.0;
    {{.Once}}memcpy(at->x[0], first, sizeof at->x[0]);
    {{.Steps}}
        for (j = 0; j < NU; j++) {
            const double v = at->v[t][j];

            at->v[t][j] = !boxed(j) ? v : v < -0.98 ? -0.98 : v > 0.98 ? 0.98 : v;
        }
{{- if .Solver.Blocked}}
    join(p);
{{- end}}
{{.Met}}    if (held) {
        for (t = 0; {{.Lead}}t < transitions(p); t++) { /* what an action moves at once, and what none does, follow */
            int i;

            act(at, t);
            gpc_{{.Symbol}}_step(at->x[t], at->x[t] + NS, at->u[t], at->image[t], at->image[t] + NS);
            memcpy(at->x[t + 1], at->image[t], sizeof at->image[t]);
            for (i = 0; i < NA && t + 1 < transitions(p); i++)
                if (moving[i] < NS)
                    at->x[t + 1][moving[i]] = first[moving[i]];
        }
        if ({{.Lead}}!LASTS)
            memcpy(at->x[p->steps], at->x[p->steps - 1], sizeof at->x[0]);
    }
{{if .Device}}    for (t = 0; gpc_lane() == 0 && !held && t < p->steps; t++) {
        act(at, t);
        gpc_{{.Symbol}}_step(at->x[t], at->x[t] + NS, at->u[t], at->x[t + 1], at->x[t + 1] + NS);
    }
    __syncwarp();
{{end}}    evaluate(p, at, !held);
    if (!values_finite(p, at))
        return 0;
    p->first_mu = mu;
    differentiate(p);
    p->objective_scale = scale_of(p);
    run(p, 1e3);
    if (p->violation > SOLVED) {
        differentiate(p);
        run(p, 1e6);
    }
    return p->converged && p->violation <= SOLVED;
}

{{if not .Device}}/* Moves every step's entries some steps earlier, and repeats the last as far as it is wanted. */
static void shift_steps(void *steps, size_t each, int shift, int before, int after)
{
    char *at = steps;
    int t;

    for (t = 0; t < after; t++) {
        const int from = t + shift < before ? t + shift : before - 1;

        if (from != t)
            memmove(at + (size_t)t * each, at + (size_t)from * each, each);
    }
}

{{end}}/* Makes the plan start at a state, with its own states behind; the first equation is left open. */
static void keep_states(loop *p, const double *first)
{
    iterate *at = &p->iterates[p->now];
    int t, i;

{{.Met}}    {{.Once}}memcpy(at->x[0], first, sizeof at->x[0]);
    for (t = 0; {{.Lead}}t < transitions(p); t++) {
        double s[NX] = { 0.0 };

        act(at, t);
        gpc_{{.Symbol}}_step(at->x[t], at->x[t] + NS, at->u[t], s, s + NS);
        for (i = 0; i < NA && t + 1 < transitions(p); i++)
            s[moving[i]] = at->x[t + 1][moving[i]];
        memcpy(at->x[t + 1], s, sizeof s);
    }
{{.Met}}    evaluate(p, at, 0);
}
{{if not .Solver.Blocked}}
/* The least barrier parameter for a start at the plan's states in place of the trial, its roll-out; 0 where that breaks no limit and comes
 * no further from the plan than the typical sizes, or than ten times as far as it begins. */
static double strayed(const loop *p)
{
    const iterate *at = &p->iterates[p->now], *to = &p->iterates[1 - p->now];
    double begins = 0.0, furthest = 0.0, broken = 0.0;
    int t, i;

    for (i = 0; i < NA; i++)
        if (moving[i] < NS)
            see(&begins, (to->x[0][moving[i]] - at->x[0][moving[i]]) / typical[i]);
    {{.Points}}
        for (i = 0; i < NA && t <= transitions(p); i++)
            if (moving[i] < NS)
                see(&furthest, (to->x[t][moving[i]] - at->x[t][moving[i]]) / typical[i]);
    {{.Steps}}
        for (i = 0; i < ALL; i++)
            broken = larger(broken, -to->g[t][i]);
{{if .Device}}    furthest = warp_most64(furthest), broken = warp_most64(broken);
{{end}}    if (furthest > larger(1.0, 10.0 * begins))
        return 3e-3;
    return broken > 1e-3 ? SOLVED / 20.0 : 0.0;
}
{{end}}
/* Makes the plan, some steps on, the start from a state; 0 where nothing of it is finite. */
static int advance(loop *p, const double *first, int shift, int n)
{
    iterate *at = &p->iterates[p->now];
    const int {{if not .Device}}before = p->steps, {{end}}converged = p->converged;
    double ratio = p->objective_scale, slope[D], strays = 0.0;
    int t, i;

    p->iterations = 0;
{{if .Device}}    (void)shift; /* the steps came moved */{{else}}    shift_steps(at->x, sizeof at->x[0], shift, before + 1, n + 1);
    shift_steps(at->v, sizeof at->v[0], shift, before, n);
    shift_steps(p->zl, sizeof p->zl[0], shift, before, n);
    shift_steps(p->zu, sizeof p->zu[0], shift, before, n);
    shift_steps(p->z, sizeof p->z[0], shift, before, n);
    shift_steps(p->lambda, sizeof p->lambda[0], shift, before + 1, n + 1);
    shift_steps(p->l, sizeof p->l[0], shift, before, n);
    shift_steps(p->y, sizeof p->y[0], shift, before, n);{{end}}
{{- if .Solver.Blocked}}
    for (t = 0; t < n; t++) /* of a step that held its action no feedback is known */
        if (blocked[t + shift < before ? t + shift : before - 1]) {
            memset(p->y[t], 0, sizeof p->y[t]);
            memset(p->l[t], 0, sizeof p->l[t]);
            for (i = 0; i < NU; i++)
                p->l[t][i][i] = 1.0;
        }
{{- end}}
    p->steps = n;
    p->warm = converged ? ROLLED_OUT : 0;
    if (converged)
        p->mu = fmin(p->mu, SOLVED / 20.0);
    {{.Steps}}
        for (i = 0; i < NU; i++)
            if (boxed(i)) {
                const double low = fmin(0.1, p->mu / p->zl[t][i]) - 1.0, high = 1.0 - fmin(0.1, p->mu / p->zu[t][i]), v = at->v[t][i];

                at->v[t][i] = v < low ? low : v > high ? high : v;
            }
{{- if .Solver.Blocked}}
    join(p);
    keep_states(p, first);
    if (!values_finite(p, at)) {
{{- else}}
    if (!converged)
        keep_states(p, first);
    if (converged || !values_finite(p, at)) {
{{- end}}
        if (!follow(p, first))
            return 0;
{{- if not .Solver.Blocked}}
        strays = strayed(p);
        if (converged && strays > 0.0) {
            keep_states(p, first);
            p->warm = values_finite(p, at) ? STATES_KEPT : ROLLED_OUT;
        }
{{- end}}
        if (p->warm != STATES_KEPT) {
            p->now = 1 - p->now;
            at = &p->iterates[p->now];
        }
    }
    differentiate(p);
    p->objective_scale = scale_of(p);
    ratio = p->objective_scale / ratio;
    {{.Points}}
        for (i = 0; i < NA; i++)
            p->lambda[t][i] *= ratio;
    {{.Steps}} {
        for (i = 0; i < ALL; i++)
            p->z[t][i] = larger(fmin(p->z[t][i] * ratio, 0.99 * p->rho), 0.1 * p->mu / larger(at->g[t][i], 1e-3));
        for (i = 0; i < NU; i++)
            if (boxed(i)) {
                p->zl[t][i] = larger(p->zl[t][i] * ratio, 0.1 * p->mu / (1.0 + at->v[t][i]));
                p->zu[t][i] = larger(p->zu[t][i] * ratio, 0.1 * p->mu / (1.0 - at->v[t][i]));
            }
    }
{{.Met}}{{if .Device}}    if (gpc_lane() == 0) {
{{end}}    memset(p->lambda[n], 0, sizeof p->lambda[n]);
{{- if .Spec.Horizon}}
    add_behind(p, at->x[n], p->objective_scale, p->lambda[n]);
{{- end}}
    if (n > 1) {
        lagrangian(p, n - 1, slope);
        memcpy(p->lambda[n - 1], slope + NU, sizeof p->lambda[n - 1]);
    }
{{if .Device}}    }
    __syncwarp();
{{end}}    if (converged) {
        double elastic;
        const double e = residual(p, 0.0, &elastic, NULL);

        p->mu = larger(p->mu, room_at(e));
        if (p->warm == STATES_KEPT)
            p->mu = larger(p->mu, strays);
    }
    slacks(p, at);
    return 1;
}

