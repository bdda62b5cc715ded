static void feedback(const loop *p, int t, const double *xi, double *u);

/* The Riccati recursion as the exported C has it, by the lanes of a warp: entries of matrices side by side, the actions' small block on
 * every lane. */
GPC_ALONE static int factor_shifted(loop *p, double shift, int reflections)
{
    int t, e, i, j, k;

    for (t = p->steps - 1; t >= 0; t--) {
        along block[NU];
        double l[NU][NU] = { { 0.0 } }, y[NU];

        for (e = gpc_lane(); e < NA * D; e += GPC_WARP) {
            double v = 0.0;

            for (k = 0; k < NA; k++)
                v += p->value[t + 1][e / D][k] * p->next[t][k][e % D];
            p->product[e / D][e % D] = v;
        }
        __syncwarp();
        for (e = gpc_lane(); e < D * D; e += GPC_WARP) {
            const int a = e / D, b = e % D;
            double v = p->h[t][a][b] + (a == b ? shift : 0.0);

            for (k = 0; k < NA && b <= a; k++)
                v += p->next[t][k][a] * p->product[k][b];
            if (b <= a)
                p->matrix[a][b] = v;
        }
        __syncwarp();
        for (i = 0; i < NU; i++)
            memcpy(block[i], p->matrix[i], NU * sizeof **block);
        if (!cholesky(block, l)) {
            if (reflections-- == 0)
                return 0;
            reflect(block);
            if (!cholesky(block, l))
                return 0;
        }
        if (gpc_lane() == 0)
            memcpy(p->l[t], l, sizeof l);
        for (i = gpc_lane(); i < NA; i += GPC_WARP) {
            for (j = 0; j < NU; j++)
                y[j] = (p->matrix[NU + i][j] - dot(l[j], y, j)) / l[j][j];
            memcpy(p->y[t][i], y, sizeof y);
        }
        __syncwarp();
        for (e = gpc_lane(); e < NA * NA; e += GPC_WARP) {
            i = e / NA, j = e % NA;
            if (j <= i)
                p->value[t][i][j] = p->value[t][j][i] = p->matrix[NU + i][NU + j] - dot(p->y[t][i], p->y[t][j], NU);
        }
        __syncwarp();
    }
    return 1;
}

/* The solution of the quadratic program for the defects in p->defect. */
GPC_ALONE static void recurse(loop *p)
{
    double u[NU];
    int t, i, j, a;

    {{.Steps}}
        barrier_gradient(p, t, p->w[t]);
    if (gpc_lane() == 0) {
        memset(p->linear[p->steps], 0, sizeof p->linear[p->steps]);
{{- if .Spec.Horizon}}
        add_behind(p, p->iterates[p->now].x[p->steps], p->objective_scale, p->linear[p->steps]);
{{- end}}
    }
    __syncwarp();
    for (t = p->steps - 1; t >= 0; t--) {
        double *w = p->w[t];

        for (i = gpc_lane(); i < NA; i += GPC_WARP)
            p->turn[i] = p->linear[t + 1][i] + dot(p->value[t + 1][i], p->defect[t], NA);
        __syncwarp();
        for (a = gpc_lane(); a < D; a += GPC_WARP) {
            double v = w[a];

            for (i = 0; i < NA; i++)
                v += p->turn[i] * p->next[t][i][a];
            w[a] = v;
        }
        __syncwarp();
        for (j = 0; j < NU; j++)
            u[j] = (w[j] - dot(p->l[t][j], u, j)) / p->l[t][j][j];
        for (i = gpc_lane(); i < NA; i += GPC_WARP)
            p->linear[t][i] = w[NU + i] - dot(p->y[t][i], u, NU);
        if (gpc_lane() == 0)
            memcpy(p->lead[t], u, sizeof u);
        __syncwarp();
    }
    for (i = gpc_lane(); i < NA; i += GPC_WARP)
        p->w[0][NU + i] = 0.0;
    __syncwarp();
    for (t = 0; t < p->steps; t++) {
        double *to = t + 1 < p->steps ? p->w[t + 1] + NU : p->last;

        memcpy(u, p->lead[t], sizeof u);
        feedback(p, t, p->w[t] + NU, u);
        for (i = gpc_lane(); i < NA; i += GPC_WARP)
            to[i] = p->defect[t][i] + dot(p->next[t][i], u, NU) + dot(p->next[t][i] + NU, p->w[t] + NU, NA);
        if (gpc_lane() == 0)
            memcpy(p->w[t], u, sizeof u);
        __syncwarp();
    }
    {{.Points}} {
        const double *xi = t < p->steps ? p->w[t] + NU : p->last;

        for (i = 0; i < NA; i++)
            p->new_lambda[t][i] = p->linear[t][i] + dot(p->value[t][i], xi, NA);
    }
    __syncwarp();
}

