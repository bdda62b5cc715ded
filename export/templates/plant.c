enum {
    NS = {{.NS}}, NC = {{.NC}}, CONTEXT = {{atLeastOne .NC}}, NU = {{.NU}}, NJ = {{.NJ}}, NM = {{.NM}}, ESCAPES = {{.Y.EscapeSteps}}, ALL = {{.All}},
    /* Where s, c, u and the next state stand among the inputs of a function. */
    AT_C = NS, AT_U = NS + NC, AT_NEXT = NS + NC + NU, INPUTS = NS + NC + NU + NS{{if .Filtered}},
    OUTPUTS = {{.Observer.NY}}, UNKNOWN = {{len .Observer.Unknown}}, ESTIMATED = NS + UNKNOWN{{end}}{{if .KeepsOff}},
    STEERED = ESTIMATED + NU{{end}}
};

static const double rest[NU] = { {{row .Y.Rest}} };
{{- if .HasEscape}}
static const double lowest[NU] = { {{row .Lo}} }, highest[NU] = { {{row .Hi}} }; /* both 0: no box */
{{- end}}

{{if .NM}}/* Derivatives of a number by each entry of the action. */
typedef double along[NU];

{{end}}{{if .Filtered}}/* Derivatives of a number by each entry that is estimated. */
typedef double estimated[ESTIMATED];

{{end}}{{if .KeepsOff}}/* Derivatives of a number by each entry that is estimated, then by each of the action. */
typedef double steered[STEERED];

{{end}}{{if .Integrator}}/* The length of a substep, its half and its sixth. */
static const double whole_period[3] = { {{constant .H}}, {{constant .Half}}, {{constant .Sixth}} };
{{- if .Fraction}}
static const double to_measured[3] = { {{row .Observer.Into}} }, from_measured[3] = { {{row .Observer.Remainder}} };
{{- end}}

{{end}}{{.Helpers}}
{{if .HasCorners}}double rounding = 1.0;

{{end}}{{.Functions}}
{{if eq .Integrator "rk4"}}/* {{.Y.Substeps}} steps of the classical Runge-Kutta method, u held; h is a step's length, its half and its sixth. */
static void integrate(const double *h, const double *s, const double *c, const double *u, double *next)
{
    double at[NS], slope[NS], sum[NS];
    int n, i;

    memcpy(next, s, sizeof at);
    for (n = 0; n < {{.Y.Substeps}}; n++) {
        ode(next, c, u, slope);
        for (i = 0; i < NS; i++)
            sum[i] = slope[i], at[i] = next[i] + h[1] * slope[i];
        ode(at, c, u, slope);
        for (i = 0; i < NS; i++)
            sum[i] = sum[i] + 2.0 * slope[i], at[i] = next[i] + h[1] * slope[i];
        ode(at, c, u, slope);
        for (i = 0; i < NS; i++)
            sum[i] = sum[i] + 2.0 * slope[i], at[i] = next[i] + h[0] * slope[i];
        ode(at, c, u, slope);
        for (i = 0; i < NS; i++)
            next[i] += h[2] * (sum[i] + slope[i]);
    }
}

{{else if eq .Integrator "radau"}}{{template "radau.c" .}}/* {{.Y.Substeps}} implicit steps, u held; h is a step's length, its half and its sixth. */
static void integrate(const double *h, const double *s, const double *c, const double *u, double *next)
{
    struct stages w;
    int n, i;

    w.length = h[0];
    memcpy(next, s, NS * sizeof *next);
    for (n = 0; n < {{.Y.Substeps}}; n++) {
        const int solved = solve(&w, next, c, u);

        for (i = 0; i < NS; i++)
            next[i] = solved ? w.stage[NS + i] : (double)NAN;
    }
}

{{end}}{{if .HasEscape}}/* Moves an action into its box. */
static void clip(double *u)
{
    int i;

    for (i = 0; i < NU; i++)
        if (lowest[i] != 0.0 || highest[i] != 0.0)
            u[i] = gpc_min(highest[i], gpc_max(lowest[i], u[i]));
}

{{end}}{{if .NM}}{{template "along.c" .Along}}{{template "margins.c" .Along}}{{end}}
{{- if .Filtered}}{{template "along.c" .AlongEstimated}}{{end}}
{{- if .KeepsOff}}{{template "along.c" .AlongSteered}}{{template "margins.c" .AlongSteered}}{{end -}}
void gpc_{{.Symbol}}_step(const double s[], const double c[], const double u[], double s_next[], double c_next[])
{
{{- if .Integrator}}
    integrate(whole_period, s, c, u, s_next);
    step(s, c, u, s_next, c_next);
{{- else}}
    step(s, c, u, s_next, c_next);
{{- end}}
}

double gpc_{{.Symbol}}_least(const double m[])
{
    double least = (double)INFINITY;
    int i;

    for (i = 0; i < ALL; i++)
        least = gpc_min(least, m[i]);
    return least;
}

int gpc_{{.Symbol}}_escape(const double s[], const double c[], double u[])
{
{{- if .HasEscape}}
    escape(s, c, u);
    clip(u);
    return 1;
{{- else}}
    (void)s, (void)c, (void)u;
    return 0;
{{- end}}
}

void gpc_{{.Symbol}}_rest(double u[]) { memcpy(u, rest, sizeof rest); }

int gpc_{{.Symbol}}_failed(const double s[], const double c[])
{
{{- if .HasFailed}}
    double lost[1];

    failed(s, c, lost);
    return lost[0] != 0.0;
{{- else}}
    (void)s, (void)c;
    return 0;
{{- end}}
}

void gpc_{{.Symbol}}_margins_to(const double s[], const double c[], const double u[], const double s_next[], const double c_next[], double m[])
{
{{- if .Y.EscapeSteps}}
    double state[NS], context[CONTEXT], next[NS], clock[CONTEXT], away[NU];
    int k;
{{- end}}
{{if .NM}}
    margins(s, c, u, s_next, m);
{{- else}}
    (void)s, (void)c, (void)u, (void)s_next, (void)m;
{{- end}}{{if not .Y.EscapeSteps}}
    (void)c_next;{{end}}
{{- if .Y.EscapeSteps}}
    memcpy(state, s_next, sizeof state);
    memcpy(context, c_next, NC * sizeof *c_next);
    for (k = 1; k <= ESCAPES; k++) {
        gpc_{{.Symbol}}_escape(state, context, away);
        gpc_{{.Symbol}}_step(state, context, away, next, clock);
        margins(state, context, away, next, m + k * NM);
        memcpy(state, next, sizeof state);
        memcpy(context, clock, NC * sizeof *clock);
    }
{{- end}}
}

void gpc_{{.Symbol}}_evaluate(const double s[], const double c[], const double u[], double s_next[], double c_next[], double j[], double m[])
{
    gpc_{{.Symbol}}_step(s, c, u, s_next, c_next);
    if (j)
        objectives(s, c, u, s_next, j);
    gpc_{{.Symbol}}_margins_to(s, c, u, s_next, c_next, m);
}

void gpc_{{.Symbol}}_margins(const double s[], const double c[], const double u[], double m[])
{
    double s_next[NS], c_next[CONTEXT];

    gpc_{{.Symbol}}_evaluate(s, c, u, s_next, c_next, NULL, m);
}
{{if .NM}}
void gpc_{{.Symbol}}_margins_along(const double s[], const double c[], const double u[], double m[], double dm[][NU])
{
    double s_next[NS], c_next[CONTEXT];
    along x[INPUTS], after[CONTEXT];
    int i;

    memset(x, 0, sizeof x);
    for (i = 0; i < NU; i++)
        x[AT_U + i][i] = 1.0;
    step_along(s, c, u, x, s_next, c_next, after);
    margins_behind(s, c, u, x, s_next, {{if .Y.EscapeSteps}}c_next, after, {{end}}m, dm);
}
{{else}}
void gpc_{{.Symbol}}_margins_along(const double s[], const double c[], const double u[], double m[], double dm[][NU])
{
    (void)s, (void)c, (void)u, (void)m, (void)dm;
}
{{end}}
void gpc_{{.Symbol}}_state_margins(const double s[], const double c[], double m[])
{
    int i;

{{- if .AnyOfState}}
    static const unsigned char of_state[NM] = { {{range .OfState}}{{if .}}1{{else}}0{{end}}, {{end}}};

    margins(s, c, rest, s, m);
    for (i = 0; i < ALL; i++)
        if (i >= NM || !of_state[i])
            m[i] = (double)INFINITY;
{{- else}}

    (void)s, (void)c;
    for (i = 0; i < ALL; i++)
        m[i] = (double)INFINITY;
{{- end}}
}

void gpc_{{.Symbol}}_objectives(const double s[], const double c[], const double u[], double j[])
{
    double s_next[NS], c_next[CONTEXT];

    gpc_{{.Symbol}}_step(s, c, u, s_next, c_next);
    objectives(s, c, u, s_next, j);
}

/* How urgent each objective is in a state, 0 to 1. */
static void urgencies(const double *s, const double *c, double *delta)
{
{{- if .HasUrgency}}
    urgency(s, c, delta);
{{- else}}
    static const double typical[NJ] = { {{row .Y.ObjectiveScale}} };
    int i;

    objectives(s, c, rest, s, delta);
    for (i = 0; i < NJ; i++) {
        delta[i] = gpc_max(0.0, delta[i]);
        delta[i] = delta[i] / (delta[i] + typical[i]);
    }
{{- end}}
}

void gpc_{{.Symbol}}_priority(const double s[], const double c[], double w[])
{
    static const double gain[NJ] = { {{row .Gain}} };
    double delta[NJ], top = 0.0, scale, sum = 0.0;
    int i;

    urgencies(s, c, delta);
    for (i = 0; i < NJ; i++)
        top = gpc_max(top, gain[i] * delta[i]);
    scale = exp(-top);
    for (i = 0; i < NJ; i++) {
        w[i] = exp(gain[i] * delta[i] - top) - scale + {{constant .Spec.Semantic.Rho}} * scale;
        sum += w[i];
    }
    for (i = 0; i < NJ; i++)
        w[i] /= sum;
}

double gpc_{{.Symbol}}_cost(const double s[], const double c[], const double *w, const double u[])
{
    double j[NJ], own[NJ], cost = 0.0;
    int i;

    if (!w) {
        gpc_{{.Symbol}}_priority(s, c, own);
        w = own;
    }
    gpc_{{.Symbol}}_objectives(s, c, u, j);
    for (i = 0; i < NJ; i++)
        cost += w[i] * j[i];
    return cost;
}

void gpc_{{.Symbol}}_initial(const double p[], double s[], double c[]) { initial(p, s, c); }
{{if .Filtered}}{{template "outputs.c" .}}{{end}}
{{- if .Fraction}}
/* How far into a period its measurement is made, and from there to its end. */
void gpc_{{.Symbol}}_to_measured(const double s[], const double c[], const double u[], double s_next[]) { integrate(to_measured, s, c, u, s_next); }

void gpc_{{.Symbol}}_from_measured(const double s[], const double c[], const double u[], double s_next[], double c_next[])
{
    gpc_{{.Symbol}}_step(s, c, u, s_next, c_next);
    integrate(from_measured, s, c, u, s_next);
}
{{end}}