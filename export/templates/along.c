/* out = matrix * x, the matrix's entries standing in the rows and columns listed. */
static inline void apply{{.Suffix}}(int rows, int count, const unsigned short *row, const unsigned short *col, const double *value, {{.Type}} *x, {{.Type}} *out)
{
    int i, a;

    memset(out, 0, (size_t)rows * sizeof *out);
    for (i = 0; i < count; i++)
        for (a = 0; a < {{.Wide}}; a++)
            out[row[i]][a] += value[i] * x[col[i]][a];
}

{{if eq .Integrator "rk4"}}/* integrate with derivatives: x holds those of s, c and u. */
static void integrate_along{{.Suffix}}(const double *h, const double *s, const double *c, const double *u, {{.Type}} *x, double *next, {{.Type}} *next_along)
{
    const double ahead[3] = { h[1], h[1], h[0] };
    double at[NS], slope[NS], sum[NS], value[ODE_ROOM];
    {{.Type}} begin[NS], slope_along[NS], sum_along[NS];
    int n, stage, i, a;

    memcpy(begin, x, sizeof begin);
    memcpy(next, s, sizeof at);
    memcpy(next_along, x, sizeof begin);
    for (n = 0; n < {{.Y.Substeps}}; n++) {
        memset(sum, 0, sizeof sum);
        memset(sum_along, 0, sizeof sum_along);
        memcpy(at, next, sizeof at);
        memcpy(x, next_along, sizeof begin);
        for (stage = 0; stage < 4; stage++) {
            const double weight = stage == 1 || stage == 2 ? 2.0 : 1.0;

            ode_jacobian(at, c, u, slope, value);
            apply{{.Suffix}}(NS, ODE_COUNT, ode_row, ode_col, value, x, slope_along);
            for (i = 0; i < NS; i++) {
                sum[i] += weight * slope[i];
                if (stage < 3)
                    at[i] = next[i] + ahead[stage] * slope[i];
                for (a = 0; a < {{.Wide}}; a++) {
                    sum_along[i][a] += weight * slope_along[i][a];
                    if (stage < 3)
                        x[i][a] = next_along[i][a] + ahead[stage] * slope_along[i][a];
                }
            }
        }
        for (i = 0; i < NS; i++) {
            next[i] += h[2] * sum[i];
            for (a = 0; a < {{.Wide}}; a++)
                next_along[i][a] += h[2] * sum_along[i][a];
        }
    }
    memcpy(x, begin, sizeof begin);
}

{{else if eq .Integrator "radau"}}/* integrate with derivatives: x holds those of s, c and u. */
static void integrate_along{{.Suffix}}(const double *h, const double *s, const double *c, const double *u, {{.Type}} *x, double *next, {{.Type}} *next_along)
{
    struct stages w;
    int n, i, j, k, a;

    w.length = h[0];
    memcpy(next, s, NS * sizeof *next);
    memcpy(next_along, x, NS * sizeof *x);
    for (n = 0; n < {{.Y.Substeps}}; n++) {
        int solved = solve(&w, next, c, u);

        for (i = 0; i < NS; i++)
            next[i] = solved ? w.stage[NS + i] : (double)NAN;
        solved = solved && newton(&w, c, u);
        for (a = 0; a < {{.Wide}}; a++) {
            for (i = 0; i < WIDTH; i++)
                w.r[i] = next_along[i % NS][a];
            for (j = 0; j < 2; j++)
                for (k = 0; k < ODE_COUNT; k++)
                    if (ode_col[k] >= NS) {
                        const double d = w.length * w.value[j][k] * x[ode_col[k]][a];

                        w.r[ode_row[k]] += radau[0][j] * d;
                        w.r[NS + ode_row[k]] += radau[1][j] * d;
                    }
            substitute(&w);
            for (i = 0; i < NS; i++)
                next_along[i][a] = solved ? w.r[NS + i] : (double)NAN;
        }
    }
}

{{end}}/* The step with derivatives: x holds those of s, c and u, and gets those of the next state; after those of the context. */
static void step_along{{.Suffix}}(const double *s, const double *c, const double *u, {{.Type}} *x, double *s_next, double *c_next, {{.Type}} *after)
{
    double value[STEP_ROOM];
{{- if .Integrator}}

    integrate_along{{.Suffix}}(whole_period, s, c, u, x, s_next, x + AT_NEXT);
    step_jacobian(s, c, u, s_next, c_next, value);
    apply{{.Suffix}}(NC, STEP_COUNT, step_row, step_col, value, x, after);
{{- else}}
    {{.Type}} out[NS + NC];

    step_jacobian(s, c, u, s_next, c_next, value);
    apply{{.Suffix}}(NS + NC, STEP_COUNT, step_row, step_col, value, x, out);
    memcpy(x + AT_NEXT, out, NS * sizeof *out);
    memcpy(after, out + NS, NC * sizeof *out);
{{- end}}
}

