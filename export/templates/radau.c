/* Radau IIA of two stages, order 3: its weights, and when Newton's method takes new factors, ends and gives up; with damped steps. */
enum { WIDTH = 2 * NS, ITERATIONS = 40, DAMPED = 100 };
static const double radau[2][2] = { { 5.0 / 12.0, -1.0 / 12.0 }, { 3.0 / 4.0, 1.0 / 4.0 } };

struct stages {
    double length, stage[WIDTH], r[WIDTH], last[WIDTH], step[WIDTH], matrix[WIDTH][WIDTH], value[2][ODE_ROOM];
    int pivot[WIDTH];
};

/* Factors by elimination with row pivots, the diagonal inverted; 0 where the matrix is singular. */
static int factor(struct stages *w)
{
    int i, j, k;

    for (k = 0; k < WIDTH; k++) {
        int at = k;

        for (i = k + 1; i < WIDTH; i++)
            if (fabs(w->matrix[i][k]) > fabs(w->matrix[at][k]))
                at = i;
        w->pivot[k] = at;
        for (j = 0; at != k && j < WIDTH; j++) {
            const double v = w->matrix[at][j];

            w->matrix[at][j] = w->matrix[k][j], w->matrix[k][j] = v;
        }
        if (w->matrix[k][k] == 0.0 || w->matrix[k][k] != w->matrix[k][k])
            return 0;
        w->matrix[k][k] = 1.0 / w->matrix[k][k];
        for (i = k + 1; i < WIDTH; i++) {
            const double q = w->matrix[i][k] *= w->matrix[k][k];

            for (j = k + 1; j < WIDTH; j++)
                w->matrix[i][j] -= q * w->matrix[k][j];
        }
    }
    return 1;
}

static void substitute(struct stages *w)
{
    double *b = w->r;
    int i, j;

    for (i = 0; i < WIDTH; i++) {
        const double v = b[i];

        b[i] = b[w->pivot[i]], b[w->pivot[i]] = v;
    }
    for (i = 0; i < WIDTH; i++) {
        double sum = 0.0;

        for (j = 0; j < i; j++)
            sum += w->matrix[i][j] * b[j];
        b[i] -= sum;
    }
    for (i = WIDTH - 1; i >= 0; i--) {
        double sum = 0.0;

        for (j = i + 1; j < WIDTH; j++)
            sum += w->matrix[i][j] * b[j];
        b[i] = (b[i] - sum) * w->matrix[i][i];
    }
}

/* Adds what the slope f of stage j is of the stages' increments. */
static void collect(struct stages *w, int j, const double *f)
{
    int i;

    for (i = 0; i < NS; i++) {
        w->r[i] += w->length * radau[0][j] * f[i];
        w->r[NS + i] += w->length * radau[1][j] * f[i];
    }
}

/* The increments of the stages. */
static void increments(struct stages *w, const double *c, const double *u)
{
    double f[NS];
    int j;

    memset(w->r, 0, sizeof w->r);
    for (j = 0; j < 2; j++) {
        ode(w->stage + j * NS, c, u, f);
        collect(w, j, f);
    }
}

/* Increments, and the factors of the matrix of the stages' equations; 0 where it is singular. */
static int newton(struct stages *w, const double *c, const double *u)
{
    double f[NS];
    int i, j, k;

    memset(w->matrix, 0, sizeof w->matrix);
    memset(w->r, 0, sizeof w->r);
    for (i = 0; i < WIDTH; i++)
        w->matrix[i][i] = 1.0;
    for (j = 0; j < 2; j++) {
        ode_jacobian(w->stage + j * NS, c, u, f, w->value[j]);
        for (k = 0; k < ODE_COUNT; k++)
            if (ode_col[k] < NS) {
                const double d = w->length * w->value[j][k];

                w->matrix[ode_row[k]][j * NS + ode_col[k]] -= radau[0][j] * d;
                w->matrix[NS + ode_row[k]][j * NS + ode_col[k]] -= radau[1][j] * d;
            }
        collect(w, j, f);
    }
    return factor(w);
}

static double norm(const struct stages *w, const double *v)
{
    double size = 0.0;
    int i;

    for (i = 0; i < WIDTH; i++)
        size += fabs(v[i]) / (1.0 + fabs(w->last[i]));
    return size;
}

/* The norm that damped steps reduce, of the residual or of the step that would follow; that step is left in r. */
static double measure(struct stages *w, const double *from, int natural)
{
    double size;
    int i;

    for (i = 0; i < WIDTH; i++)
        w->r[i] += from[i % NS] - w->stage[i];
    size = norm(w, w->r);
    substitute(w);
    return natural ? norm(w, w->r) : size;
}

/* The stages where full steps do not end, as between both sides of a corner; 0 where halved ones do not either. */
static int damp(struct stages *w, const double *from, const double *c, const double *u, int natural)
{
    int n, i;

    memcpy(w->stage, from, NS * sizeof *from);
    memcpy(w->stage + NS, from, NS * sizeof *from);
    for (n = 0; n < DAMPED; n++) {
        double size, share;

        memcpy(w->last, w->stage, sizeof w->last);
        if (!newton(w, c, u))
            return 0;
        size = measure(w, from, natural);
        memcpy(w->step, w->r, sizeof w->step);
        for (share = 1.0;; share /= 2.0) {
            for (i = 0; i < WIDTH; i++)
                w->stage[i] = w->last[i] + share * w->step[i];
            if (norm(w, w->step) <= 1e-9)
                return 1;
            increments(w, c, u);
            if (measure(w, from, natural) < size)
                break;
            if (share < 1e-15 || size != size)
                return 0;
        }
    }
    return 0;
}

/* The stages from a state by full steps of Newton's method; 0 where it does not converge. */
static int undamped(struct stages *w, const double *from, const double *c, const double *u)
{
    double before = 0.0;
    int fresh = 1, n, i;

    memcpy(w->stage, from, NS * sizeof *from);
    memcpy(w->stage + NS, from, NS * sizeof *from);
    if (!newton(w, c, u))
        return 0;
    for (n = 0; n < ITERATIONS; n++) {
        double size = 0.0;
        int converged;

        for (i = 0; i < WIDTH; i++)
            w->r[i] += from[i % NS] - w->stage[i];
        substitute(w);
        for (i = 0; i < WIDTH; i++) {
            const double v = fabs(w->r[i]) / (1.0 + fabs(w->stage[i] + w->r[i]));

            if (!(v <= size) && size == size)
                size = v;
        }
        if (!fresh && !(size <= 0.1 * before)) {
            fresh = 1;
            if (!newton(w, c, u))
                return 0;
            continue;
        }
        if (size != size)
            return 0;
        for (i = 0; i < WIDTH; i++)
            w->stage[i] += w->r[i];
        converged = (fresh && size <= 1e-9) || (!fresh && size * size <= 1e-15 * before);
        if (converged)
            return 1;
        fresh = 0, before = size;
        increments(w, c, u);
    }
    return 0;
}

/* The stages from a state; 0 where no step of Newton's method finds them. */
static int solve(struct stages *w, const double *from, const double *c, const double *u)
{
    return undamped(w, from, c, u) || damp(w, from, c, u, 0) || damp(w, from, c, u, 1);
}

