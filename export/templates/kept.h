{{if .KeepsOff}}/* The same with so much kept off each margin, at each stage of an episode{{if .Spec.Horizon}}, all alike{{end}}; a null pointer: nothing. */
unsigned gpc_{{.Symbol}}_act_kept(gpc_{{.Symbol}}_loop *loop, const double (*kept)[GPC_{{.Macro}}_MARGINS], const double s[], const double c[], const double *w, double u[]);

/* The actions of the plan that was decided last, and how many they are. */
const double *gpc_{{.Symbol}}_ahead(const gpc_{{.Symbol}}_loop *loop, int *count);
{{- if .Follows}}

/* The two parts of a decision with so much kept off: the map's action, projected, and what its roll-out makes of that and of its status. */
unsigned gpc_{{.Symbol}}_propose(const double (*kept)[GPC_{{.Macro}}_MARGINS], const double s[], const double c[], const double *w, double u[]);
unsigned gpc_{{.Symbol}}_guard(gpc_{{.Symbol}}_loop *loop, const double (*kept)[GPC_{{.Macro}}_MARGINS], const double s[], const double c[], const double *w, unsigned status, double u[]);

/* Makes so many actions the plan that was decided last. */
void gpc_{{.Symbol}}_accept(gpc_{{.Symbol}}_loop *loop, const double *plan, int count);
{{- end}}

{{end}}