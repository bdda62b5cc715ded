// IPOPT's C interface builds every solve anew: the C++ interface alone keeps what a program is analysed for.
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpcProgram gpcProgram;

// gpcCreate describes a program of n variables and m constraints, whose derivatives have so many entries. Limits and start are
// copied; handle goes to every callback. NULL where IPOPT does not begin.
gpcProgram *gpcCreate(int n, int m, int jacobian, int hessian, const double *xlo, const double *xhi, const double *glo,
	const double *ghi, const double *x0, uintptr_t handle);
bool gpcText(gpcProgram *p, const char *option, const char *value);
bool gpcWhole(gpcProgram *p, const char *option, int value);
bool gpcNumber(gpcProgram *p, const char *option, double value);
// gpcSolve solves from the start, again with what IPOPT analysed in the last solve, and gives IPOPT's ApplicationReturnStatus.
int gpcSolve(gpcProgram *p, bool again, double *x, double *objective);
void gpcFree(gpcProgram *p);
void gpcVersion(int *major, int *minor, int *release);

// What Go evaluates; of a derivative without values, the places of its entries.
void gpcObjective(uintptr_t handle, double *x, double *value);
void gpcGradient(uintptr_t handle, double *x, double *out);
void gpcConstraints(uintptr_t handle, double *x, double *out);
void gpcJacobian(uintptr_t handle, double *x, int *row, int *column, double *values);
void gpcHessian(uintptr_t handle, double *x, double factor, double *lambda, int *row, int *column, double *values);
void gpcProgress(uintptr_t handle, int iteration);

#ifdef __cplusplus
}
#endif
