/* The margins with derivatives: x holds those of s, c and u. moved, unless a null pointer, gets those of the next state and context. */
static void margins_along{{.Suffix}}(const double *s, const double *c, const double *u, {{.Type}} *x, double *m, {{.Type}} *dm, {{.Type}} *moved)
{
    double s_next[NS], c_next[CONTEXT], value[MARGINS_ROOM];
    {{.Type}} after[CONTEXT];
{{- if .Y.EscapeSteps}}
    double state[NS], context[CONTEXT], away[NU], slope[ESCAPE_ROOM];
    int k, i;
{{- end}}

    step_along{{.Suffix}}(s, c, u, x, s_next, c_next, after);
    if (moved) {
        memcpy(moved, x + AT_NEXT, NS * sizeof *x);
        memcpy(moved + NS, after, NC * sizeof *after);
    }
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

