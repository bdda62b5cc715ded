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
/* min |x|^2 subject to a x >= b by the dual active set method of Goldfarb and Idnani (1983): x, and the rows of a that are active. The last
 * entry of x is a slack, which is left out unless it is asked for. */
struct least_distance {
    double x[WIDE], active[WIDE][WIDE], multiplier[WIDE + 1], r[WIDE], z[WIDE], gram[WIDE][WIDE];
    int count;
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
        const double *a = q->active[i];
        double v;

        for (j = 0; j <= i; j++) {
            v = dot(a, q->active[j], n);
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
            q->z[l] -= q->r[i] * q->active[i][l];
    }
}

/* Makes a constraint hold and active, dropping others on the way; 0 where that is impossible. */
static int add(struct least_distance *q, const double *normal, double b, int n)
{
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
            full = (b - dot(normal, q->x, n)) / size;
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
            memcpy(q->active[q->count++], normal, (size_t)n * sizeof *normal);
            return 1;
        }
        q->count--;
        for (i = drop; i < q->count; i++) {
            q->multiplier[i] = q->multiplier[i + 1];
            memcpy(q->active[i], q->active[i + 1], sizeof q->active[i]);
        }
    }
}

/* Moves u to the solution, and says how far in half boxes. */
static double move_to(const struct least_distance *q, const double *wanted, double *u)
{
    double moved = 0.0;
    int i;

    for (i = 0; i < NU; i++) {
        double v = wanted[i] + half[i] * q->x[i];

        if (!finite_all(&v, 1))
            v = u[i];
        moved = fmax(moved, fabs(v - u[i]) / half[i]);
        u[i] = v;
    }
    clip(u);
    return moved;
}

/* The least margin, -INFINITY where one is NAN. */
static double lowest_of(const double *m)
{
    const double least = gpc_{{.Symbol}}_least(m);

    return least != least ? -(double)INFINITY : least;
}
{{end}}