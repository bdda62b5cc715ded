
{{if .Observer.Unknown}}static const unsigned short unknown[UNKNOWN] = { {{range .Observer.Unknown}}{{.}}, {{end}}}; /* entries of the context */

{{end}}/* Each estimated entry varies by itself. */
static void vary(estimated *x)
{
    int i;

    memset(x, 0, INPUTS * sizeof *x);
    for (i = 0; i < NS; i++)
        x[i][i] = 1.0;
{{- if .Observer.Unknown}}
    for (i = 0; i < UNKNOWN; i++)
        x[AT_C + unknown[i]][NS + i] = 1.0;
{{- end}}
}

void gpc_{{.Symbol}}_outputs(const double s[], const double c[], const double u[], double y[]) { outputs(s, c, u, y); }

void gpc_{{.Symbol}}_outputs_along(const double s[], const double c[], const double u[], double y[], double d[][ESTIMATED])
{
    double value[OUTPUTS_ROOM];
    estimated x[INPUTS];

    vary(x);
    outputs_jacobian(s, c, u, y, value);
    apply_estimated(OUTPUTS, OUTPUTS_COUNT, outputs_row, outputs_col, value, x, d);
}

void gpc_{{.Symbol}}_step_along(const double s[], const double c[], const double u[], double s_next[], double c_next[], double d[][ESTIMATED])
{
    estimated x[INPUTS], after[CONTEXT];
{{- if .Observer.Unknown}}
    int i;
{{- end}}

    vary(x);
    step_along_estimated(s, c, u, x, s_next, c_next, after);
    memcpy(d, x + AT_NEXT, NS * sizeof *d);
{{- if .Observer.Unknown}}
    for (i = 0; i < UNKNOWN; i++)
        memcpy(d[NS + i], after[unknown[i]], sizeof *d);
{{- end}}
}
{{if .Fraction}}
void gpc_{{.Symbol}}_from_measured_along(const double s[], const double c[], const double u[], double s_next[], double c_next[], double d[][ESTIMATED])
{
    estimated x[INPUTS];

    gpc_{{.Symbol}}_step_along(s, c, u, s_next, c_next, d);
    vary(x);
    integrate_along_estimated(from_measured, s, c, u, x, s_next, d);
}

void gpc_{{.Symbol}}_to_measured_along(const double s[], const double c[], const double u[], double s_next[], double d[][ESTIMATED])
{
    estimated x[INPUTS];
{{- if .Observer.Unknown}}
    int i;
{{- end}}

    vary(x);
    integrate_along_estimated(to_measured, s, c, u, x, s_next, d);
{{- if .Observer.Unknown}}
    memset(d + NS, 0, UNKNOWN * sizeof *d);
    for (i = 0; i < UNKNOWN; i++)
        d[NS + i][NS + i] = 1.0;
{{- end}}
}
{{end}}{{if .KeepsOff}}
/* Each estimated entry and each of the action varies by itself. */
static void steer(steered *x)
{
    int i;

    memset(x, 0, INPUTS * sizeof *x);
    for (i = 0; i < NS; i++)
        x[i][i] = 1.0;
    for (i = 0; i < NU; i++)
        x[AT_U + i][ESTIMATED + i] = 1.0;
{{- if .Observer.Unknown}}
    for (i = 0; i < UNKNOWN; i++)
        x[AT_C + unknown[i]][NS + i] = 1.0;
{{- end}}
}

void gpc_{{.Symbol}}_step_steered(const double s[], const double c[], const double u[], double s_next[], double c_next[], double d[][STEERED])
{
    steered x[INPUTS], after[CONTEXT];
{{- if .Observer.Unknown}}
    int i;
{{- end}}

    steer(x);
    step_along_steered(s, c, u, x, s_next, c_next, after);
    memcpy(d, x + AT_NEXT, NS * sizeof *d);
{{- if .Observer.Unknown}}
    for (i = 0; i < UNKNOWN; i++)
        memcpy(d[NS + i], after[unknown[i]], sizeof *d);
{{- end}}
}

void gpc_{{.Symbol}}_margins_steered(const double s[], const double c[], const double u[], const double s_next[], double d[][STEERED], double dm[][STEERED])
{
    double m[ALL], next[NS]{{if .Y.EscapeSteps}}, c_next[CONTEXT]{{if .Integrator}}, value[STEP_ROOM]{{end}}{{end}};
    steered x[INPUTS]{{if .Y.EscapeSteps}}, after[CONTEXT]{{end}};
    int i;

    memset(x, 0, sizeof x);
    memcpy(next, s_next, sizeof next);
    if (d) {
        steer(x);
        memcpy(x + AT_NEXT, d, NS * sizeof *d);
    }
{{- if .Y.EscapeSteps}}{{if .Integrator}}
    step_jacobian(s, c, u, next, c_next, value);
    apply_steered(NC, STEP_COUNT, step_row, step_col, value, x, after);
{{- else}}
    step_along_steered(s, c, u, x, next, c_next, after);
{{- end}}{{end}}
    for (i = 0; !d && i < NS; i++)
        x[AT_NEXT + i][i] = 1.0;
    margins_behind_steered(s, c, u, x, next, {{if .Y.EscapeSteps}}c_next, after, {{end}}m, dm);
}
{{end}}