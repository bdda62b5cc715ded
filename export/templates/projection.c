{{if .NM -}}
static const double half[NU] = { {{row .HalfBox}} };
{{- end}}
static const double lowest[NU] = { {{row .Lo}} }, highest[NU] = { {{row .Hi}} }; /* both 0: no box */

static int finite_all(const double *v, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (v[i] - v[i] != 0.0)
            return 0;
    return 1;
}

{{if or .NM (not .Solver)}}static int keeps(double margin) { return margin >= -GPC_{{.Macro}}_TOLERANCE; }

{{end}}static void clip(double *u)
{
    int i;

    for (i = 0; i < NU; i++)
        if (lowest[i] != 0.0 || highest[i] != 0.0)
            u[i] = u[i] < lowest[i] ? lowest[i] : u[i] > highest[i] ? highest[i] : u[i];
}
{{if .NM}}
/* min |x|^2 subject to a x >= b by the dual active set method of Goldfarb and Idnani (1983). The last entry of x is a
 * slack, which is left out unless it is asked for. */
struct least_distance {
    double x[WIDE], a[ROWS][WIDE], b[ROWS], multiplier[WIDE + 1], r[WIDE], z[WIDE], gram[WIDE][WIDE];
    int active[WIDE], count;
};

static double dot(const double *x, const double *y, int n)
{
    double sum = 0.0;
    int i;

    for (i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* The coefficients r of a normal's projection onto the span of the active ones, and the rest z. */
static void split(struct least_distance *q, const double *normal, int n)
{
    const int k = q->count;
    int i, j, l;

    for (i = 0; i < k; i++) {
        const double *a = q->a[q->active[i]];
        double v;

        for (j = 0; j <= i; j++) {
            v = dot(a, q->a[q->active[j]], n);
            for (l = 0; l < j; l++)
                v -= q->gram[i][l] * q->gram[j][l];
            q->gram[i][j] = i == j ? sqrt(v) : v / q->gram[j][j];
        }
        v = dot(a, normal, n);
        for (l = 0; l < i; l++)
            v -= q->gram[i][l] * q->r[l];
        q->r[i] = v / q->gram[i][i];
    }
    memcpy(q->z, normal, (size_t)n * sizeof *normal);
    for (i = k - 1; i >= 0; i--) {
        for (l = i + 1; l < k; l++)
            q->r[i] -= q->gram[l][i] * q->r[l];
        q->r[i] /= q->gram[i][i];
        for (l = 0; l < n; l++)
            q->z[l] -= q->r[i] * q->a[q->active[i]][l];
    }
}

/* Makes constraint k hold and active, dropping others on the way; 0 where that is impossible. */
static int add(struct least_distance *q, int k, int n)
{
    const double *normal = q->a[k];
    double multiplier = 0.0;

    for (;;) { /* at most once more than there are active constraints */
        double size = 0.0, length = 0.0, full = (double)INFINITY, partial = (double)INFINITY, step;
        int drop = -1, i;

        split(q, normal, n);
        for (i = 0; i < n; i++) {
            size += q->z[i] * q->z[i];
            length += normal[i] * normal[i];
        }
        if (size > 1e-10 * length)
            full = (q->b[k] - dot(normal, q->x, n)) / size;
        for (i = 0; i < q->count; i++)
            if (q->r[i] > 0.0 && q->multiplier[i] / q->r[i] < partial)
                partial = q->multiplier[i] / q->r[i], drop = i;
        step = full < partial ? full : partial;
        if (!finite_all(&step, 1) || full != full)
            return 0;
        for (i = 0; i < q->count; i++)
            q->multiplier[i] -= step * q->r[i];
        multiplier += step;
        if (full < (double)INFINITY)
            for (i = 0; i < n; i++)
                q->x[i] += step * q->z[i];
        if (full <= partial) {
            if (q->count == WIDE)
                return 0;
            q->multiplier[q->count] = multiplier;
            q->active[q->count++] = k;
            return 1;
        }
        q->count--;
        for (i = drop; i < q->count; i++)
            q->multiplier[i] = q->multiplier[i + 1], q->active[i] = q->active[i + 1];
    }
}

/* Whether there is a solution, and it. */
static int nearest(struct least_distance *q, int slack)
{
    const int n = NU + (slack ? 1 : 0);
    int left, k;

    memset(q->x, 0, sizeof q->x);
    q->count = 0;
    for (left = 10 * (ROWS + n); left > 0; left--) {
        double worst = 1e-14;
        int at = -1;

        for (k = 0; k < ROWS; k++) {
            const double v = q->b[k] - dot(q->a[k], q->x, n), scale = 1.0 + fabs(q->b[k]);

            if (v > worst * scale)
                worst = v / scale, at = k;
        }
        if (at < 0)
            return 1;
        if (!add(q, at, n))
            return 0;
    }
    return 0;
}

/* The least margin, -INFINITY where one is NAN. */
static double lowest_of(const double *m)
{
    const double least = gpc_{{.Symbol}}_least(m);

    return least != least ? -(double)INFINITY : least;
}

{{if .KeepsOff}}/* Takes from margins what is kept off them{{if not .Spec.Horizon}} at the clock's reading{{end}}; a null pointer: nothing. */
static void keep_off(const double (*kept)[ALL], const double *c, double *m)
{
{{- if .Spec.Horizon}}
    const int stage = 0;
{{- else}}
    const double at = round(c[{{clock .Spec}}] * STEPS);
    const int stage = at > STEPS - 1 ? STEPS - 1 : at > 0.0 ? (int)at : 0;
{{- end}}
    int i;
{{if .Spec.Horizon}}
    (void)c;{{end}}
    if (kept)
        for (i = 0; i < ALL; i++)
            m[i] -= kept[stage][i];
}

static void kept_margins(const double (*kept)[ALL], const double *s, const double *c, const double *u, double *m)
{
    gpc_{{.Symbol}}_margins(s, c, u, m);
    keep_off(kept, c, m);
}

{{end}}/* The constraints on x = (u - wanted)/half by the margins linearised at u. */
static void linearise(struct least_distance *q, {{.TakesKept}}const double *s, const double *c, const double *u, const double *wanted)
{
    double m[ALL], dm[ALL][NU];
    int k, i;

    gpc_{{.Symbol}}_margins_along(s, c, u, m, dm);
{{- if .KeepsOff}}
    keep_off(kept, c, m);
{{- end}}
    for (k = 0; k < ALL; k++) {
        double length = 0.0;

        q->b[k] = -m[k];
        for (i = 0; i < NU; i++) {
{{- if .Search}}
            if (is_switched[i])
                dm[k][i] = 0.0;
{{- end}}
            q->a[k][i] = dm[k][i] * half[i];
            q->b[k] += dm[k][i] * (u[i] - wanted[i]);
            length = hypot(length, q->a[k][i]);
        }
        if (length == 0.0)
            length = 1.0;
        for (i = 0; i < NU; i++)
            q->a[k][i] /= length;
        q->b[k] /= length;
        q->a[k][NU] = 1e-4; /* a unit of violation is 1e4 times as dear as half a box */
    }
    memset(q->a[ALL], 0, 2 * NU * sizeof q->a[0]);
    for (i = 0; i < NU; i++) {
        const int boxed = {{if .Search}}!is_switched[i] && ({{end}}lowest[i] != 0.0 || highest[i] != 0.0{{if .Search}}){{end}};

        q->b[ALL + 2 * i] = boxed ? (lowest[i] - wanted[i]) / half[i] : -(double)INFINITY;
        q->b[ALL + 2 * i + 1] = boxed ? (wanted[i] - highest[i]) / half[i] : -(double)INFINITY;
        q->a[ALL + 2 * i][i] = boxed ? 1.0 : 0.0;
        q->a[ALL + 2 * i + 1][i] = boxed ? -1.0 : 0.0;
    }
}

{{if .KeepsOff}}static int onto({{.TakesKept}}const double *s, const double *c, double *u){{else if .Search}}static int project_others(const double *s, const double *c, double *u){{else}}int gpc_{{.Symbol}}_onto_margins(const double s[], const double c[], double u[]){{end}}
{
    struct least_distance q;
    double wanted[NU], best[NU], m[ALL], least, now;
    int round, i;

    memcpy(wanted, u, sizeof wanted);
    clip(u);
    {{.Margins}}s, c, u, m);
    least = lowest_of(m);
    if (keeps(least))
        return 1;
    memcpy(best, u, sizeof best);
    for (round = 0; round < RELINEARISATIONS; round++) {
        double moved = 0.0;

        linearise(&q, {{.GivesKept}}s, c, u, wanted);
        if (!nearest(&q, 0) && !nearest(&q, 1))
            break;
        for (i = 0; i < NU; i++) {
            double v = wanted[i] + half[i] * q.x[i];

            if (!finite_all(&v, 1))
                v = u[i];
            moved = fmax(moved, fabs(v - u[i]) / half[i]);
            u[i] = v;
        }
        clip(u);
        {{.Margins}}s, c, u, m);
        now = lowest_of(m);
        if (keeps(now) || now > least) {
            memcpy(best, u, sizeof best);
            least = now < 0.0 ? now : 0.0;
        }
        if (moved <= 1e-9)
            break;
    }
    if (least < -GPC_{{.Macro}}_TOLERANCE && gpc_{{.Symbol}}_escape(s, c, u)) {
        {{.Margins}}s, c, u, m);
        now = lowest_of(m);
        if (now > least) {
            memcpy(best, u, sizeof best);
            least = now;
        }
    }
    memcpy(u, best, sizeof best);
    return keeps(least);
}
{{- if .KeepsOff}}

int gpc_{{.Symbol}}_onto_margins(const double s[], const double c[], double u[]) { return onto(NULL, s, c, u); }
{{- end}}
{{else}}
int gpc_{{.Symbol}}_onto_margins(const double s[], const double c[], double u[])
{
    (void)s, (void)c;
    clip(u);
    return 1;
}
{{end}}
