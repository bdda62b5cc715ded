{{template "distance.c" .}}{{if .NM}}
/* All constraints. */
struct constraints {
    double a[ROWS][WIDE], b[ROWS];
};

/* Whether there is a solution, and it. */
static int nearest(struct least_distance *q, const struct constraints *all, int slack)
{
    const int n = NU + (slack ? 1 : 0);
    int left, k;

    memset(q->x, 0, sizeof q->x);
    q->count = 0;
    for (left = 10 * (ROWS + n); left > 0; left--) {
        double worst = 1e-14;
        int at = -1;

        for (k = 0; k < ROWS; k++) {
            const double v = all->b[k] - dot(all->a[k], q->x, n), scale = 1.0 + fabs(all->b[k]);

            if (v > worst * scale)
                worst = v / scale, at = k;
        }
        if (at < 0)
            return 1;
        if (!add(q, all->a[at], all->b[at], n))
            return 0;
    }
    return 0;
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
static void linearise(struct constraints *q, {{.TakesKept}}const double *s, const double *c, const double *u, const double *wanted)
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
    struct constraints all;
    struct least_distance q;
    double wanted[NU], best[NU], m[ALL], least, now;
    int round;

    memcpy(wanted, u, sizeof wanted);
    clip(u);
    {{.Margins}}s, c, u, m);
    least = lowest_of(m);
    if (keeps(least))
        return 1;
    memcpy(best, u, sizeof best);
    for (round = 0; round < RELINEARISATIONS; round++) {
        double moved;

        linearise(&all, {{.GivesKept}}s, c, u, wanted);
        if (!nearest(&q, &all, 0) && !nearest(&q, &all, 1))
            break;
        moved = move_to(&q, wanted, u);
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
