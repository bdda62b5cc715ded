/* Whether all that is measured was used. */
static int trusted(const measured *m)
{
    int i;

    for (i = 0; i < NY; i++)
        if (m->fault[i] != GPC_{{.Macro}}_FINE)
            return 0;
    return 1;
}

/* Whether a context is that of a stage in all that the limits depend on, but for what is estimated. */
static int foresees(const stage *at, const double *c)
{
{{- if .Observer.Foreseen}}
    static const unsigned short foreseen[] = { {{range .Observer.Foreseen}}{{.}}, {{end}}};
    size_t i;

    for (i = 0; i < sizeof foreseen / sizeof *foreseen; i++) {
        const double v = at->c[foreseen[i]];

        if (!(fabs(c[foreseen[i]] - v) <= {{constant .Rounded}} * (1.0 + fabs(v))))
            return 0;
    }
{{- else}}
    (void)at;
    (void)c;
{{- end}}
    return 1;
}

static int finite_all(const double *v, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (!number(v[i]))
            return 0;
    return 1;
}

static int keeps(double margin) { return margin >= -GPC_{{.Macro}}_TOLERANCE; }

/* Follows the plan along which it was found what is kept off, if that keeps its limits. */
static void begin_plan(measured *m, int steps)
{
    double next[NS], after[CONTEXT], margins[ALL];
    const stage *last = m->all + AHEAD + steps - 1;
    int t, i;

    m->steps = m->at = 0;
    for (t = 0; t < steps; t++) {
        stage *at = m->all + AHEAD + t;
        const double *row = kept_in(m, at->c);

        if (t > 0 && gpc_{{.Symbol}}_failed(at->s, at->c))
            return;
        gpc_{{.Symbol}}_margins(at->s, at->c, at->u, margins);
        for (i = 0; i < ALL; i++) {
            at->of.found.room[i] = margins[i] - row[i];
            if (!keeps(at->of.found.room[i]))
                return;
        }
    }
    gpc_{{.Symbol}}_step(last->s, last->c, last->u, next, after);
    if (!finite_all(next, NS) || gpc_{{.Symbol}}_failed(next, after))
        return;
    gpc_{{.Symbol}}_state_margins(next, after, margins);
    if (keeps(gpc_{{.Symbol}}_least(margins)))
        m->steps = steps;
}

/* Finds in the present state what is to be kept off, and follows that plan. */
static void renew(measured *m)
{
    const int steps = remaining(m->c), ahead = m->at > 0 && m->at + steps == m->steps ? m->at : 0;

    m->steps = 0;
    if (keep_along(m, m->all, ahead))
        begin_plan(m, steps);
}

/* Whether the feedback keeps the limits from where an action leads, to first order; the action with the rest of the plan then is the one
 * that was decided. */
static int follows(measured *m, unsigned status, const double *u)
{
    double s[NS], c[CONTEXT], off[N];
    const stage *at = m->all + AHEAD + m->at + 1;
    int t, i, k;

    if (status & (GPC_{{.Macro}}_BAD_ACTION | GPC_{{.Macro}}_MARGIN) || m->at + 1 >= m->steps)
        return 0;
    gpc_{{.Symbol}}_step(m->s, m->c, u, s, c);
    if (!finite_all(s, NS) || gpc_{{.Symbol}}_failed(s, c) || !foresees(at, c))
        return 0;
    for (k = 0; k < NS; k++)
        off[k] = s[k] - at->s[k];
{{- if .Observer.Unknown}}
    for (k = 0; k < UNKNOWN; k++)
        off[NS + k] = c[unknown[k]] - at->c[unknown[k]];
{{- end}}
    for (t = m->at + 1; t < m->steps; t++, at++) {
        double then[N];

        for (i = 0; i < ALL; i++) {
            double room = at->of.found.room[i];

            for (k = 0; k < N; k++)
                room += at->of.found.margins[i][k] * off[k];
            if (!keeps(room))
                return 0;
        }
        for (i = 0; i < N; i++) {
            then[i] = 0.0;
            for (k = 0; k < N; k++)
                then[i] += at->of.found.step[i][k] * off[k];
        }
        memcpy(off, then, sizeof off);
    }
    memcpy(m->plan, u, NU * sizeof *u);
    for (t = m->at + 1; t < m->steps; t++)
        memcpy(m->plan + (t - m->at) * NU, m->all[AHEAD + t].u, NU * sizeof *u);
    m->planned = m->steps - m->at;
    gpc_{{.Symbol}}_accept(&m->loop, m->plan, m->planned);
    return 1;
}

/* Gives the roll-outs the plan from the present state on. */
static void offer(measured *m)
{
    const int steps = remaining(m->c);
    double plan[(LOOK + 1) * NU];
    int t;

    memcpy(plan, m->u, NU * sizeof *plan); /* is not read */
    for (t = 0; t < steps; t++)
        memcpy(plan + (t + 1) * NU, m->all[AHEAD + t].u, NU * sizeof *plan);
    gpc_{{.Symbol}}_accept(&m->loop, plan, steps + 1);
}

/* Decides with what the plan before asks to be kept off. While the plant stays beside a plan whose feedback keeps the limits, that is what it
 * asked when it was found, but for the present errors. */
static unsigned along(measured *m, const double *w, double *u)
{
    const double (*kept)[ALL] = (const double (*)[ALL])m->kept;
    const int fresh = !(trusted(m) && m->at + 1 < m->steps && foresees(m->all + AHEAD + m->at, m->c));
    unsigned status;
    int follow;

    if (fresh)
        renew(m);
    else
        memcpy(kept_in(m, m->c), m->all[AHEAD + m->at].of.found.now, sizeof m->kept[0]);
    status = gpc_{{.Symbol}}_propose(kept, m->s, m->c, w, u);
    follow = follows(m, status, u);
    if (!follow && !fresh && !(status & GPC_{{.Macro}}_BAD_INPUT)) {
        renew(m);
        offer(m);
        status = gpc_{{.Symbol}}_propose(kept, m->s, m->c, w, u);
        follow = follows(m, status, u);
    }
    if (follow) {
        m->at++;
        return status;
    }
    m->steps = 0;
    status = gpc_{{.Symbol}}_guard(&m->loop, kept, m->s, m->c, w, status, u);
    remember(m, u);
    return status;
}

