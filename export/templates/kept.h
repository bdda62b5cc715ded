{{if .KeepsOff}}/* The same with so much kept off each margin, at each stage of an episode{{if .Spec.Horizon}}, all alike{{end}}; a null pointer: nothing. */
unsigned gpc_{{.Symbol}}_act_kept(gpc_{{.Symbol}}_loop *loop, const double (*kept)[GPC_{{.Macro}}_MARGINS], const double s[], const double c[], const double *w, double u[]);

/* The actions of the plan that was decided last, and how many they are. */
const double *gpc_{{.Symbol}}_ahead(const gpc_{{.Symbol}}_loop *loop, int *count);

{{end}}