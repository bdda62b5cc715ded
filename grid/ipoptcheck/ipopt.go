//go:build ipopt

package ipoptcheck

/*
#cgo CFLAGS: -I/usr/include/coin
#cgo LDFLAGS: -lipopt
#include <stdlib.h>
#include <IpStdCInterface.h>
#include <IpoptConfig.h>

extern Bool gpcObjective(Index n, Number *x, Bool new_x, Number *value, UserDataPtr data);
extern Bool gpcGradient(Index n, Number *x, Bool new_x, Number *out, UserDataPtr data);
extern Bool gpcConstraints(Index n, Number *x, Bool new_x, Index m, Number *out, UserDataPtr data);
extern Bool gpcJacobian(Index n, Number *x, Bool new_x, Index m, Index count, Index *row, Index *column, Number *values, UserDataPtr data);
extern Bool gpcHessian(Index n, Number *x, Bool new_x, Number factor, Index m, Number *lambda, Bool new_lambda, Index count, Index *row, Index *column, Number *values, UserDataPtr data);
extern Bool gpcProgress(Index mode, Index iteration, Number value, Number primal, Number dual, Number mu, Number step, Number regularization, Number alpha_dual, Number alpha_primal, Index trials, UserDataPtr data);

static IpoptProblem create(Index n, Number *xlo, Number *xhi, Index m, Number *glo, Number *ghi, Index jacobian, Index hessian) {
	IpoptProblem p = CreateIpoptProblem(n, xlo, xhi, m, glo, ghi, jacobian, hessian, 0,
		gpcObjective, gpcConstraints, gpcGradient, gpcJacobian, gpcHessian);
	if (p) SetIntermediateCallback(p, gpcProgress);
	return p;
}

static int solve(IpoptProblem p, Number *x, Number *value, void *handle) {
	return IpoptSolve(p, x, NULL, value, NULL, NULL, NULL, handle);
}
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"time"
	"unsafe"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
)

// Version is that of the IPOPT this program was compiled against.
const Version = C.IPOPT_VERSION

// Solution is what IPOPT ended with.
type Solution struct {
	Optimal    bool // IPOPT's "Solve_Succeeded"
	Status     int  // IPOPT's ApplicationReturnStatus
	Iterations int
	Objective  float64
	J          [3]float64 // raw J₁, J₂, J₃
	Vm, Va     []float64  // by bus, pu and rad
	Pg, Qg     []float64  // by generator, pu
	Wall       time.Duration
}

// Program is one problem as IPOPT holds it; it can be solved again and again.
type Program struct {
	f          *formulation // of what a solution has first
	nlp        nonlinear
	problem    C.IpoptProblem
	iterations int
	refused    string // an option
}

func (s *shape) of() *shape { return s }

// nonlinear is a nonlinear program in that form.
type nonlinear interface {
	of() *shape
	objective(x []float64) float64
	gradient(x, out []float64)
	constraints(x, out []float64)
	visitJacobian(x []float64, add func(row, column int, value float64))
	visitHessian(x []float64, factor float64, lambda []float64, add func(row, column int, value float64))
}

// Settings are what New asks of IPOPT.
type Settings int

const (
	// Exact stops at 1e-9 on the problem as it is: for comparing optima. IPOPT's
	// own scaling would loosen that by the size of the objective's gradient.
	Exact Settings = iota
	// Default is IPOPT as it comes, to 1e-8 on a scaled problem: for comparing times.
	Default
)

// New formulates a problem on a network. Close frees what it holds outside Go.
func New(n *network.Network, pr *acopf.Problem, settings Settings) (*Program, error) {
	f, err := formulate(n, pr)
	if err != nil {
		return nil, err
	}
	return newProgram(f, f, settings)
}

// newProgram hands a nonlinear program to IPOPT.
func newProgram(f *formulation, nlp nonlinear, settings Settings) (*Program, error) {
	s := nlp.of()
	number := func(v []float64) *C.Number { return (*C.Number)(unsafe.SliceData(v)) }
	p := &Program{f: f, nlp: nlp}
	p.problem = C.create(C.Index(len(s.x0)), number(s.xlo), number(s.xhi), C.Index(len(s.glo)), number(s.glo), number(s.ghi),
		C.Index(len(s.jacobian.row)), C.Index(len(s.hessian.row)))
	if p.problem == nil {
		return nil, fmt.Errorf("ipoptcheck: IPOPT refused network %s", f.net.Name)
	}
	taken := p.text("sb", "yes") && p.whole("print_level", 0) && p.whole("max_iter", 500)
	if settings == Exact {
		taken = taken && p.text("nlp_scaling_method", "none") && p.number("tol", 1e-9) &&
			p.number("constr_viol_tol", 1e-9) && p.number("bound_relax_factor", 0)
	}
	if !taken {
		p.Close()
		return nil, fmt.Errorf("ipoptcheck: IPOPT does not take the option %s", p.refused)
	}
	return p, nil
}

// Limit ends solves that take more CPU time.
func (p *Program) Limit(cpu time.Duration) error {
	if !p.number("max_cpu_time", cpu.Seconds()) {
		return fmt.Errorf("ipoptcheck: IPOPT does not take the option %s", p.refused)
	}
	return nil
}

// text, whole and number set an option and say whether IPOPT took it.
func (p *Program) text(name, value string) bool {
	v := C.CString(value)
	defer C.free(unsafe.Pointer(v))
	return p.set(name, func(k *C.char) C.Bool { return C.AddIpoptStrOption(p.problem, k, v) })
}

func (p *Program) whole(name string, value int) bool {
	return p.set(name, func(k *C.char) C.Bool { return C.AddIpoptIntOption(p.problem, k, C.Int(value)) })
}

func (p *Program) number(name string, value float64) bool {
	return p.set(name, func(k *C.char) C.Bool { return C.AddIpoptNumOption(p.problem, k, C.Number(value)) })
}

func (p *Program) set(name string, do func(*C.char) C.Bool) bool {
	k := C.CString(name)
	defer C.free(unsafe.Pointer(k))
	if do(k) == 0 {
		p.refused = name
		return false
	}
	return true
}

// Close frees the program. It must not be used afterwards.
func (p *Program) Close() { C.FreeIpoptProblem(p.problem) }

// Solve runs IPOPT from the flat start.
func (p *Program) Solve() Solution {
	f := p.f
	x := append([]float64(nil), p.nlp.of().x0...)
	handle := cgo.NewHandle(p)
	defer handle.Delete()
	p.iterations = 0
	var value C.Number
	start := time.Now()
	status := int(C.solve(p.problem, (*C.Number)(unsafe.SliceData(x)), &value, unsafe.Pointer(&handle)))
	wall := time.Since(start)
	nb, ng := f.net.Buses(), f.net.Gens()
	return Solution{
		Optimal: status == 0, Status: status, Iterations: p.iterations, Objective: float64(value), J: f.objectives(x),
		Va: x[:nb], Vm: x[nb : 2*nb], Pg: x[2*nb : 2*nb+ng], Qg: x[2*nb+ng : 2*nb+2*ng], Wall: wall,
	}
}

func program(data C.UserDataPtr) *Program { return (*cgo.Handle)(data).Value().(*Program) }

func floats(p *C.Number, n C.Index) []float64 { return unsafe.Slice((*float64)(p), int(n)) }

//export gpcObjective
func gpcObjective(n C.Index, x *C.Number, fresh C.Bool, value *C.Number, data C.UserDataPtr) C.Bool {
	*value = C.Number(program(data).nlp.objective(floats(x, n)))
	return 1
}

//export gpcGradient
func gpcGradient(n C.Index, x *C.Number, fresh C.Bool, out *C.Number, data C.UserDataPtr) C.Bool {
	program(data).nlp.gradient(floats(x, n), floats(out, n))
	return 1
}

//export gpcConstraints
func gpcConstraints(n C.Index, x *C.Number, fresh C.Bool, m C.Index, out *C.Number, data C.UserDataPtr) C.Bool {
	program(data).nlp.constraints(floats(x, n), floats(out, m))
	return 1
}

//export gpcJacobian
func gpcJacobian(n C.Index, x *C.Number, fresh C.Bool, m, count C.Index, row, column *C.Index, values *C.Number, data C.UserDataPtr) C.Bool {
	f := program(data).nlp
	s := f.of()
	if values == nil {
		copy(unsafe.Slice((*int32)(row), int(count)), s.jacobian.row)
		copy(unsafe.Slice((*int32)(column), int(count)), s.jacobian.column)
		return 1
	}
	f.visitJacobian(floats(x, n), s.jacobian.fill(floats(values, count)))
	return 1
}

//export gpcHessian
func gpcHessian(n C.Index, x *C.Number, fresh C.Bool, factor C.Number, m C.Index, lambda *C.Number, freshLambda C.Bool, count C.Index, row, column *C.Index, values *C.Number, data C.UserDataPtr) C.Bool {
	f := program(data).nlp
	s := f.of()
	if values == nil {
		copy(unsafe.Slice((*int32)(row), int(count)), s.hessian.row)
		copy(unsafe.Slice((*int32)(column), int(count)), s.hessian.column)
		return 1
	}
	f.visitHessian(floats(x, n), float64(factor), floats(lambda, m), s.hessian.fill(floats(values, count)))
	return 1
}

//export gpcProgress
func gpcProgress(mode, iteration C.Index, value, primal, dual, mu, step, shift, alphaDual, alphaPrimal C.Number, trials C.Index, data C.UserDataPtr) C.Bool {
	program(data).iterations = int(iteration)
	return 1
}
