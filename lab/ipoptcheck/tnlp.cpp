//go:build ipopt

#include "tnlp.h"

#include <IpIpoptApplication.hpp>
#include <IpTNLP.hpp>

#include <algorithm>
#include <vector>

using namespace Ipopt;

namespace {

using Vector = std::vector<Number>;

void copy(const Vector &from, Number *to) { std::copy(from.begin(), from.end(), to); }

// Program is a nonlinear program whose functions are Go's, with the last solution.
class Program : public TNLP {
public:
	Index jacobian, hessian;
	Vector xlo, xhi, glo, ghi, x0, x;
	Number objective = 0;
	uintptr_t handle;

	bool get_nlp_info(Index &n, Index &m, Index &nnz_jac_g, Index &nnz_h_lag, IndexStyleEnum &style) override {
		n = x0.size(), m = glo.size(), nnz_jac_g = jacobian, nnz_h_lag = hessian, style = C_STYLE;
		return true;
	}
	bool get_bounds_info(Index, Number *x_l, Number *x_u, Index, Number *g_l, Number *g_u) override {
		copy(xlo, x_l), copy(xhi, x_u), copy(glo, g_l), copy(ghi, g_u);
		return true;
	}
	bool get_starting_point(Index, bool, Number *at, bool, Number *, Number *, Index, bool, Number *) override {
		copy(x0, at);
		return true;
	}
	bool eval_f(Index, const Number *at, bool, Number &value) override {
		gpcObjective(handle, const_cast<Number *>(at), &value);
		return true;
	}
	bool eval_grad_f(Index, const Number *at, bool, Number *out) override {
		gpcGradient(handle, const_cast<Number *>(at), out);
		return true;
	}
	bool eval_g(Index, const Number *at, bool, Index, Number *out) override {
		gpcConstraints(handle, const_cast<Number *>(at), out);
		return true;
	}
	bool eval_jac_g(Index, const Number *at, bool, Index, Index, Index *row, Index *column, Number *values) override {
		gpcJacobian(handle, const_cast<Number *>(at), row, column, values);
		return true;
	}
	bool eval_h(Index, const Number *at, bool, Number factor, Index, const Number *lambda, bool, Index, Index *row, Index *column,
		Number *values) override {
		gpcHessian(handle, const_cast<Number *>(at), factor, const_cast<Number *>(lambda), row, column, values);
		return true;
	}
	bool intermediate_callback(AlgorithmMode, Index iteration, Number, Number, Number, Number, Number, Number, Number, Number, Index,
		const IpoptData *, IpoptCalculatedQuantities *) override {
		gpcProgress(handle, iteration);
		return true;
	}
	void finalize_solution(SolverReturn, Index n, const Number *at, const Number *, const Number *, Index, const Number *,
		const Number *, Number value, const IpoptData *, IpoptCalculatedQuantities *) override {
		x.assign(at, at + n), objective = value;
	}
};

} // namespace

struct gpcProgram {
	SmartPtr<Program> nlp;
	SmartPtr<IpoptApplication> app;
};

gpcProgram *gpcCreate(int n, int m, int jacobian, int hessian, const double *xlo, const double *xhi, const double *glo,
	const double *ghi, const double *x0, uintptr_t handle) {
	SmartPtr<Program> nlp = new Program;
	nlp->jacobian = jacobian, nlp->hessian = hessian, nlp->handle = handle;
	nlp->xlo.assign(xlo, xlo + n), nlp->xhi.assign(xhi, xhi + n), nlp->glo.assign(glo, glo + m), nlp->ghi.assign(ghi, ghi + m);
	nlp->x0.assign(x0, x0 + n), nlp->x = nlp->x0;
	SmartPtr<IpoptApplication> app = IpoptApplicationFactory();
	// Without the file ipopt.opt of the folder that it happens to run in.
	if (app->Initialize("") != Solve_Succeeded) return nullptr;
	return new gpcProgram{nlp, app};
}

bool gpcText(gpcProgram *p, const char *option, const char *value) { return p->app->Options()->SetStringValue(option, value); }
bool gpcWhole(gpcProgram *p, const char *option, int value) { return p->app->Options()->SetIntegerValue(option, value); }
bool gpcNumber(gpcProgram *p, const char *option, double value) { return p->app->Options()->SetNumericValue(option, value); }

int gpcSolve(gpcProgram *p, bool again, double *x, double *objective) {
	p->app->Options()->SetStringValue("warm_start_same_structure", again ? "yes" : "no");
	SmartPtr<TNLP> nlp = GetRawPtr(p->nlp);
	ApplicationReturnStatus status = again ? p->app->ReOptimizeTNLP(nlp) : p->app->OptimizeTNLP(nlp);
	copy(p->nlp->x, x);
	*objective = p->nlp->objective;
	return status;
}

void gpcFree(gpcProgram *p) { delete p; }

void gpcVersion(int *major, int *minor, int *release) { IpoptApplication::Version(*major, *minor, *release); }
