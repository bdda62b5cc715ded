/* The margins with derivatives behind a step: x holds those of s, c, u and of s_next{{if .Y.EscapeSteps}}, after those of c_next; all of these are changed{{end}}. */
static void margins_behind{{.Suffix}}(const double *s, const double *c, const double *u, {{.Type}} *x, double *s_next, {{if .Y.EscapeSteps}}double *c_next, {{.Type}} *after, {{end}}double *m, {{.Type}} *dm)
{
    double value[MARGINS_ROOM];
{{- if .Y.EscapeSteps}}
    double state[NS], context[CONTEXT], away[NU], slope[ESCAPE_ROOM];
    int k, i;
{{- end}}

    margins_jacobian(s, c, u, s_next, m, value);
    apply{{.Suffix}}(NM, MARGINS_COUNT, margins_row, margins_col, value, x, dm);
{{- if .Y.EscapeSteps}}
    for (k = 1; k <= ESCAPES; k++) {
        memcpy(state, s_next, sizeof state);
        memcpy(context, c_next, NC * sizeof *context);
        memcpy(x, x + AT_NEXT, NS * sizeof *x);
        memcpy(x + AT_C, after, NC * sizeof *after);
        escape_jacobian(state, context, away, slope);
        apply{{.Suffix}}(NU, ESCAPE_COUNT, escape_row, escape_col, slope, x, x + AT_U);
        for (i = 0; i < NU; i++) /* derivatives end at the sides of the box */
            if ((lowest[i] != 0.0 || highest[i] != 0.0) && !(away[i] > lowest[i] && away[i] < highest[i]))
                memset(x[AT_U + i], 0, sizeof x[AT_U + i]);
        clip(away);
        step_along{{.Suffix}}(state, context, away, x, s_next, c_next, after);
        margins_jacobian(state, context, away, s_next, m + k * NM, value);
        apply{{.Suffix}}(NM, MARGINS_COUNT, margins_row, margins_col, value, x, dm + k * NM);
    }
{{- end}}
}
